#!/usr/bin/python3
"""Installs Tandem for programs that are built without Bazel: the public headers, one static and one
shared library, the command `tandem` with its manual page and bash completion, and what pkg-config
and CMake ask for.

    bazel run //tools:install -- [--prefix /usr/local] [--libdir lib] [--root FOLDER]

A program then includes <tandem/tandem.h> and is built with `pkg-config --cflags --libs tandem`.
--libdir is where libraries lie below the prefix (Debian: lib/x86_64-linux-gnu). --root is put
before every path that is written, but not into the files (a package's DESTDIR). Everybody can read
the files, whatever the umask is.
"""
import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys

VERSION = re.compile(r"#define TDM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)")
# Those whose MPI, or CUDA toolkit, was there when they were to be built.
PLUGINS = ("net/libtandem_mpich.so", "net/libtandem_openmpi.so", "devices/cuda/libtandem_cuda.so")
# Those of docs/first_hour.md.
EXAMPLES = ("examples/first_model.c", "examples/first_steps/baskets.h",
            "examples/first_hour.c", "examples/first_steps/training.h")
# Prefixes whose headers, libraries and .pc files are found by default.
SYSTEM_PREFIXES = ("/usr", "/usr/local")
INCLUDE = re.compile(r'#include "tandem/([^"]+)"')

PKG_CONFIG = """prefix={prefix}
includedir=${{prefix}}/include
libdir=${{prefix}}/{libdir}

Name: Tandem
Description: Models that live on more than one device
Version: {version}
Cflags: -I"${{includedir}}"
Libs: -L"${{libdir}}" -ltandem
Libs.private: {private}
"""

CMAKE = """# find_package(tandem) makes the target tandem::tandem, the shared library.
# Where /lib leads to /usr/lib, and this was found in /lib, the prefix is /usr.
get_filename_component(_tandem_prefix "${{CMAKE_CURRENT_LIST_DIR}}" REALPATH)
get_filename_component(_tandem_prefix "${{_tandem_prefix}}/{up}" ABSOLUTE)
if(NOT TARGET tandem::tandem)
  add_library(tandem::tandem SHARED IMPORTED)
  set_target_properties(tandem::tandem PROPERTIES
    IMPORTED_LOCATION "${{_tandem_prefix}}/{libdir}/{shared}"
    IMPORTED_SONAME "{soname}"
    INTERFACE_INCLUDE_DIRECTORIES "${{_tandem_prefix}}/include")
endif()
set(tandem_VERSION {version})
"""

CMAKE_VERSION = """set(PACKAGE_VERSION {version})
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
# Before 1.0 a minor version may break programs.
if(PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION
   AND PACKAGE_FIND_VERSION VERSION_GREATER_EQUAL {major}.{minor})
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"""


def public_headers(header="tandem.h", found=None):
    """tandem.h and what it includes, which are public all of them (tests/walls)."""
    found = [] if found is None else found
    if header not in found:
        found.append(header)
        with open(header, encoding="utf-8") as text:
            for included in INCLUDE.findall(text.read()):
                public_headers(included, found)
    return found


class Destination:
    """The folder that is installed to."""

    def __init__(self, root, prefix):
        self.folder = os.path.join(root, prefix.lstrip("/")) if root else prefix

    def path(self, name):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def copy(self, source, name, mode=0o644):
        path = self.path(name)
        if os.path.lexists(path):
            os.remove(path)
        shutil.copyfile(source, path)
        os.chmod(path, mode)

    def link(self, name, target):
        path = self.path(name)
        if os.path.lexists(path):
            os.remove(path)
        os.symlink(target, path)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)


def copy_libraries(to, libdir, shared, soname):
    """The libraries and the plug-ins, in libdir."""
    to.copy(shared, f"{libdir}/{shared}", 0o755)
    to.link(f"{libdir}/{soname}", shared)
    to.link(f"{libdir}/libtandem.so", soname)
    to.copy("libtandem.a", f"{libdir}/libtandem.a")
    for plugin in PLUGINS:
        if os.path.exists(plugin):
            to.copy(plugin, f"{libdir}/tandem/{os.path.basename(plugin)}", 0o755)


