"""Tandem for Conan 2, built by Bazel with the libraries of the system.

    conan create packaging/conan
"""
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt


class Tandem(ConanFile):
    name = "tandem"
    description = "Models that live on more than one device"
    license = "Apache-2.0"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": True}
    no_copy_source = True

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "..", "..", "core", "core.h"))
        self.version = ".".join(re.findall(r"#define TDM_VERSION_[A-Z]+ (\d+)", header))

    def export_sources(self):
        copy(self, "*", os.path.join(self.recipe_folder, "..", ".."), self.export_sources_folder,
             excludes=["bazel-*", ".git/*", "packages/*", "gpu_check/*", "build-cache/*"])

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("Tandem runs on Linux")

    def system_requirements(self):
        Apt(self).install(["bazel-bootstrap", "g++", "pkg-config", "libuv1-dev", "libhwloc-dev",
                           "libjansson-dev", "libsodium-dev"], update=True, check=True)

    def package(self):
        """Bazel's server is this build's own, and ends with it."""
        self.run("bazel --output_user_root=%s --batch run --symlink_prefix=%s/ //tools:install -- "
                 "--prefix %s" % (os.path.join(self.build_folder, "bazel"),
                                  os.path.join(self.build_folder, "links"), self.package_folder),
                 cwd=self.source_folder)

    def package_info(self):
        for name in ("cmake_file_name", "pkg_config_name"):
            self.cpp_info.set_property(name, "tandem")
        self.cpp_info.set_property("cmake_target_name", "tandem::tandem")
        if self.options.shared:
            self.cpp_info.libs = ["tandem"]
            return
        self.cpp_info.libs = []
        self.cpp_info.exelinkflags = [os.path.join(self.package_folder, "lib", "libtandem.a")]
        self.cpp_info.system_libs = ["uv", "hwloc", "jansson", "sodium", "gomp", "dl", "pthread",
                                     "m"]
