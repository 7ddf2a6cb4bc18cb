#!/usr/bin/python3
"""Counts test cases: test_report.py CONFIGURATION=EXIT_STATUS=BUILD_EVENTS.json ...

Reads the build events that `bazel test --build_event_json_file` writes. Each case of a cmocka
program counts, any other test counts as one. A test that could not be built, or a program that
fails beside its cases (a leak at exit, a crash), counts as one failure. Ends with the line
`N passed, N failed`; exits with 1 if anything failed or nothing ran.
"""
import json
import os
import re
import sys
import urllib.parse

# cmocka's marks. A failed case is printed twice, so the started ones are counted.
STARTED = re.compile(r"\[ RUN      \] (\S+)")
PASSED = re.compile(r"\[       OK \] (\S+)")
SKIPPED = re.compile(r"\[  SKIPPED \] (\S+)")
# Lines of tests/programs.c before each of its programs, and about one that fails. The list of all
# that failed, "== FAILED: ...", follows the last program and is not about it.
PROGRAM = re.compile(r"^== (\w+)$", re.MULTILINE)
FAILED_PROGRAM = re.compile(r"^== (?!FAILED:)\w+: ", re.MULTILINE)


class Count:
    """Cases passed and skipped, and a line for each failure."""

    def __init__(self):
        self.passed = 0
        self.skipped = 0
        self.failures = []

    def add_log(self, label, succeeded, log):
        """Adds one test, from its status and what it printed: one program, or several."""
        programs = PROGRAM.split(log)[1:]
        if not programs:
            self.add_program(label, succeeded, log)
            return
        names, logs = programs[::2], programs[1::2]
        found = len(self.failures)
        for name, text in zip(names, logs):
            self.add_program("%s %s" % (label, name), not FAILED_PROGRAM.search(text), text)
        if not succeeded and len(self.failures) == found:
            self.failures.append("%s: failed outside its programs" % label)

    def add_program(self, label, succeeded, log):
        started, passed, skipped = (pattern.findall(log) for pattern in (STARTED, PASSED, SKIPPED))
        failed = list(started)
        for name in passed + skipped:
            if name in failed:
                failed.remove(name)
        self.passed += len(passed)
        self.skipped += len(skipped)
        self.failures += ["%s: %s" % (label, name) for name in failed]
        if not succeeded and not failed:
            self.failures.append("%s: failed outside its cases" % label if started else label)
        elif succeeded and not started:
            self.passed += 1

    def line(self):
        text = "%d passed, %d failed" % (self.passed, len(self.failures))
        return text + (", %d skipped" % self.skipped if self.skipped else "")


def read_events(path):
    """The events of a build up to where they are cut short, and why they are, or None.

    None at all if the build never got as far as writing them.
    """
    events = []
    if not os.path.exists(path):
        return events, None
    with open(path, encoding="utf-8", errors="replace") as handle:
        for number, row in enumerate(handle, 1):
            try:
                events.append(json.loads(row))
            except json.JSONDecodeError:
                return events, "build events are cut short in line %d" % number
    if not events or not events[-1].get("lastMessage"):
        return events, "build events are cut short after line %d" % len(events)
    return events, None


def read_log(result):
    for output in result.get("testActionOutput", []):
        if output["name"] == "test.log":
            path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
            with open(path, encoding="utf-8", errors="replace") as handle:
                return handle.read()
    return ""


def count_build(exit_status, path):
    count = Count()
    expected = set()
    events, cut = read_events(path)
    for event in events:
        identity = event["id"]
        if "testSize" in event.get("configured", {}):
            expected.add(identity["targetConfigured"]["label"])
        if event.get("aborted", {}).get("reason") == "SKIPPED":  # not for this configuration
            expected.discard(identity.get("targetCompleted", {}).get("label"))
        if "testResult" in event:
            label = identity["testResult"]["label"]
            result = event["testResult"]
            expected.discard(label)
            try:
                count.add_log(label, result["status"] in ("PASSED", "FLAKY"), read_log(result))
            except OSError as error:
                count.failures.append("%s: its log cannot be read: %s" % (label, error))
    if exit_status != 0:
        count.failures += ["%s: not built or not run" % label for label in sorted(expected)]
        if not count.failures and not cut:
            count.failures.append("bazel test exited with %d" % exit_status)
    if cut:
        count.failures.append("%s: tests after that are not counted (bazel test exited with %d; "
                              "is a disk full?)" % (cut, exit_status))
    return count


def main():
    if "--help" in sys.argv[1:]:
        print(__doc__)
        return 0
    total = Count()
    for argument in sys.argv[1:]:
        configuration, exit_status, path = argument.split("=", 2)
        count = count_build(int(exit_status), path)
        print("%s: %s" % (configuration, count.line()))
        total.passed += count.passed
        total.failures += ["FAILED (%s) %s" % (configuration, text) for text in count.failures]
    for failure in total.failures:
        print(failure)
    print(total.line())
    return 1 if total.failures or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
