// The basics of node-postgres against a server: node node.js URL
"use strict";
const { Client, Pool } = require("pg");
const Cursor = require("pg-cursor");
const QueryStream = require("pg-query-stream");
const { from: copyFrom, to: copyTo } = require("pg-copy-streams");
const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");
const assert = require("node:assert");

const url = process.argv[2];
let failures = 0;

async function step(name, f) {
  const client = new Client({ connectionString: url });
  try {
    await client.connect();
    await f(client);
    console.log("  ok  ", name);
  } catch (e) {
    failures++;
    console.log("  FAIL", name, "-", e.code || "", e.message.replace(/\n/g, " | "));
  } finally {
    await client.end().catch(() => {});
  }
}

async function code(client, sql, want, values) {
  try {
    await client.query(sql, values);
  } catch (e) {
    assert.strictEqual(e.code, want, `${sql}: ${e.message}`);
    return e;
  }
  assert.fail("no error: " + sql);
}

const columns = [
  ["b", "bool", true, true], ["i2", "int2", -32768, -32768], ["i4", "int4", 2147483647, 2147483647],
  ["i8", "int8", "-9223372036854775808", "-9223372036854775808"], ["f4", "float4", 1.5, 1.5], ["f8", "float8", 1e300, 1e300],
  ["n", "numeric(30,6)", "123456789012345678.123456", "123456789012345678.123456"], ["t", "text", "snow \u2603 'quotes' \\", "snow \u2603 'quotes' \\"],
  ["v", "varchar(20)", "varying", "varying"], ["c", "char(5)", "abc", "abc  "], ["by", "bytea", Buffer.from([0, 1, 254, 255]), Buffer.from([0, 1, 254, 255])],
  ["ti", "time", "23:59:59.123456", "23:59:59.123456"], ["tz", "timestamptz", new Date(Date.UTC(2026, 6, 1, 12)), new Date(Date.UTC(2026, 6, 1, 12))],
  ["u", "uuid", "80000000-0000-0000-0000-000000000001", "80000000-0000-0000-0000-000000000001"], ["j", "jsonb", { a: [1, null, "x"] }, { a: [1, null, "x"] }],
];

