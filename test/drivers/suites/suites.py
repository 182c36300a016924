"""Runs the drivers' and ORMs' own test suites against Meridian and PostgreSQL. See README.md."""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

import events
import report
import servers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))

# The versions whose tests are run.
PSYCOPG2 = "2.9.9"
ASYNCPG = "0.30.0"
SQLALCHEMY = "2.0.36"
DJANGO = "5.1.4"
PGX = "5.12.0"
PGJDBC = "42.7.4"
WHEELS = [
    "pytest==8.3.4", "psycopg2-binary==" + PSYCOPG2, "asyncpg==" + ASYNCPG, "SQLAlchemy==" + SQLALCHEMY, "Django==" + DJANGO,
    "greenlet==3.1.1", "distro==1.9.0", "tzdata==2024.2", "pytz==2024.2", "setuptools==75.6.0", "wheel==0.45.1", "Cython==3.0.11",
]
SOURCES = {"psycopg2": PSYCOPG2, "asyncpg": ASYNCPG, "SQLAlchemy": SQLALCHEMY, "Django": DJANGO}

# Those of Django's test applications that ask most of a database.
DJANGO_APPS = """
aggregation annotations backends basic bulk_create datetimes delete expressions expressions_case get_or_create inspectdb
introspection lookup many_to_many many_to_one migrations model_fields ordering prefetch_related queries schema
select_for_update transactions update
""".split()


class Cache:
    """Where the packages and their tests are, once they have been installed."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        self.python = os.path.join(self.path, "venv", "bin", "python")
        os.makedirs(self.path, exist_ok=True)

    def source(self, name):
        return os.path.join(self.path, "src", name)

    def install(self):
        pins = "\n".join(WHEELS + ["%s==%s" % s for s in SOURCES.items()] + ["pgx==" + PGX]) + "\n"
        stamp = os.path.join(self.path, "installed")
        if os.path.exists(stamp) and open(stamp).read() == pins:
            return
        pip = [self.python, "-m", "pip", "-q", "--disable-pip-version-check"]
        run([sys.executable, "-m", "venv", os.path.join(self.path, "venv")])
        run(pip + ["install"] + WHEELS)
        download = os.path.join(self.path, "download")
        for name, version in SOURCES.items():
            run(pip + ["download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", download, name + "==" + version])
        shutil.rmtree(self.source(""), ignore_errors=True)
        os.makedirs(self.source(""))
        for f in sorted(os.listdir(download)):
            unpacked = os.path.join(self.path, "unpack")
            shutil.rmtree(unpacked, ignore_errors=True)
            shutil.unpack_archive(os.path.join(download, f), unpacked, filter="data") if sys.version_info >= (3, 11, 4) else shutil.unpack_archive(os.path.join(download, f), unpacked)
            inner = os.path.join(unpacked, os.listdir(unpacked)[0])
            os.rename(inner, self.source(f.split("-")[0].lower()))
        # asyncpg's tests have to import the compiled package, not the sources beside them.
        shutil.rmtree(os.path.join(self.source("asyncpg"), "asyncpg"))
        module = json.loads(subprocess.check_output(["go", "mod", "download", "-json", "github.com/jackc/pgx/v5@v" + PGX], cwd=ROOT))
        shutil.copytree(module["Dir"], self.source("pgx"))
        run(["chmod", "-R", "u+w", self.source("pgx")])
        with open(stamp, "w") as f:
            f.write(pins)


def run(argv, **options):
    subprocess.run(argv, check=True, **options)


class Pytest:
    """A suite that pytest collects."""

    def __init__(self, name, source, arguments, timeout=30, extra=lambda server: [], variables=lambda server: {}, setup=()):
        self.name, self.source, self.arguments, self.timeout = name, source, arguments, timeout
        self.extra, self.variables, self.setup = extra, variables, setup

    def prepare(self, cache, server, work):
        database = "suite_" + self.name
        create_database(server, database)
        for statement in self.setup:
            server.psql(statement, database)

    def run(self, cache, server, work, log):
        env = {**os.environ, **server.environment("suite_" + self.name), **self.variables(server), "PYTHONPATH": HERE, "PYTHONDONTWRITEBYTECODE": "1"}
        argv = [cache.python, "-m", "pytest", "-p", "record_pytest", "-p", "no:cacheprovider", "-q", "--continue-on-collection-errors"] + self.arguments + self.extra(server)
        watch(argv, cache.source(self.source), env, work, log, self.timeout)


class Django:
    """Django's own tests, by its own runner."""

    name = "django"
    timeout = 60

    def prepare(self, cache, server, work):
        for d in ("django", "django_other"):
            create_database(server, d)

    def run(self, cache, server, work, log):
        tests = os.path.join(cache.source("django"), "tests")
        env = {**os.environ, **server.environment("postgres"), "PYTHONPATH": HERE, "PYTHONDONTWRITEBYTECODE": "1"}
        argv = [cache.python, "runtests.py", "--settings=django_settings", "--noinput", "--parallel", "1", "-v", "1"]
        for app in DJANGO_APPS:
            # By itself, because no test runs if one of the applications' tables can't be made.
            watch(argv + [app], tests, env, work, log, self.timeout)