def install(to, prefix, libdir="lib"):
    """Installs all; the version that it is."""
    with open("core/core.h", encoding="utf-8") as text:
        major, minor, patch = VERSION.findall(text.read())
    version = f"{major}.{minor}.{patch}"
    shared, soname = f"libtandem.so.{version}", f"libtandem.so.{major}.{minor}"
    with open("tandem.libs", encoding="utf-8") as text:
        flags = text.read().strip()

    for header in public_headers():
        to.copy(header, f"include/tandem/{header}")
    to.copy("tandem.hpp", "include/tandem/tandem.hpp")
    to.copy("tools/moved_header.h", "include/tandem.h")
    copy_libraries(to, libdir, shared, soname)
    to.copy("tools/tandem_apart", "bin/tandem", 0o755)
    to.copy("tools/tandem.1", "share/man/man1/tandem.1")
    to.copy("tools/tandem.bash", "share/bash-completion/completions/tandem")
    up = os.path.relpath(".", f"{libdir}/cmake/tandem")  # from CMake's files to the prefix
    values = {"prefix": prefix, "libdir": libdir, "up": up,
              "version": version, "major": major, "minor": minor,
              "shared": shared, "soname": soname, "private": flags}
    to.write(f"{libdir}/pkgconfig/tandem.pc", PKG_CONFIG.format(**values))
    to.write(f"{libdir}/cmake/tandem/tandem-config.cmake", CMAKE.format(**values))
    to.write(f"{libdir}/cmake/tandem/tandem-config-version.cmake",
             CMAKE_VERSION.format(**values))
    for example in EXAMPLES:
        to.copy(example, f"share/tandem/{example}")
    to.copy("LICENSE", "share/doc/tandem/LICENSE")
    return version


def let_find(prefix, libdir):
    """Updates the dynamic linker's cache for system prefixes; prints the settings for others."""
    folder = os.path.join(prefix, libdir)
    if prefix not in SYSTEM_PREFIXES:
        print(f"PKG_CONFIG_PATH={shlex.quote(folder + '/pkgconfig')} lets pkg-config find it")
        print(f"LD_LIBRARY_PATH={shlex.quote(folder)} lets programs find it")
        return
    tool = shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not tool or subprocess.run([tool], stderr=subprocess.DEVNULL, check=False).returncode:
        print("`ldconfig`, called by root, lets programs find it")


def main():
    """The exit status."""
    parser = argparse.ArgumentParser(
        prog="install",
        description="Installs headers, libraries, the command tandem, pkg-config and CMake files.")
    parser.add_argument("--prefix", default="/usr/local", help="an absolute path (%(default)s)")
    parser.add_argument("--libdir", default="lib", help="below the prefix (%(default)s)")
    parser.add_argument("--root", default="", help="put before every path that is written")
    options = parser.parse_args()
    prefix, libdir = os.path.normpath(options.prefix), os.path.normpath(options.libdir)
    if not os.path.isabs(prefix):
        parser.error(f"--prefix {options.prefix} is not an absolute path")
    if os.path.isabs(libdir) or libdir.split("/")[0] == "..":
        parser.error(f"--libdir {options.libdir} is not below the prefix, as lib64 would be")
    # `bazel run` begins in a folder of its own.
    root = options.root and os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", ""),
                                         options.root)
    os.umask(0o022)
    to = Destination(root, prefix)
    try:
        version = install(to, prefix, libdir)
    except OSError as error:
        print(f"install: {error}", file=sys.stderr)
        return 1
    print(f"Tandem {version} is in {to.folder}")
    if not root:
        let_find(prefix, libdir)
    return 0


if __name__ == "__main__":
    sys.exit(main())
