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

    def test_programs_of_one_test_are_told_apart(self):
        log = "== one\n%s== two\n%s== two: exit status 1\n== three\n%s== FAILED: two\n"
        count = counted((False, log % (GOOD, GOOD, BAD)), (True, "== four\n" + GOOD))
        self.assertEqual((count.passed, count.skipped), (3, 3))
        self.assertEqual(count.failures, ["//x:y two: failed outside its cases", "//x:y three: a"])
        self.assertEqual(counted((False, "== one\n" + GOOD)).failures,
                         ["//x:y: failed outside its programs"])

    def test_the_list_of_failed_programs_is_not_about_the_last_one(self):
        log = "== one\n%s== one: exit status 1\n== two\n%s== FAILED: one\n"
        self.assertEqual(counted((False, log % (BAD, GOOD))).failures, ["//x:y one: a"])


class BuildTest(unittest.TestCase):
    def count_text(self, exit_status, text):
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            return count_build(exit_status, handle.name)

    def count(self, exit_status, events):
        last = {"id": {"progress": {}}, "progress": {}, "lastMessage": True}
        rows = [json.dumps(event) + "\n" for event in events + [last]]
        return self.count_text(exit_status, "".join(rows))

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

    def test_events_that_are_cut_short_are_a_failure(self):
        results = "".join(json.dumps({"id": {"testResult": {"label": "//x:" + name}},
                                      "testResult": {"status": "PASSED"}}) + "\n"
                          for name in "yz")
        for cut_bytes in (0, 1, len(results) // 4, len(results) // 2 - 1):
            text = results[:len(results) - cut_bytes]
            for exit_status in (0, 38):
                count = self.count_text(exit_status, text)
                self.assertEqual(count.passed, 2 if cut_bytes < 2 else 1)
                self.assertEqual(len(count.failures), 1)
                self.assertIn("build events are cut short", count.failures[0])
                self.assertIn("exited with %d" % exit_status, count.failures[0])

    def test_a_character_that_is_cut_is_no_traceback(self):
        with tempfile.NamedTemporaryFile("wb", suffix=".json") as handle:
            handle.write(b'{"id": "\xc3')
            handle.flush()
            count = count_build(1, handle.name)
        self.assertEqual(len(count.failures), 1)
        self.assertIn("cut short in line 1", count.failures[0])

    def test_a_log_that_is_not_there_is_a_failure(self):
        log = {"name": "test.log", "uri": "file:///nonexistent/test.log"}
        result = {"id": {"testResult": {"label": "//x:y"}},
                  "testResult": {"status": "PASSED", "testActionOutput": [log]}}
        count = self.count(0, [result])
        self.assertEqual((count.passed, len(count.failures)), (0, 1))
        self.assertIn("//x:y: its log cannot be read", count.failures[0])

    def test_a_file_without_a_row_is_cut_short(self):
        self.assertIn("after line 0", self.count_text(38, "").failures[0])


if __name__ == "__main__":
    unittest.main()
