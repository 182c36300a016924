"""A pytest plugin that writes what becomes of each test as events, and leaves out tests that are settled already."""

import events

log = events.Events()
results = {}


def pytest_collection_modifyitems(config, items):
    settled = [i for i in items if i.nodeid in log.done]
    if settled:
        config.hook.pytest_deselected(items=settled)
        items[:] = [i for i in items if i.nodeid not in log.done]


def pytest_runtest_logstart(nodeid, location):
    results[nodeid] = ("passed", None)
    log.start(nodeid)


def pytest_runtest_makereport(item, call):
    if call.excinfo is None:
        return
    outcome = "failed"
    if call.excinfo.typename in ("Skipped", "SkipTest", "XFailed"):
        outcome = "skipped"
    if results.get(item.nodeid, ("passed",))[0] != "failed":
        results[item.nodeid] = (outcome, call.excinfo.value if outcome == "failed" else None)


def pytest_runtest_logreport(report):
    # unittest marks an expected failure by the report alone.
    if report.when == "call" and report.outcome == "skipped":
        results[report.nodeid] = ("skipped", None)


def pytest_runtest_logfinish(nodeid, location):
    outcome, error = results.pop(nodeid)
    log.end(nodeid, outcome, error)


def pytest_collectreport(report):
    if report.failed:
        log.end("collect:" + report.nodeid, "failed", str(report.longrepr).strip().splitlines()[-1])