(async () => {
  await step("connect", async c => {
    const r = await c.query("SELECT 1 AS one");
    assert.deepStrictEqual(r.rows, [{ one: 1 }]);
    assert.strictEqual(r.command, "SELECT");
  });
  await step("create tables", async c => {
    await c.query("DROP TABLE IF EXISTS node_types; DROP TABLE IF EXISTS node_rows");
    await c.query(`CREATE TABLE node_types (id int PRIMARY KEY, ${columns.map(([n, t]) => n + " " + t).join(", ")})`);
    await c.query("CREATE TABLE node_rows (id int PRIMARY KEY, name text NOT NULL UNIQUE, n int CHECK (n >= 0))");
  });
  await step("types there and back", async c => {
    const names = columns.map(([n]) => n).join(", "), marks = columns.map((_, i) => "$" + (i + 2)).join(", ");
    const r = await c.query(`INSERT INTO node_types (id, ${names}) VALUES ($1, ${marks})`, [1, ...columns.map(x => x[2])]);
    assert.strictEqual(r.rowCount, 1);
    await c.query(`INSERT INTO node_types (id, ${names}) VALUES ($1, ${marks})`, [2, ...columns.map(() => null)]);
    const row = (await c.query("SELECT * FROM node_types WHERE id = $1", [1])).rows[0];
    for (const [n, , , want] of columns) assert.deepStrictEqual(row[n], want, n);
    const nulls = (await c.query("SELECT * FROM node_types WHERE id = $1", [2])).rows[0];
    for (const [n] of columns) assert.strictEqual(nulls[n], null, n);
  });
  await step("prepared statements and many queries in flight", async c => {
    await Promise.all(Array.from({ length: 200 }, (_, i) => c.query({ name: "ins", text: "INSERT INTO node_rows VALUES ($1, $2, $3)", values: [i, "row " + i, i] })));
    const all = await Promise.all(Array.from({ length: 200 }, (_, i) => c.query({ name: "get", text: "SELECT name FROM node_rows WHERE id = $1", values: [i] })));
    all.forEach((r, i) => assert.strictEqual(r.rows[0].name, "row " + i));
  });
  await step("several statements in one string", async c => {
    const r = await c.query("SELECT 1 AS a; SELECT 2 AS b; SELECT 3 AS c");
    assert.deepStrictEqual(r.map(x => x.rows[0]), [{ a: 1 }, { b: 2 }, { c: 3 }]);
  });
  await step("rows as arrays, field names and types", async c => {
    const r = await c.query({ text: "SELECT 1::int4, 'x'::text, true", rowMode: "array" });
    assert.deepStrictEqual(r.rows, [[1, "x", true]]);
    assert.deepStrictEqual(r.fields.map(f => f.dataTypeID), [23, 25, 16]);
    assert.deepStrictEqual(r.fields.map(f => f.name), ["int4", "text", "bool"].map((n, i) => i === 2 ? "?column?" : n));
  });
  await step("errors by SQLSTATE", async c => {
    const e = await code(c, "SELECT * FROM no_such_table", "42P01");
    assert.strictEqual(e.severity, "ERROR");
    assert.strictEqual(e.position, "15");
    await code(c, "SELEC 1", "42601");
    await code(c, "SELECT 1/0", "22012");
    await code(c, "SELECT $1::int", "22P02", ["x"]);
    const u = await code(c, "INSERT INTO node_rows VALUES ($1, $2, $3)", "23505", [1, "other", 1]);
    assert.strictEqual(u.table, "node_rows");
    assert.strictEqual(u.constraint, "node_rows_pkey");
    await code(c, "INSERT INTO node_rows VALUES ($1, $2, $3)", "23502", [5000, null, 1]);
    await code(c, "INSERT INTO node_rows VALUES ($1, $2, $3)", "23514", [5000, "z", -1]);
    assert.strictEqual((await c.query("SELECT 1 AS one")).rows[0].one, 1);
  });
  await step("transactions", async c => {
    await c.query("BEGIN");
    await c.query("INSERT INTO node_rows VALUES (3000, 'in', 1)");
    await c.query("ROLLBACK");
    await c.query("BEGIN");
    await c.query("INSERT INTO node_rows VALUES (3001, 'outer', 1)");
    await c.query("SAVEPOINT s");
    await code(c, "INSERT INTO node_rows VALUES (3001, 'again', 1)", "23505");
    await code(c, "SELECT 1", "25P02");
    await c.query("ROLLBACK TO SAVEPOINT s");
    await c.query("INSERT INTO node_rows VALUES (3003, 'after', 1)");
    await c.query("COMMIT");
    assert.deepStrictEqual((await c.query("SELECT id FROM node_rows WHERE id >= 3000 ORDER BY id")).rows, [{ id: 3001 }, { id: 3003 }]);
  });
  await step("pool", async () => {
    const pool = new Pool({ connectionString: url, max: 5 });
    try {
      const r = await Promise.all(Array.from({ length: 50 }, (_, i) => pool.query("SELECT $1::int + 1 AS n", [i])));
      r.forEach((x, i) => assert.strictEqual(x.rows[0].n, i + 1));
    } finally {
      await pool.end();
    }
  });
  await step("streams and cursors", async c => {
    let n = 0;
    for await (const row of c.query(new QueryStream("SELECT n FROM generate_series(1, 1000) n", [], { batchSize: 100 }))) n += row.n ? 1 : 0;
    assert.strictEqual(n, 1000);
    await assert.rejects(async () => { for await (const row of c.query(new QueryStream("SELECT * FROM nowhere"))) n++; }, { code: "42P01" });
    n = 0;
    await assert.rejects(async () => {
      for await (const row of c.query(new QueryStream("SELECT 1 / (500 - n) FROM generate_series(1, 1000) g(n)", [], { batchSize: 10 }))) n++;
    }, { code: "22012" });
    assert.strictEqual(n, 490);
    const cursor = c.query(new Cursor("SELECT n FROM generate_series(1, 100) g(n) WHERE n > $1", [10]));
    assert.strictEqual((await cursor.read(5)).length, 5);
    assert.strictEqual((await cursor.read(5))[0].n, 16);
    await cursor.close();
    assert.strictEqual((await c.query("SELECT 7 AS x")).rows[0].x, 7);
  });
  await step("copy in and out", async c => {
    const lines = Array.from({ length: 300 }, (_, i) => `${10000 + i}\tname ${i}\t${i % 7 ? i : "\\N"}\n`);
    await pipeline(Readable.from(lines), c.query(copyFrom("COPY node_rows (id, name, n) FROM STDIN")));
    assert.strictEqual((await c.query("SELECT count(*)::int AS n FROM node_rows WHERE id >= 10000")).rows[0].n, 300);
    let out = "";
    const source = c.query(copyTo("COPY (SELECT id, name, n FROM node_rows WHERE id >= 10000 ORDER BY id) TO STDOUT"));
    for await (const chunk of source) out += chunk;
    assert.strictEqual(out, lines.join(""));
  });
  await step("listen for the end of the connection", async c => {
    const r = await c.query("SELECT current_database() AS d, current_user AS u");
    assert.ok(r.rows[0].d && r.rows[0].u);
  });
  process.exit(failures ? 1 : 0);
})();
