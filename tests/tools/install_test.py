#!/usr/bin/python3
"""The files of `bazel run //tools:install` suffice for programs that are built without Bazel, and
the shared library exports exactly the functions that the public headers declare."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

CXX_PROGRAM = """#include <tandem/tandem.hpp>
int main() {
  tandem::context context;
  const tandem::tensor ones(tdm_tensor_ones(context, "cpu", TDM_FLOAT32, tdm_shape_of(1, 3)));
  return tandem::elements<float>(ones).size() == 3 && tdm_version()[0] == '0' + TDM_VERSION_MAJOR
             ? 0
             : 1;
}
"""

CMAKE_PROJECT = """cmake_minimum_required(VERSION 3.16)
project(program C)
find_package(tandem {version} REQUIRED)
add_executable(program first_model.c)
target_link_libraries(program tandem::tandem)
"""

# A program with a core/core.h of its own, which Tandem's headers do not take for theirs.
OWN_HEADERS = """#include "core/core.h"
#include "tandem.h"
#include <tandem/tandem.h>
int main(void) { return core_of_its_own + tandem_of_its_own + (TDM_OK != 0); }
"""

# Half of its former size, which included the kernels for GPUs.
MOST_BYTES = 37_000_000 // 2

DECLARED = re.compile(r"^TDM_API\b[^;(]*?\b(tdm_\w+)\(", re.MULTILINE)


def output(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **more)
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}"
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        cls.prefix = os.path.join(cls.folder, "over there")
        told = output("sh", "-c", 'umask 077 && exec tools/install.py --prefix "$0"', cls.prefix)
        # Lines have the form NAME=VALUE, quoted for a shell.
        cls.environment = {**os.environ, **dict(
            shlex.split(line)[0].split("=", 1) for line in told.splitlines() if "=" in line)}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def flags(self, *asked):
        told = output("pkg-config", *asked, "tandem", env=self.environment)
        return shlex.split(told)

    def run_program(self, path):
        words = output(path, env=self.environment)
        self.assertEqual(len(re.findall(r"^word ", words, re.MULTILINE)), 3, words)

    def test_a_program_links_with_the_shared_library(self):
        program = os.path.join(self.folder, "shared")
        output("cc", "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror",
               *self.flags("--cflags"), "examples/first_model.c", "-o", program,
               *self.flags("--libs"))
        self.run_program(program)
        self.assertIn("libtandem.so.", output("ldd", program, env=self.environment))

    def test_the_command_has_a_page_and_a_completion(self):
        with open(self.prefix + "/share/man/man1/tandem.1", encoding="utf-8") as page:
            self.assertIn(".SH DEVICES", page.read())
        script = self.prefix + "/share/bash-completion/completions/tandem"
        told = output("bash", "-c", f"source {shlex.quote(script)}; complete -p tandem")
        self.assertIn("-F _tandem", told)

    def test_a_program_links_with_the_static_library(self):
        program = os.path.join(self.folder, "static")
        libraries = [f"{self.prefix}/lib/libtandem.a" if flag == "-ltandem" else flag
                     for flag in self.flags("--libs", "--static")]
        output("cc", *self.flags("--cflags"), "examples/first_model.c", "-o", program, *libraries)
        self.run_program(program)
        self.assertNotIn("libtandem", output("ldd", program))

    def test_the_command_is_installed(self):
        told = output(f"{self.prefix}/bin/tandem", "devices")
        self.assertIn("cpu:0", told)

    def test_plugins_lie_where_the_library_looks_for_them(self):
        built = [name for folder in ("net", "devices/cuda") if os.path.isdir(folder)
                 for name in os.listdir(folder) if name.startswith("libtandem_")]
        folder = self.prefix + "/lib/tandem"
        installed = os.listdir(folder) if os.path.isdir(folder) else []
        self.assertEqual(sorted(built), sorted(installed))

    def test_the_library_has_nothing_of_nvcc_and_half_of_its_size_with_it(self):
        library = self.prefix + "/lib/libtandem.so"
        stripped = os.path.join(self.folder, "stripped.so")
        output("strip", "-o", stripped, library)
        print(f"libtandem.so, stripped: {os.path.getsize(stripped)} bytes")
        self.assertLess(os.path.getsize(stripped), MOST_BYTES)
        needed = output("readelf", "--dynamic", library)
        for name in ("libstdc++", "libcuda", "libcublas"):
            self.assertNotIn(name, needed)
        self.assertNotIn("cudaRegister", output("nm", library))

    def test_a_cxx_program_compiles_without_warnings(self):
        source = os.path.join(self.folder, "program.cc")
        with open(source, "w", encoding="utf-8") as file:
            file.write(CXX_PROGRAM)
        program = os.path.join(self.folder, "cxx")
        output("c++", "-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror",
               *self.flags("--cflags"), source, "-o", program, *self.flags("--libs"))
        output(program, env=self.environment)

    def test_each_header_stands_by_itself(self):
        below = pathlib.Path(self.prefix, "include")
        for header in sorted(below.glob("tandem/*/*.h")):
            line = '#include "%s"\n' % header.relative_to(below)
            for compiler, standard in (("cc", "c11"), ("c++", "c++17")):
                language = "c" if compiler == "cc" else "c++"
                output(compiler, "-std=" + standard, "-Wall", "-Wextra", "-pedantic", "-Werror",
                       "-fsyntax-only", "-x", language, "-", *self.flags("--cflags"), input=line)

    def test_headers_of_the_program_do_not_disturb(self):
        folder = os.path.join(self.folder, "own")
        os.makedirs(folder + "/core")
        for header, name in (("core/core.h", "core"), ("tandem.h", "tandem")):
            with open(os.path.join(folder, header), "w", encoding="utf-8") as file:
                file.write(f"enum {{ {name}_of_its_own = 0 }};\n")
        with open(folder + "/own.c", "w", encoding="utf-8") as file:
            file.write(OWN_HEADERS)
        output("cc", "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
               "-I" + folder, *self.flags("--cflags"), folder + "/own.c")

    def test_programs_of_0_1_are_told_what_to_change(self):
        source = os.path.join(self.folder, "old.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <tandem.h>\n")
        for path in ("/include", "/include/tandem"):
            done = subprocess.run(["cc", "-fsyntax-only", "-I" + self.prefix + path, source],
                                  stderr=subprocess.PIPE, text=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, r"#error .*#include <tandem/tandem\.h>", path)

    @unittest.skipUnless(shutil.which("cmake"), "there is no cmake")
    def test_cmake_finds_it(self):
        project = os.path.join(self.folder, "project")
        os.mkdir(project)
        shutil.copy("examples/first_model.c", project)
        version = self.flags("--modversion")[0]
        with open(os.path.join(project, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(CMAKE_PROJECT.format(version=version))
        build = os.path.join(project, "build")
        output("cmake", "-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        output("cmake", "--build", build)
        self.run_program(os.path.join(build, "program"))

    @unittest.skipUnless(shutil.which("cmake"), "there is no cmake")
    def test_cmake_finds_it_by_a_link_to_its_libraries(self):
        project = os.path.join(self.folder, "merged")
        os.mkdir(project)
        os.symlink(self.prefix + "/lib", project + "/lib")  # as /lib of a system leads to /usr/lib
        with open(os.path.join(project, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(CMAKE_PROJECT.format(version=self.flags("--modversion")[0]))
        shutil.copy("examples/first_model.c", project)
        output("cmake", "-S", project, "-B", project + "/build", f"-DCMAKE_PREFIX_PATH={project}")

    def test_it_is_everybodys_to_read(self):
        for folder, _, files in os.walk(self.prefix):
            for path in [folder] + [os.path.join(folder, file) for file in files]:
                mode = os.stat(path).st_mode
                self.assertEqual(mode & 0o044, 0o044, path)
                self.assertEqual(mode & 0o011 == 0o011, mode & 0o100 != 0, path)

    def test_the_library_offers_what_the_headers_declare(self):
        declared = set()
        for folder, _, files in os.walk(self.prefix + "/include/tandem"):
            for file in files:
                with open(os.path.join(folder, file), encoding="utf-8") as text:
                    declared.update(DECLARED.findall(text.read()))
        symbols = output("nm", "-D", "--defined-only", self.prefix + "/lib/libtandem.so")
        offered = {line.split()[2] for line in symbols.splitlines()}
        self.assertGreater(len(declared), 100)
        self.assertEqual(offered - declared, set(), "in no public header")
        self.assertEqual(declared - offered, set(), "declared, and not there")

    def test_a_root_is_put_before_what_is_written_only(self):
        root = os.path.join(self.folder, "root")
        output("tools/install.py", "--prefix", "/opt/tandem", "--root", root)
        with open(root + "/opt/tandem/lib/pkgconfig/tandem.pc", encoding="utf-8") as text:
            self.assertIn("prefix=/opt/tandem\n", text.read())

    def test_a_relative_root_is_below_the_folder_of_the_call(self):
        called = {**os.environ, "BUILD_WORKING_DIRECTORY": self.folder}
        output("tools/install.py", "--prefix", "/opt", "--libdir", "lib/64/", "--root", "related",
               env=called)
        found = self.folder + "/related/opt/lib/64/cmake/tandem/tandem-config.cmake"
        with open(found, encoding="utf-8") as text:
            self.assertIn("/../../../.." + '" ABSOLUTE', text.read())

    def test_paths_that_cannot_be_are_refused(self):
        apart = "is not below the prefix"
        for option, path, why in (("--prefix", "there", "is not an absolute path"),
                                  ("--libdir", self.folder + "/elsewhere", apart),
                                  ("--libdir", "lib/../../elsewhere", apart)):
            done = subprocess.run(["tools/install.py", "--root", self.folder + "/none", option,
                                   path], stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{option} {path} {why}", done.stderr)


if __name__ == "__main__":
    unittest.main()
