"""Shared by the commands that compare Tandem with its peers: starts programs, and combines the
figures of several rounds.

Programs take turns, so that a change of the machine's speed affects all of them. The figure of each
is the median of its rounds.
"""
import os
import statistics
import subprocess
import sys

# The default is Debian's Python, for which python3-torch is installed.
PEER_PYTHON = os.environ.get("TANDEM_PEER_PYTHON", "/usr/bin/python3")


def peer_environment(threads):
    """PyTorch's fair setting: as many OpenMP threads as we have, and a glibc that keeps memory
    instead of giving it back to the system at every free."""
    return dict(os.environ, OMP_NUM_THREADS=str(threads), MALLOC_TRIM_THRESHOLD_="4294967296",
                MALLOC_MMAP_THRESHOLD_="4294967296", MALLOC_TOP_PAD_="268435456")


def command(words, realtime):
    """The command, in a real-time class if asked: on a machine with busy neighbours two threads
    that wait for each other are otherwise measured mostly waiting."""
    return (["chrt", "--rr", "10"] if realtime else []) + words


def run(words, environment=None, realtime=False):
    """Returns the output of the program; exits with its message if it fails."""
    done = subprocess.run(command(words, realtime), env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit("%s\nended with %d: %s" % (" ".join(words), done.returncode, done.stderr))
    return done.stdout


def peer_is_there():
    """Returns True if PyTorch is available."""
    return subprocess.run([PEER_PYTHON, "-c", "import torch"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


median = statistics.median