class Go:
    """pgx's tests: the test binary of each package, its output read as events."""

    name = "pgx"
    packages = [".", "pgconn", "pgtype", "pgxpool", "stdlib", "pgxtest", "multitracer", "tracelog", "pgtype/zeronull"]
    timeout = 40

    def prepare(self, cache, server, work):
        create_database(server, "suite_pgx")
        for p in self.packages:
            binary = self.binary(cache, p)
            if not os.path.exists(binary):
                run(["go", "test", "-c", "-o", binary, "./" + p], cwd=cache.source("pgx"), env={**os.environ, "GOFLAGS": "-mod=mod"})

    def binary(self, cache, package):
        return os.path.join(cache.path, "pgx-" + package.replace("/", "-").replace(".", "root") + ".test")

    def run(self, cache, server, work, log):
        env = {**os.environ, **server.environment("suite_pgx"), "PGX_TEST_DATABASE": "host=127.0.0.1 port=%d user=%s database=suite_pgx sslmode=disable" % (server.port, server.user)}
        for p in self.packages:
            if not os.path.exists(self.binary(cache, p)):
                continue
            self.package(cache, p, env, work, log)

    def package(self, cache, package, env, work, log):
        settled = []
        for _ in range(60):
            argv = [self.binary(cache, package), "-test.v", "-test.parallel=1"]
            if settled:
                argv.append("-test.skip=^(" + "|".join(map(re.escape, settled)) + ")$")
            process = subprocess.Popen(argv, cwd=os.path.join(cache.source("pgx"), package), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
            last = [time.monotonic()]
            hung = []

            def watchman():
                while process.poll() is None:
                    if time.monotonic() - last[0] > self.timeout:
                        hung.append(True)
                        kill(process)
                    time.sleep(0.5)

            threading.Thread(target=watchman, daemon=True).start()
            current, said, running = None, {}, []
            for line in process.stdout:
                last[0] = time.monotonic()
                log.write(line)
                m = re.match(r"=== (RUN|CONT|NAME|PAUSE)\s+(\S+)", line)
                if m:
                    current = m.group(2)
                    if m.group(1) == "RUN":
                        running.append(current)
                    continue
                m = re.match(r"(\s*)--- (PASS|FAIL|SKIP): (\S+)", line)
                if m:
                    name = m.group(3)
                    if name in running:
                        running.remove(name)
                    outcome = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}[m.group(2)]
                    state, why = self.reason(said, name) if outcome == "failed" else ("", "")
                    write(work, package + ":" + name, outcome, state, why)
                    if "/" not in name:
                        settled.append(name)
                    continue
                said.setdefault(current, []).append(line)
            process.wait()
            if process.returncode == 0 or not running and not hung:
                return
            culprit = current if hung and current in running else (current or running[-1])
            write(work, package + ":" + culprit, "failed", "", "no answer in %d s" % self.timeout if hung else "the test's process died: " + self.reason(said, culprit)[1])
            top = culprit.split("/")[0]
            if top != culprit:
                write(work, package + ":" + top, "failed", "", "no answer in %d s" % self.timeout if hung else "the test's process died")
            settled.append(top)

    def reason(self, said, name):
        text = "".join("".join(lines) for test, lines in said.items() if test and (test == name or test.startswith(name + "/")))
        m = re.search(r"((?:ERROR|FATAL|PANIC): .*?)\s*\(SQLSTATE (\w{5})\)", text)
        if m:
            return m.group(2), m.group(1)
        for pattern in (r"Error:\s+(.*)", r"\w+_test\.go:\d+: (.+)", r"panic: (.*)"):
            m = re.search(pattern, text)
            if m:
                return "", m.group(1).strip()[:300]
        return "", events.first_line(text)


