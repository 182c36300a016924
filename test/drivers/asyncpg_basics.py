"""The basics of asyncpg against a server: python asyncpg_basics.py URL"""
import asyncio
import datetime as dt
import sys

import asyncpg

failures = 0


def eq(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


async def fails(sqlstate, coroutine):
    try:
        await coroutine
    except asyncpg.PostgresError as e:
        eq(e.sqlstate, sqlstate)
        return
    raise AssertionError(f"no error {sqlstate}")


async def values(c):
    now = dt.datetime(2026, 7, 1, 12, tzinfo=dt.timezone.utc)
    row = await c.fetchrow("SELECT $1::int8 AS i, $2::text AS t, $3::timestamptz AS z, $4::int[] AS a, $5::jsonb AS j, $6::interval AS v",
                           1 << 40, "snow \u2603", now, [1, 2, None], '{"a": 1}', dt.timedelta(days=3, seconds=5))
    eq(tuple(row), (1 << 40, "snow \u2603", now, [1, 2, None], '{"a": 1}', dt.timedelta(days=3, seconds=5)))


async def errors(c):
    # asyncpg asks with Flush, and sends Sync when it has read the answer.
    await fails("42P01", c.fetch("SELECT * FROM nowhere"))
    await fails("42601", c.prepare("selec"))
    await fails("22012", c.fetch("SELECT 1 / $1::int", 0))
    eq(await c.fetchval("SELECT 1"), 1)


async def many(c):
    await c.execute("DROP TABLE IF EXISTS asyncpg_rows; CREATE TABLE asyncpg_rows (id int PRIMARY KEY, v text)")
    await c.executemany("INSERT INTO asyncpg_rows VALUES ($1, $2)", [(i, str(i)) for i in range(2000)])
    await fails("23505", c.executemany("INSERT INTO asyncpg_rows VALUES ($1, $2)", [(5000, "a"), (5000, "b"), (5001, "c")]))
    eq(await c.fetchval("SELECT count(*) FROM asyncpg_rows"), 2000)


async def cursors(c):
    async with c.transaction():
        eq(len([r async for r in c.cursor("SELECT id FROM asyncpg_rows ORDER BY id", prefetch=50)]), 2000)
        cursor = await c.cursor("SELECT id FROM asyncpg_rows WHERE id > $1 ORDER BY id", 100)
        await cursor.forward(10)
        eq([r["id"] for r in await cursor.fetch(2)], [111, 112])


async def savepoints(c):
    async with c.transaction():
        await c.execute("INSERT INTO asyncpg_rows VALUES (9000, 'kept')")
        try:
            async with c.transaction():
                await c.execute("INSERT INTO asyncpg_rows VALUES (9001, 'lost')")
                raise ValueError
        except ValueError:
            pass
    eq(await c.fetchval("SELECT count(*) FROM asyncpg_rows WHERE id > 8999"), 1)


async def copies(c):
    await c.copy_records_to_table("asyncpg_rows", records=[(i, "copied") for i in range(10000, 10100)])
    eq(await c.fetchval("SELECT count(*) FROM asyncpg_rows WHERE v = 'copied'"), 100)


async def cancels(c):
    try:
        await c.execute("SELECT pg_sleep(20)", timeout=0.5)
    except asyncio.TimeoutError:
        eq(await c.fetchval("SELECT 1"), 1)
        return
    raise AssertionError("it was not cancelled")


async def main(url):
    global failures
    for step in (values, errors, many, cursors, savepoints, copies, cancels):
        try:
            c = await asyncio.wait_for(asyncpg.connect(url), 10)
            await asyncio.wait_for(step(c), 60)
            await c.reset()
            await c.close()
            print("  ok  ", step.__name__)
        except Exception as e:  # every step is tried
            failures += 1
            print("  FAIL", step.__name__, "-", type(e).__name__, getattr(e, "sqlstate", ""), str(e).strip().replace("\n", " | "))


asyncio.run(main(sys.argv[1]))
sys.exit(1 if failures else 0)
