#!/usr/bin/python3
"""tools/test_report.py counts cases, crashes, and tests that never ran, and invents none."""
import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.getcwd(), "tools"))
from test_report import Count, count_build  # noqa: E402

GOOD = "[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n[  SKIPPED ] b\n"
BAD = "[ RUN      ] a\n[  FAILED  ] a\n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] a\n"
CRASH = "[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n"


def counted(*tests):
    count = Count()
    for succeeded, log in tests:
        count.add_log("//x:y", succeeded, log)
    return count


class CountTest(unittest.TestCase):
    def test_cases_are_counted_once(self):
        count = counted((True, GOOD), (False, BAD))
        self.assertEqual((count.passed, count.skipped), (1, 1))
        self.assertEqual(count.failures, ["//x:y: a"])

    def test_a_crash_fails_the_case_that_ran(self):
        count = counted((False, CRASH))
        self.assertEqual((count.passed, count.failures), (1, ["//x:y: b"]))

    def test_a_failure_at_exit_counts(self):
        count = counted((False, GOOD))
        self.assertEqual((count.passed, len(count.failures)), (1, 1))

    def test_other_programs_count_one(self):
        count = counted((True, "fine"), (False, "bad"))
        self.assertEqual((count.passed, count.failures), (1, ["//x:y"]))


class BuildTest(unittest.TestCase):
    def count(self, exit_status, events):
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as handle:
            handle.write("".join(json.dumps(event) + "\n" for event in events))
            handle.flush()
            return count_build(exit_status, handle.name)

    def test_a_test_that_was_not_built_failed(self):
        target = {"id": {"targetConfigured": {"label": "//x:y"}},
                  "configured": {"testSize": "SMALL"}}
        self.assertEqual(self.count(1, [target]).failures, ["//x:y: not built or not run"])

    def test_a_test_that_is_for_other_configurations_is_passed_over(self):
        target = {"id": {"targetConfigured": {"label": "//x:y"}},
                  "configured": {"testSize": "SMALL"}}
        skipped = {"id": {"targetCompleted": {"label": "//x:y"}}, "aborted": {"reason": "SKIPPED"}}
        failed = {"id": {"testResult": {"label": "//x:z"}}, "testResult": {"status": "FAILED"}}
        self.assertEqual(self.count(1, [target, skipped, failed]).failures, ["//x:z"])

    def test_a_build_without_events_failed(self):
        self.assertEqual(len(count_build(1, "/nonexistent").failures), 1)

    def test_results_are_read(self):
        result = {"id": {"testResult": {"label": "//x:y"}}, "testResult": {"status": "PASSED"}}
        count = self.count(0, [result])
        self.assertEqual((count.passed, count.failures), (1, []))


if __name__ == "__main__":
    unittest.main()