class Maven:
    """pgjdbc's tests, whose sources Maven Central has: run by surefire, its reports read as results."""

    name = "pgjdbc"
    # Without the packages that need TLS, Kerberos, several servers or replication.
    packages = ["core", "jdbc2", "jdbc3", "jdbc4", "jdbc42", "util"]
    timeout = 900

    def source(self, cache):
        return os.path.join(cache.source("pgjdbc"), "postgresql-%s-jdbc-src" % PGJDBC)

    def prepare(self, cache, server, work):
        create_database(server, "suite_pgjdbc")
        home = self.source(cache)
        if os.path.exists(os.path.join(home, "target", "test-classes")):
            return
        shutil.rmtree(cache.source("pgjdbc"), ignore_errors=True)
        os.makedirs(cache.source("pgjdbc"))
        coordinates = "org.postgresql:postgresql:%s:tar.gz:jdbc-src" % PGJDBC
        run(["mvn", "-q", "-B", "dependency:copy", "-Dartifact=" + coordinates, "-DoutputDirectory=" + cache.source("pgjdbc")], cwd=work)
        shutil.unpack_archive(os.path.join(cache.source("pgjdbc"), "postgresql-%s-jdbc-src.tar.gz" % PGJDBC), cache.source("pgjdbc"))
        pom = os.path.join(home, "pom.xml")
        with open(pom) as f:
            text = f.read()
        with open(pom, "w") as f:
            f.write(text.replace("timeout.default=5 m", "timeout.default=30 s\n                            junit.jupiter.execution.timeout.thread.mode.default=SEPARATE_THREAD"))
        run(["mvn", "-q", "-B", "test-compile"], cwd=home, stdout=subprocess.DEVNULL)

    def run(self, cache, server, work, log):
        home = self.source(cache)
        with open(os.path.join(home, "build.local.properties"), "w") as f:
            f.write("server=127.0.0.1\nport=%d\ndatabase=suite_pgjdbc\nusername=%s\npassword=\nprivilegedUser=%s\nprivilegedPassword=\n" % (server.port, server.user, server.user))
        for package in self.packages:
            reports = os.path.join(home, "target", "surefire-reports")
            shutil.rmtree(reports, ignore_errors=True)
            argv = ["mvn", "-B", "surefire:test", "-Dtest=org/postgresql/test/%s/**/*Test*" % package, "-Dsurefire.failIfNoSpecifiedTests=false",
                    "-Dmaven.test.failure.ignore=true", "-Dsurefire.timeout=%d" % self.timeout]
            subprocess.run(argv, cwd=home, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            for f in sorted(os.listdir(reports)) if os.path.isdir(reports) else []:
                if f.endswith(".xml"):
                    self.read(os.path.join(reports, f), work)

    def read(self, path, work):
        for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
            outcome, why = "passed", ""
            for child in case:
                if child.tag in ("failure", "error"):
                    outcome, why = "failed", events.first_line(child.get("message") or child.get("type") or "")
                elif child.tag == "skipped":
                    outcome = "skipped"
            write(work, case.get("classname") + "." + (case.get("name") or "class"), outcome, "", why)


def write(work, test, outcome, state="", why=""):
    with open(os.path.join(work, "events"), "a") as f:
        f.write(json.dumps({"test": test, "outcome": outcome, "state": state, "why": why}) + "\n")


def create_database(server, name):
    server.psql("drop database if exists " + name)
    server.psql("create database " + name)


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def read_events(path):
    """The settled tests by name, and the one that has begun and not ended."""
    done, current = {}, None
    if os.path.exists(path):
        with open(path) as f:
            for line in f:
                if not line.endswith("\n"):
                    break
                e = json.loads(line)
                if "start" in e:
                    current = e["start"]
                else:
                    done[e["test"]] = e
                    if e["test"] == current:
                        current = None
    return done, current


def watch(argv, cwd, env, work, log, timeout):
    """Runs a suite that writes events. A test that gives no answer in time is killed and counted, and the suite goes on after it."""
    path, settled = os.path.join(work, "events"), os.path.join(work, "done")
    env = {**env, "SUITE_EVENTS": path, "SUITE_DONE": settled}
    for attempt in range(60):
        done, _ = read_events(path)
        with open(settled, "w") as f:
            f.writelines(t + "\n" for t in done)
        process = subprocess.Popen(argv, cwd=cwd, env=env, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        size, since, hung = -1, time.monotonic(), False
        while process.poll() is None:
            time.sleep(0.2)
            now = os.path.getsize(path) if os.path.exists(path) else 0
            if now != size:
                size, since = now, time.monotonic()
            _, current = read_events(path) if time.monotonic() - since > timeout else (None, None)
            # Between tests a suite makes its tables, or its databases: that may take longer.
            if time.monotonic() - since > (timeout if current else 10 * timeout):
                hung = True
                kill(process)
                process.wait()
        kill(process)
        done, current = read_events(path)
        if current:
            write(work, current, "failed", "", "no answer in %d s" % timeout if hung else "the test's process died")
            continue
        if hung:
            print("  the suite hangs outside of a test; see its log", file=sys.stderr)
        return


def suites():
    def sqlalchemy_arguments(server):
        return ["--dburi", "postgresql+psycopg2://%s@127.0.0.1:%d/suite_%%s" % (server.user, server.port)]

    schemas = ["create schema test_schema", "create schema test_schema_2"]
    return [
        Pytest("psycopg2", "psycopg2", ["tests"], variables=lambda s: {
            "PSYCOPG2_TESTDB": "suite_psycopg2", "PSYCOPG2_TESTDB_HOST": "127.0.0.1", "PSYCOPG2_TESTDB_PORT": str(s.port), "PSYCOPG2_TESTDB_USER": s.user}),
        Pytest("asyncpg", "asyncpg", ["tests", "--ignore=tests/test__sourcecode.py", "--ignore=tests/test__environment.py"]),
        Go(),
        Pytest("sqlalchemy_suite", "sqlalchemy", ["test/dialect/test_suite.py", "--maxfail=100000", "-p", "no:logging"],
               extra=lambda s: [a.replace("%s", "sqlalchemy_suite") for a in sqlalchemy_arguments(s)], setup=schemas),
        Pytest("sqlalchemy_dialect", "sqlalchemy", ["test/dialect/postgresql", "-k", "not Range", "--maxfail=100000", "-p", "no:logging"],
               extra=lambda s: [a.replace("%s", "sqlalchemy_dialect") for a in sqlalchemy_arguments(s)], setup=schemas),
        # Ranges make nine tenths of the dialect's tests: each is run for six types of ranges and six of multiranges.
        Pytest("sqlalchemy_ranges", "sqlalchemy", ["test/dialect/postgresql", "-k", "Range", "--maxfail=100000", "-p", "no:logging"],
               extra=lambda s: [a.replace("%s", "sqlalchemy_ranges") for a in sqlalchemy_arguments(s)], setup=schemas),
        Django(),
        Maven(),
    ]


def main():
    names = [s.name for s in suites()]
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("suite", nargs="*", help="of " + ", ".join(names) + "; all if none is named")
    p.add_argument("--cache", default=os.environ.get("SUITES_CACHE", os.path.join(tempfile.gettempdir(), "meridian-suites")), help="where packages and results are kept")
    p.add_argument("--meridian", default=os.path.join(ROOT, "bin", "meridian"), help="the binary to test")
    p.add_argument("--label", default="meridian", help="under which Meridian's results are kept")
    p.add_argument("--only", choices=["postgresql", "meridian"], help="run against one of the servers")
    p.add_argument("--again", action="store_true", help="run PostgreSQL's part although its results are there")
    p.add_argument("--report", action="store_true", help="print the table from the kept results, and run nothing")
    p.add_argument("--least", type=float, default=0, help="fail if a suite's ratio is below this")
    o = p.parse_args()
    if unknown := set(o.suite) - set(names):
        p.error("no suite " + ", ".join(sorted(unknown)))
    chosen = [s for s in suites() if not o.suite or s.name in o.suite]
    cache = Cache(o.cache)
    results = os.path.join(cache.path, "results")
    os.makedirs(results, exist_ok=True)
    if not o.report:
        cache.install()
        for label, start in (("postgresql", servers.PostgreSQL), (o.label, lambda: servers.Meridian(os.path.abspath(o.meridian)))):
            kind = "postgresql" if label == "postgresql" else "meridian"
            due = [s for s in chosen if o.only in (None, kind) and (kind == "meridian" or o.again or not os.path.exists(report.path(results, s.name, label)))]
            if not due:
                continue
            server = start()
            try:
                for s in due:
                    one(s, cache, server, results, label)
                    if not server.alive():
                        print("%s died in %s; its log is kept: %s" % (label, s.name, results), file=sys.stderr)
                        shutil.copy(server.log.name, os.path.join(results, s.name + "." + label + ".died"))
                        server.stop()
                        server = start()
            finally:
                server.stop()
    lowest = report.table(results, [s.name for s in chosen], o.label)
    if lowest < o.least:
        sys.exit("a suite's ratio is below %.2f" % o.least)


def one(suite, cache, server, results, label):
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as work, open(os.path.join(results, suite.name + "." + label + ".log"), "w", errors="replace") as log:
        try:
            suite.prepare(cache, server, work)
        except (RuntimeError, subprocess.CalledProcessError) as e:
            write(work, "prepare", "failed", "", str(e))
        else:
            suite.run(cache, server, work, log)
        done, _ = read_events(os.path.join(work, "events"))
    with open(report.path(results, suite.name, label), "w") as f:
        for e in done.values():
            f.write(json.dumps(e) + "\n")
    count = {o: sum(e["outcome"] == o for e in done.values()) for o in ("passed", "failed", "skipped")}
    print("%-20s %-12s %s in %.0f s" % (suite.name, label, count, time.monotonic() - began), file=sys.stderr)


if __name__ == "__main__":
    main()
