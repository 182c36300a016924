"""The table of results, and the failures grouped by the server's error."""

import collections
import json
import os
import re


def path(results, suite, label):
    return os.path.join(results, suite + "." + label + ".jsonl")


def load(file):
    tests = {}
    if os.path.exists(file):
        with open(file) as f:
            for line in f:
                e = json.loads(line)
                # SQLAlchemy writes the server's version into its classes' names.
                tests[re.sub(r"_postgresql\+psycopg2_\d+(_\d+)*", "", e["test"])] = e
    return tests


def leaves(tests):
    """The tests without those that only hold subtests."""
    parents = {t.rsplit("/", 1)[0] for t in tests if "/" in t and ".py" not in t}
    return {t: e for t, e in tests.items() if t not in parents}


def outcome(tests, test):
    """What became of a test, or of what holds it if it never began."""
    if test in tests:
        return tests[test]
    parent = test
    while "/" in parent and ".py" not in parent:
        parent = parent.rsplit("/", 1)[0]
        if parent in tests:
            return {**tests[parent], "outcome": "failed"}
    name = "class:" + test.rsplit(".", 1)[0]
    if name in tests:
        return tests[name]
    for t, e in tests.items():
        if t.startswith("collect:") and test.startswith(t[len("collect:"):]) or t == "prepare":
            return e
    return {"outcome": "failed", "state": "", "why": "did not run"}


def kind(e):
    """The failure without what differs from test to test."""
    why = re.sub(r"0x[0-9a-f]+", "0x", e["why"])
    why = re.sub(r"^(ERROR|FATAL): +", "", why)
    why = re.sub(r'(relation|table|index|constraint|sequence|database|schema) "[^"]*"', r'\1 "..."', why)
    why = re.sub(r"\b\d+\b", "N", why)
    return e["state"] or "-----", why[:160]


def compare(results, suite, label):
    """How many tests PostgreSQL passed, those that Meridian passed too, and the others with their failures."""
    pg = leaves(load(path(results, suite, "postgresql")))
    us = load(path(results, suite, label))
    wanted = [t for t, e in pg.items() if e["outcome"] == "passed"]
    missing = {}
    for t in wanted:
        e = outcome(us, t)
        if e["outcome"] != "passed":
            missing[t] = e if e["outcome"] == "failed" else {"state": "", "why": "skipped"}
    return len(pg), len(wanted), len(wanted) - len(missing), missing


def table(results, suites, label):
    lowest = 1.0
    print("| suite | tests | PostgreSQL 15 | %s | ratio |" % label)
    print("|---|--:|--:|--:|--:|")
    failures = {}
    for s in suites:
        if not os.path.exists(path(results, s, label)) or not os.path.exists(path(results, s, "postgresql")):
            continue
        all_, wanted, passed, missing = compare(results, s, label)
        ratio = passed / wanted if wanted else 0
        lowest = min(lowest, ratio)
        failures[s] = missing
        print("| %s | %d | %d | %d | %.1f %% |" % (s, all_, wanted, passed, 100 * ratio))
    for s, missing in failures.items():
        groups = collections.defaultdict(list)
        for t, e in missing.items():
            groups[kind(e)].append(t)
        print("\n## %s\n" % s)
        for (state, why), tests in sorted(groups.items(), key=lambda g: -len(g[1])):
            print("%4d  %s  %s" % (len(tests), state, why))
            print("            " + ", ".join(sorted(tests)[:2]))
    return lowest
