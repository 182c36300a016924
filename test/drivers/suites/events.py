"""The events that a recorder writes for the program that watches it: one JSON object a line.

{"start": test}                                           a test begins
{"test": test, "outcome": ..., "state": ..., "why": ...}  it has ended: passed, failed or skipped

SUITE_EVENTS names the file, SUITE_DONE a file with the names of the tests that an earlier run has already settled.
"""

import json
import os


class Events:
    def __init__(self):
        self.file = open(os.environ["SUITE_EVENTS"], "a", buffering=1)
        self.done = set()
        path = os.environ.get("SUITE_DONE")
        if path and os.path.exists(path):
            with open(path) as f:
                self.done = set(line.rstrip("\n") for line in f)

    def start(self, test):
        self.file.write(json.dumps({"start": test}) + "\n")

    def end(self, test, outcome, error=None):
        state, why = reason(error) if error is not None else ("", "")
        self.file.write(json.dumps({"test": test, "outcome": outcome, "state": state, "why": why}) + "\n")


def chain(error):
    """The error and those that it wraps, the outermost first."""
    seen = set()
    waiting = [error]
    while waiting:
        e = waiting.pop(0)
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        yield e
        waiting.append(getattr(e, "orig", None))
        waiting.append(e.__cause__)
        waiting.append(e.__context__)


def reason(error):
    """SQLSTATE and first line of the server's error that caused a test's error, or the error's own first line."""
    if isinstance(error, str):
        return "", error
    for e in chain(error):
        state = getattr(e, "sqlstate", None) or getattr(e, "pgcode", None)
        if isinstance(state, str) and state:
            return state, first_line(str(e))
    return "", type(error).__name__ + ": " + first_line(str(error))


def first_line(text):
    for line in text.splitlines():
        if line.strip():
            return line.strip()[:300]
    return ""
