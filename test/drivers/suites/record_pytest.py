"""A pytest plugin that writes what becomes of each test as events, and leaves out tests that are settled already."""

import sys

import pytest

import events

log = events.Events()
results = {}


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    """SQLAlchemy's suites begin with CREATE EXTENSION citext and hstore. Where a server has neither, only the tests of these fail."""
    if "sqlalchemy" not in sys.modules:
        return
    import sqlalchemy.dialects.postgresql.provision  # noqa: F401, registers what follows
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.testing.provision import post_configure_engine

    make = post_configure_engine.fns["postgresql"]

    def try_to_make(*arguments):
        try:
            make(*arguments)
        except DBAPIError as e:
            print("no extensions:", e.orig)

    post_configure_engine.fns["postgresql"] = try_to_make


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
