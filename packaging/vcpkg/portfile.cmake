# Tandem for vcpkg, built by Bazel from the tree that this port lies in; the libraries that it stands
# on are the system's (tools/install_dependencies.sh).
#
#   vcpkg install tandem --overlay-ports=packaging/vcpkg
#
# CMake's files stay in lib/cmake/tandem, where find_package looks too: they find the library from
# there. There is one build, optimised.
set(VCPKG_BUILD_TYPE release)
set(VCPKG_POLICY_MISMATCHED_NUMBER_OF_BINARIES enabled)
set(VCPKG_POLICY_SKIP_MISPLACED_CMAKE_FILES_CHECK enabled)
find_program(BAZEL bazel REQUIRED)
get_filename_component(TREE "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
vcpkg_execute_required_process(
  COMMAND "${BAZEL}" run //tools:install -- --prefix "${CURRENT_PACKAGES_DIR}"
  WORKING_DIRECTORY "${TREE}"
  LOGNAME "bazel-${TARGET_TRIPLET}")
file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/tools/${PORT}")
file(RENAME "${CURRENT_PACKAGES_DIR}/bin/tandem" "${CURRENT_PACKAGES_DIR}/tools/${PORT}/tandem")
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/bin")
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${TREE}/LICENSE")
