#!/usr/bin/python3
"""docs/first_hour.md in a Debian root of its own: its commands, in its order, with the packages
that packaging/debs.py makes. Skipped if such a root cannot be made: it requires root,
debootstrap, and the archive that this machine's apt uses."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
MIRROR = re.compile(r"^(?:deb(?:\s+\[[^]]*\])?|URIs:)\s+(http\S+/debian)/?(?:\s|$)", re.M)
SOURCES = ("/etc/apt/sources.list", "/etc/apt/sources.list.d/debian.sources")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENOUGH = 2 << 30  # bytes of memory, for a root without a disk beneath
# In namespaces of its own, whose end unmounts everything. The root is mounted as the root, so its
# programs see a machine.
ENTER = """set -e
root=$1
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/outside"
cd "$root"
pivot_root . outside
umount -l /outside
cd /hour
exec sh -eux commands.sh
"""


def mirror():
    """Returns the location of this machine's packages, or None."""
    for path in SOURCES:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as text:
                found = MIRROR.search(text.read())
            if found:
                return found.group(1)
    return None


def reason_against():
    """Why there can be no root here, or None."""
    if os.geteuid() != 0:
        return "it wants root's rights"
    if not shutil.which("debootstrap", path=PATH):
        return "debootstrap is not here: tools/install_dependencies.sh --test brings it"
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False).returncode:
        return "namespaces cannot be made here"
    return None if mirror() else "apt has no archive of Debian here"


def make_root(root):
    """A minimal Debian 12; False where its archive cannot be reached."""
    done = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root, mirror()],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env={**os.environ, "PATH": PATH})
    if done.returncode:
        print(done.stdout[-2000:])
        return False
    with open(root + "/etc/dpkg/dpkg.cfg.d/quick", "w", encoding="utf-8") as file:
        file.write("force-unsafe-io\n")
    return True


class FirstHour(unittest.TestCase):
    def setUp(self):
        reason = reason_against()
        if reason:
            self.skipTest(reason)
        memory = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else 0
        self.folder = tempfile.mkdtemp(dir="/dev/shm" if memory > ENOUGH else
                                       os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.root = os.path.join(self.folder, "root")
        if not make_root(self.root):
            self.skipTest("debootstrap could not make a root: is the archive reached?")

    def test_the_commands_of_the_page(self):
        os.mkdir(self.root + "/hour")
        subprocess.run([sys.executable, "packaging/debs.py", "--out", self.root + "/hour"],
                       check=True)
        with open("docs/first_hour.md", encoding="utf-8") as page:
            blocks = BLOCK.findall(page.read())
        self.assertGreater(len(blocks), 7)
        with open(self.root + "/hour/commands.sh", "w", encoding="utf-8") as file:
            file.write("export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8\napt-get update -q\n" +
                       "\n".join(blocks))
        environment = {"PATH": PATH, "HOME": "/hour"}
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--propagation", "private",
                               "sh", "-c", ENTER, "sh", self.root], env=environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        told = done.stdout
        self.assertEqual(done.returncode, 0, told[-6000:])
        self.assertEqual(len(re.findall(r"^word ", told, re.M)), 6, told)
        self.assertEqual(told.count("\n1\n1\n1\n"), 1, told)
        epochs = re.findall(r"^epoch (\d): loss ([0-9.]+)", told, re.M)
        self.assertEqual([number for number, _ in epochs], ["1", "2", "3"], told)
        losses = [float(loss) for _, loss in epochs]
        self.assertEqual(losses, sorted(losses, reverse=True), told)
        self.assertRegex(told, r"sim:0", told)
        self.assertIn("transfer", told[told.index("epoch 3"):])
        with open(self.root + "/hour/report.html", encoding="utf-8") as report:
            page = report.read()
        self.assertTrue(page.startswith("<!DOCTYPE html>") and "sim:0" in page, page[:500])
        self.open_in_a_browser(self.root + "/hour/report.html")

    def open_in_a_browser(self, path):
        """The report as a browser has it: its script has drawn the plan."""
        browser = shutil.which("chromium")
        if not browser:
            print("the report is not opened: there is no chromium")
            return
        done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu",
                               "--user-data-dir=" + self.folder + "/browser", "--dump-dom",
                               "file://" + path], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertIn("<svg", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
