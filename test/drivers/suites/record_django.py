"""Django's test runner with a result that writes events, and a suite without the tests that are settled already."""

import unittest

import events
from django.test.runner import DiscoverRunner, filter_tests_by_tags, iter_test_cases, reorder_tests  # noqa: F401

log = events.Events()


class Result(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        self.outcome, self.error = "passed", None
        log.start(test.id())

    def stopTest(self, test):
        log.end(test.id(), self.outcome, self.error)
        super().stopTest(test)

    def fail(self, test, err):
        if isinstance(test, unittest.TestCase) or hasattr(test, "test_case"):
            if self.outcome != "failed":
                self.outcome, self.error = "failed", err[1]
        else:
            # A class that could not be set up: "setUpClass (app.tests.Class)".
            name = test.id()
            log.end("class:" + name[name.find("(") + 1 : -1], "failed", err[1])

    def addError(self, test, err):
        super().addError(test, err)
        self.fail(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.fail(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.fail(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome = "skipped"

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.outcome = "skipped"

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.outcome, self.error = "failed", "unexpected success"


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return Result

    def build_suite(self, *args, **kwargs):
        suite = super().build_suite(*args, **kwargs)
        return self.test_suite(t for t in iter_test_cases(suite) if t.id() not in log.done)
