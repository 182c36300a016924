"""The basics of psycopg 3 against a server: python basics.py URL"""
import datetime as dt
import decimal
import sys
import threading
import time
import uuid

import psycopg
from psycopg import errors
from psycopg.types.json import Jsonb

url = sys.argv[1]
failures = 0


def step(name):
    def run(f):
        global failures
        try:
            with psycopg.connect(url, autocommit=True) as conn:
                f(conn)
            print("  ok  ", name)
        except Exception as e:  # every step is tried
            failures += 1
            print("  FAIL", name, "-", type(e).__name__, getattr(e, "sqlstate", ""), str(e).strip().replace("\n", " | "))
    return run


def eq(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


COLUMNS = [("b", "bool", True), ("i2", "int2", -32768), ("i4", "int4", 2147483647), ("i8", "int8", -9223372036854775808),
           ("f4", "float4", 1.5), ("f8", "float8", 1e300), ("n", "numeric(30,6)", decimal.Decimal("123456789012345678.123456")),
           ("t", "text", "snow \u2603 and 'quotes' \\"), ("v", "varchar(20)", "varying"), ("c", "char(3)", "abc"),
           ("by", "bytea", bytes(range(256))), ("d", "date", dt.date(2024, 2, 29)), ("ti", "time", dt.time(23, 59, 59, 123456)),
           ("ts", "timestamp", dt.datetime(1999, 12, 31, 23, 59, 59, 999999)),
           ("tz", "timestamptz", dt.datetime(2026, 7, 1, 12, tzinfo=dt.timezone.utc)),
           ("iv", "interval", dt.timedelta(days=3, hours=4, seconds=5)), ("u", "uuid", uuid.UUID(int=2**127 + 1))]


@step("connect")
def _(conn):
    eq(conn.execute("SELECT 1").fetchone(), (1,))
    assert conn.info.server_version >= 130000, conn.info.server_version
    eq(conn.info.parameter_status("client_encoding"), "UTF8")


@step("create tables")
def _(conn):
    conn.execute("DROP TABLE IF EXISTS psycopg_types")
    conn.execute("DROP TABLE IF EXISTS psycopg_rows")
    conn.execute("CREATE TABLE psycopg_types (id int PRIMARY KEY, j jsonb, %s)" % ", ".join(f"{n} {t}" for n, t, _ in COLUMNS))
    conn.execute("CREATE TABLE psycopg_rows (id int PRIMARY KEY, name text NOT NULL UNIQUE, n int CHECK (n >= 0))")


for binary in (False, True):
    @step("types there and back, " + ("binary" if binary else "text"))
    def _(conn, binary=binary):
        names = ", ".join(n for n, _, _ in COLUMNS)
        mark = "%b" if binary else "%t"
        one = int(binary) * 10 + 1
        cur = conn.cursor(binary=binary)
        cur.execute(f"INSERT INTO psycopg_types (id, j, {names}) VALUES (%s, %s, {', '.join([mark] * len(COLUMNS))})",
                    [one, Jsonb({"a": [1, None, "x"]})] + [v for _, _, v in COLUMNS])
        eq(cur.rowcount, 1)
        cur.execute(f"INSERT INTO psycopg_types (id, {names}) VALUES (%s, {', '.join(['%s'] * len(COLUMNS))})", [one + 1] + [None] * len(COLUMNS))
        row = cur.execute(f"SELECT {names} FROM psycopg_types WHERE id = %s", [one]).fetchone()
        for (name, _, want), got in zip(COLUMNS, row):
            if got != want:
                raise AssertionError(f"{name}: got {got!r}, want {want!r}")
        eq(cur.execute("SELECT j FROM psycopg_types WHERE id = %s", [one]).fetchone()[0], {"a": [1, None, "x"]})
        eq(set(cur.execute(f"SELECT {names} FROM psycopg_types WHERE id = %s", [one + 1]).fetchone()), {None})


@step("many rows and prepared statements")
def _(conn):
    cur = conn.cursor()
    cur.executemany("INSERT INTO psycopg_rows VALUES (%s, %s, %s)", [(i, f"row {i}", i) for i in range(500)])
    eq(cur.rowcount, 500)
    for i in range(20):  # psycopg prepares after five
        eq(conn.execute("SELECT name FROM psycopg_rows WHERE id = %s", [i]).fetchone(), (f"row {i}",))
    eq(len(conn.execute("SELECT * FROM psycopg_rows ORDER BY id").fetchall()), 500)


@step("returning and on conflict")
def _(conn):
    eq(conn.execute("INSERT INTO psycopg_rows VALUES (1000, 'k', 1) RETURNING id, name").fetchone(), (1000, "k"))
    row = conn.execute("INSERT INTO psycopg_rows VALUES (1000, 'k', 1) ON CONFLICT (id) DO UPDATE SET n = psycopg_rows.n + 1 RETURNING n").fetchone()
    eq(row, (2,))


@step("pipeline")
def _(conn):
    with conn.pipeline() as p:
        curs = [conn.execute("SELECT %s::int * 2", [i]) for i in range(100)]
        p.sync()
        eq([c.fetchone()[0] for c in curs], [2 * i for i in range(100)])
    try:
        with conn.pipeline():
            conn.execute("SELECT 1/0")
            conn.execute("SELECT 2")
        raise AssertionError("no error")
    except errors.DivisionByZero:
        pass
    eq(conn.execute("SELECT 3").fetchone(), (3,))


@step("errors by SQLSTATE")
def _(conn):
    for sql, kind in [("SELECT * FROM no_such_table", errors.UndefinedTable), ("SELECT nosuch FROM psycopg_rows", errors.UndefinedColumn),
                      ("SELEC 1", errors.SyntaxError), ("SELECT 1/0", errors.DivisionByZero), ("SELECT 'x'::int", errors.InvalidTextRepresentation),
                      ("INSERT INTO psycopg_rows VALUES (1, 'x', 1)", errors.UniqueViolation), ("INSERT INTO psycopg_rows VALUES (2000, NULL, 1)", errors.NotNullViolation),
                      ("INSERT INTO psycopg_rows VALUES (2000, 'y', -1)", errors.CheckViolation), ("SELECT 100000::int2", errors.NumericValueOutOfRange),
                      ("SELECT no_such_function(1)", errors.UndefinedFunction)]:
        try:
            conn.execute(sql)
        except kind:
            continue
        raise AssertionError("no error: " + sql)
    try:
        conn.execute("SELECT * FROM no_such_table")
    except errors.UndefinedTable as e:
        eq(e.diag.severity, "ERROR")
        eq(e.diag.statement_position, "15")


@step("transactions")
def _(conn):
    try:
        with conn.transaction():
            conn.execute("INSERT INTO psycopg_rows VALUES (3000, 'in', 1)")
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    eq(conn.execute("SELECT count(*) FROM psycopg_rows WHERE id = 3000").fetchone(), (0,))
    with conn.transaction():
        conn.execute("INSERT INTO psycopg_rows VALUES (3001, 'outer', 1)")
        try:
            with conn.transaction():  # a savepoint
                conn.execute("INSERT INTO psycopg_rows VALUES (3002, 'inner', 1)")
                conn.execute("INSERT INTO psycopg_rows VALUES (3001, 'again', 1)")
        except errors.UniqueViolation:
            pass
        conn.execute("INSERT INTO psycopg_rows VALUES (3003, 'after', 1)")
    eq(conn.execute("SELECT id FROM psycopg_rows WHERE id > 3000 ORDER BY id").fetchall(), [(3001,), (3003,)])
    conn.execute("BEGIN")
    try:
        conn.execute("SELECT 1/0")
    except errors.DivisionByZero:
        pass
    try:
        conn.execute("SELECT 1")
        raise AssertionError("a failed transaction goes on")
    except errors.InFailedSqlTransaction:
        conn.execute("ROLLBACK")


@step("results and errors inside of a pipeline")
def _(conn):
    # fetchone() sends Flush and waits, with no Sync.
    with conn.pipeline():
        eq(conn.execute("SELECT 1").fetchone(), (1,))
        try:
            conn.execute("SELECT * FROM nowhere").fetchone()
            raise AssertionError("no error")
        except errors.UndefinedTable:
            pass
    with conn.pipeline(), conn.transaction():
        eq(conn.execute("SELECT 2").fetchone(), (2,))
    eq(conn.execute("SELECT 3").fetchone(), (3,))


@step("server cursors")
def _(conn):
    with conn.transaction(), conn.cursor("c") as cur:
        cur.execute("SELECT g FROM generate_series(1, 100) g WHERE g > %s ORDER BY g", (10,))
        eq(cur.fetchmany(2), [(11,), (12,)])
    cur = psycopg.ServerCursor(conn, "held", withhold=True, scrollable=True)
    cur.execute("SELECT g FROM generate_series(1, 100) g ORDER BY g")
    eq(cur.fetchmany(3), [(1,), (2,), (3,)])
    cur.scroll(-2)
    eq(cur.fetchone(), (2,))
    cur.scroll(50, "absolute")
    eq(cur.fetchone(), (51,))
    cur.close()


@step("encodings")
def _(conn):
    conn.execute("SET client_encoding TO 'latin1'")
    eq(conn.execute("SELECT %s::text, chr(233)", ("\u00fc",)).fetchone(), ("\u00fc", "\u00e9"))
    try:
        conn.execute("SELECT chr(8364)")
        raise AssertionError("no error")
    except errors.UntranslatableCharacter:
        pass


@step("copy in and out")
def _(conn):
    cur = conn.cursor()
    with cur.copy("COPY psycopg_rows (id, name, n) FROM STDIN") as copy:
        for i in range(10000, 10300):
            copy.write_row((i, f"tab\tnewline\n{i}", None if i % 7 == 0 else i))
    eq(conn.execute("SELECT count(*), count(n) FROM psycopg_rows WHERE id >= 10000").fetchone(), (300, 300 - len([i for i in range(10000, 10300) if i % 7 == 0])))
    with cur.copy("COPY (SELECT id, name, n FROM psycopg_rows WHERE id >= 10000 ORDER BY id) TO STDOUT") as copy:
        rows = list(copy.rows())
    eq(len(rows), 300)
    eq(rows[1][:2], ("10001", "tab\tnewline\n10001"))
    try:
        with cur.copy("COPY psycopg_rows (id, name, n) FROM STDIN") as copy:
            copy.write("not a number\tx\t1\n")
        raise AssertionError("no error")
    except errors.InvalidTextRepresentation:
        pass
    eq(conn.execute("SELECT 1").fetchone(), (1,))


@step("cancel")
def _(conn):
    threading.Timer(0.3, conn.cancel).start()
    begin = time.monotonic()
    try:
        conn.execute("SELECT pg_sleep(20)")
        raise AssertionError("not cancelled")
    except errors.QueryCanceled:
        assert time.monotonic() - begin < 10
    eq(conn.execute("SELECT 1").fetchone(), (1,))


sys.exit(1 if failures else 0)
