#!/usr/bin/python3
"""Checks the contents and dependencies of the Debian packages, and runs lintian if it is installed.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.dont_write_bytecode = True
ALWAYS = ["libtandem-dev", "libtandem0.3", "tandem-doc", "tandem-tools"]
PLUGINS = {"libtandem-cuda": "devices/cuda/libtandem_cuda.so",
           "libtandem-mpich": "net/libtandem_mpich.so",
           "libtandem-openmpi": "net/libtandem_openmpi.so"}


def output(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}"
    return done.stdout


@unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "this is no Debian with dpkg-dev")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        os.makedirs(cls.folder + "/pages/tandem")
        with open(cls.folder + "/pages/tandem/index.html", "w", encoding="utf-8") as page:
            page.write("<!DOCTYPE html><title>Tandem</title>\n")
        archive = cls.folder + "/pages.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(cls.folder + "/pages/tandem", "tandem")
        cls.told = output(sys.executable, "packaging/debs.py", "--out", cls.folder,
                          "--documentation", archive, "--compression", "none")
        cls.debs = {os.path.basename(path).split("_")[0]: path
                    for path in glob.glob(cls.folder + "/*.deb")}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def contents(self, name):
        return {line.split()[5][1:] for line in
                output("dpkg-deb", "--contents", self.debs[name]).splitlines()}

    def field(self, name, field):
        return output("dpkg-deb", "--field", self.debs[name], field).strip()

    def test_all_recipes_are_of_one_version(self):
        with open("packaging/vcpkg/vcpkg.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file)["version"], self.field("libtandem0.3", "Version"))

    def test_there_is_one_of_each_part(self):
        wanted = ALWAYS + [name for name, built in PLUGINS.items() if os.path.exists(built)]
        self.assertEqual(sorted(self.debs), sorted(wanted), self.told)

    def test_the_library(self):
        contents = self.contents("libtandem0.3")
        libraries = {path for path in contents if ".so" in path}
        self.assertEqual({os.path.basename(path) for path in libraries},
                         {"libtandem.so.0.3", "libtandem.so.0.3.0"})
        depends = self.field("libtandem0.3", "Depends")
        for library in ("libc6", "libgomp1", "libhwloc15", "libjansson4", "libsodium23", "libuv1"):
            self.assertRegex(depends, rf"\b{library} \(>= ")
        self.assertNotIn("libstdc++", depends)
        symbols = output("dpkg-deb", "--info", self.debs["libtandem0.3"], "symbols")
        self.assertRegex(symbols, r"(?m)^libtandem\.so\.0\.3 libtandem0\.3 ")
        self.assertIn(" tdm_session_create@Base 0.3.0\n", symbols)
        self.assertEqual(output("dpkg-deb", "--info", self.debs["libtandem0.3"], "shlibs"),
                         "libtandem 0.3 libtandem0.3 (>= 0.3.0)\n")

    def test_what_programs_are_compiled_with(self):
        contents = self.contents("libtandem-dev")
        for path in ("/usr/include/tandem/tandem.h", "/usr/include/tandem/tandem.hpp",
                     "/usr/share/tandem/examples/first_model.c"):
            self.assertIn(path, contents)
        for ending in ("/libtandem.so", "/libtandem.a", "/pkgconfig/tandem.pc",
                       "/cmake/tandem/tandem-config.cmake"):
            self.assertTrue(any(path.endswith(ending) for path in contents), ending)
        self.assertIn("libtandem0.3 (= 0.3.0)", self.field("libtandem-dev", "Depends"))

    def test_the_command(self):
        contents = self.contents("tandem-tools")
        for path in ("/usr/bin/tandem", "/usr/share/man/man1/tandem.1.gz",
                     "/usr/share/bash-completion/completions/tandem"):
            self.assertIn(path, contents)

    def test_plug_ins_are_of_one_version_and_bring_their_mpi(self):
        for name in set(self.debs) & set(PLUGINS):
            depends = self.field(name, "Depends")
            self.assertIn("libtandem0.3 (= 0.3.0)", depends)
            file = os.path.basename(PLUGINS[name])
            self.assertTrue(any(path.endswith("/tandem/" + file) for path in self.contents(name)))
            if name != "libtandem-cuda":
                self.assertRegex(depends, r"\blib(openmpi|mpich)\d+ ")

    def test_files_are_everybodys_to_read(self):
        for name, path in self.debs.items():
            for line in output("dpkg-deb", "--contents", path).splitlines():
                self.assertRegex(line, r"^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x|lrwxrwxrwx) root/root ",
                                 name)

    @unittest.skipUnless(shutil.which("lintian"), "there is no lintian")
    def test_lintian_finds_nothing(self):
        done = subprocess.run(["lintian", "--tag-display-limit", "0", "--allow-root",
                               *self.debs.values()], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.assertIsNone(re.search(r"^[EW]: ", done.stdout, re.M), done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
