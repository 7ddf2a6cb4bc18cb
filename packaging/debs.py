#!/usr/bin/python3
"""Makes Debian packages of what `bazel run //tools:install` installs, by Debian's own tools:
dpkg-shlibdeps computes what each depends on, dpkg-gensymbols what the library offers.

    tools/package [--out FOLDER]        builds all, and calls this
    debs.py --out FOLDER [--documentation ARCHIVE] [--compression xz]

packaging/debian/control lists the packages. The package of a plug-in is made if the plug-in was
built, and tandem-doc if there is an ARCHIVE (bazel build //docs).
"""
import argparse
import glob
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
HERE = os.getcwd()
sys.path.insert(0, os.path.join(HERE, "tools"))
import install  # noqa: E402

# Installed files of each package; LIB is Debian's library folder of this architecture.
CONTENTS = {
    "libtandem0.3": ["LIB/libtandem.so.*"],
    "libtandem-dev": ["usr/include", "LIB/libtandem.so", "LIB/libtandem.a", "LIB/pkgconfig",
                      "LIB/cmake", "usr/share/tandem"],
    "tandem-tools": ["usr/bin", "usr/share/man", "usr/share/bash-completion"],
    "libtandem-cuda": ["LIB/tandem/libtandem_cuda.so"],
    "libtandem-openmpi": ["LIB/tandem/libtandem_openmpi.so"],
    "libtandem-mpich": ["LIB/tandem/libtandem_mpich.so"],
}
LIBRARY = "libtandem0.3"


def output(*command, **more):
    """Returns the output of a command; raises RuntimeError if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, **more)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout.strip()


def compress(path, text=None):
    """path.gz of the text, or of the file in its place, alike whenever it is made."""
    if text is None:
        with open(path, "rb") as file:
            text = file.read()
        os.remove(path)
    with open(path + ".gz", "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
        packed.write(text)


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


class Packages:
    """The packages under way: a folder with debian/, what is installed, and each one's files."""

    def __init__(self, work, out, compression):
        self.work, self.out, self.compression = work, out, compression
        self.stage = os.path.join(work, "stage")
        self.libdir = "usr/lib/" + output("dpkg-architecture", "-qDEB_HOST_MULTIARCH")
        shutil.copytree(os.path.join(HERE, "packaging", "debian"), os.path.join(work, "debian"))
        install.install(install.Destination(self.stage, "/usr"), "/usr", self.libdir[len("usr/"):])
        self.version = output("dpkg-parsechangelog", "-SVersion", cwd=work)

    def folder(self, name):
        return os.path.join(self.work, "debian", name)

    def files(self, name):
        """All files of a package, without links."""
        return sorted(os.path.join(folder, file) for folder, _, files
                      in os.walk(self.folder(name)) for file in files
                      if not os.path.islink(os.path.join(folder, file)))

    def take(self, name):
        """Moves its files to where it is made; False: there are none."""
        taken = [path for pattern in CONTENTS[name]
                 for path in glob.glob(os.path.join(self.stage,
                                                    pattern.replace("LIB", self.libdir)))]
        for path in taken:
            target = os.path.join(self.folder(name), os.path.relpath(path, self.stage))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.move(path, target)
        return bool(taken)

    def strip(self, name):
        for path in self.files(name):
            if path.endswith(".a"):
                output("strip", "--strip-debug", "--enable-deterministic-archives", path)
            elif is_elf(path):
                what = "--strip-unneeded" if ".so" in os.path.basename(path) else "--strip-all"
                output("strip", what, "--remove-section=.comment", path)
                os.chmod(path, 0o644 if ".so" in os.path.basename(path) else 0o755)
            elif "/man/" in path:
                compress(path)

    def document(self, name):
        """Writes the files that Debian requires in every package."""
        folder = os.path.join(self.folder(name), "usr/share/doc", name)
        os.makedirs(folder, exist_ok=True)
        shutil.copy(os.path.join(self.work, "debian", "copyright"), folder)
        with open(os.path.join(self.work, "debian", "changelog"), "rb") as file:
            compress(os.path.join(folder, "changelog"), file.read())
        overrides = os.path.join(self.work, "debian", name + ".lintian-overrides")
        if os.path.exists(overrides):
            folder = os.path.join(self.folder(name), "usr/share/lintian/overrides")
            os.makedirs(folder)
            shutil.copy(overrides, os.path.join(folder, name))

    def depend(self, name):
        """The libraries that it is linked with, in its substvars."""
        programs = [path for path in self.files(name) if is_elf(path)]
        substvars = os.path.join(self.work, "debian", name + ".substvars")
        with open(substvars, "w", encoding="utf-8") as file:
            file.write("misc:Depends=\n")
        if programs:
            output("dpkg-shlibdeps", "-T" + substvars, "-S" + self.folder(LIBRARY),
                   *["-e" + path for path in programs], cwd=self.work)
        return substvars

    def offer(self):
        """Writes the symbols of the library, for packages that are linked with it."""
        control = os.path.join(self.folder(LIBRARY), "DEBIAN")
        output("dpkg-gensymbols", "-p" + LIBRARY, "-v" + self.version, "-c0",
               "-P" + self.folder(LIBRARY), "-O" + os.path.join(control, "symbols"), cwd=self.work)
        abi = LIBRARY[len("libtandem"):]
        for file, text in (("shlibs", f"libtandem {abi} {LIBRARY} (>= {self.version})\n"),
                           ("triggers", "activate-noawait ldconfig\n")):
            with open(os.path.join(control, file), "w", encoding="utf-8") as written:
                written.write(text)

    def sums(self, name):
        """Writes the digests of its files."""
        with open(os.path.join(self.folder(name), "DEBIAN/md5sums"), "w",
                  encoding="utf-8") as written:
            for path in self.files(name):
                inside = os.path.relpath(path, self.folder(name))
                if not inside.startswith("DEBIAN/"):
                    with open(path, "rb") as file:
                        written.write(f"{hashlib.md5(file.read()).hexdigest()}  {inside}\n")

    def permit(self, name):
        """Makes readable what Bazel and a closed temporary folder left: its modes are in it."""
        for folder, folders, files in os.walk(self.folder(name)):
            os.chmod(folder, 0o755)
            for inside in files:
                path = os.path.join(folder, inside)
                if not os.path.islink(path):
                    os.chmod(path, 0o755 if os.stat(path).st_mode & 0o100 else 0o644)

    def build(self, name):
        """Makes the package's file."""
        self.document(name)
        control = os.path.join(self.folder(name), "DEBIAN")
        os.makedirs(control)
        if name == LIBRARY:
            self.offer()
        substvars = self.depend(name)
        self.sums(name)
        output("dpkg-gencontrol", "-p" + name, "-P" + self.folder(name), "-T" + substvars,
               "-fdebian/files", cwd=self.work)
        self.permit(name)
        environment = {**os.environ, "SOURCE_DATE_EPOCH":
                       output("dpkg-parsechangelog", "-STimestamp", cwd=self.work)}
        output("dpkg-deb", "--root-owner-group", "-Z" + self.compression, "--build",
               self.folder(name), self.out, env=environment)


