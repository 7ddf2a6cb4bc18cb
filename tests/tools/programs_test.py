#!/usr/bin/python3
"""Several test programs in one executable: all run, failures are reported; one runs by name."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))


def run(*words, **environment):
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        done = subprocess.run([PROGRAM] + list(words), env=dict(environment, TEST_TMPDIR=folder),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
    return done.returncode, done.stdout.splitlines()


class ProgramsTest(unittest.TestCase):
    def test_all_run_and_those_that_fail_are_told(self):
        code, lines = run()
        self.assertEqual(code, 1)
        self.assertEqual(lines, [
            "== passing", "passing is here, with 1 words",
            "== failing", "failing has 1 words, the last is failing",
            "== failing: exit status 3",
            "== killed", "killed is here, with 1 words", "== killed: ended by signal 9",
            "== apart",
            "== FAILED: failing", "== FAILED: killed"])

    def test_shards_have_each_program_once(self):
        begun, codes = [], []
        for shard in range(3):
            code, lines = run(TEST_TOTAL_SHARDS="3", TEST_SHARD_INDEX=str(shard))
            begun.append([line[3:] for line in lines if re.fullmatch(r"== \w+", line)])
            codes.append(code)
        self.assertEqual(begun, [["passing", "apart"], ["failing"], ["killed"]])
        self.assertEqual(codes, [0, 1, 1])

    def test_one_runs_by_its_name_with_its_words(self):
        self.assertEqual(run("passing"), (0, ["passing is here, with 1 words"]))
        self.assertEqual(run("failing", "word"), (3, ["failing has 2 words, the last is word"]))

    def test_a_name_that_is_not_there_is_told(self):
        code, lines = run("absent")
        self.assertEqual(code, 2)
        self.assertIn("no test program absent", lines[0])
        self.assertEqual(lines[1:], ["  passing", "  failing", "  killed", "  apart"])


if __name__ == "__main__":
    unittest.main()
