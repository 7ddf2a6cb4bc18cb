#!/usr/bin/python3
"""The command that makes the README's pictures makes them.

    readme_pictures_test.py MAKE TANDEM PLAN EXAMPLE
"""
import os
import shutil
import subprocess
import sys
import tempfile

WANTED = {"plan.svg": ["embedding_gradient", "cpu:0", "sim:0", "updates"],
          "curves.svg": ["learning rate 0.001", "held-out accuracy", "epochs"]}


def main():
    """The exit status."""
    missing = [name for name in ("dot", "gnuplot") if not shutil.which(name)]
    missing += [] if os.path.exists("/usr/share/dict/spanish") else ["lists of words"]
    if missing:
        print("skipped: %s not here" % ", ".join(missing))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(sys.argv[1:] + ["--epochs", "1", "--folder", folder], check=True)
        found = sorted(os.listdir(folder))
        if found != sorted(WANTED):
            print("made %s" % found)
            return 1
        for name, texts in WANTED.items():
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                picture = file.read()
            lost = [text for text in texts if text not in picture]
            if lost or not picture.rstrip().endswith("</svg>"):
                print("%s: no %s in\n%s" % (name, lost, picture))
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