def make(out, documentation, compression):
    """Makes all packages in out; their names."""
    made = []
    with tempfile.TemporaryDirectory() as work:
        packages = Packages(work, out, compression)
        with open("core/core.h", encoding="utf-8") as text:
            version = ".".join(install.VERSION.findall(text.read()))
        if version != packages.version:
            raise RuntimeError(f"packaging/debian/changelog is of {packages.version}, the library "
                               f"of {version}: begin an entry of it")
        for name in CONTENTS:
            if packages.take(name):
                packages.strip(name)
                packages.build(name)
                made.append(name)
        if documentation:
            folder = os.path.join(packages.folder("tandem-doc"), "usr/share/doc/tandem-doc")
            os.makedirs(folder)
            with tarfile.open(documentation) as archive:
                archive.extractall(folder)
            os.rename(os.path.join(folder, "tandem"), os.path.join(folder, "html"))
            packages.build("tandem-doc")
            made.append("tandem-doc")
    return made


def main():
    """The exit status."""
    parser = argparse.ArgumentParser(prog="debs", description="Makes Debian packages of Tandem.")
    parser.add_argument("--out", required=True, help="the folder that they are written to")
    parser.add_argument("--documentation", help="what `bazel build //docs` makes")
    parser.add_argument("--compression", choices=["gzip", "none", "xz"], default="xz",
                        help="of files in packages; tests need not wait for xz")
    options = parser.parse_args()
    out = os.path.abspath(options.out)
    os.makedirs(out, exist_ok=True)
    try:
        made = make(out, options.documentation and os.path.abspath(options.documentation),
                    options.compression)
    except (OSError, RuntimeError) as error:
        print(f"debs: {error}", file=sys.stderr)
        return 1
    for name in made:
        for path in sorted(glob.glob(os.path.join(out, name + "_*.deb"))):
            print(f"{path}: {os.path.getsize(path) >> 10} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
