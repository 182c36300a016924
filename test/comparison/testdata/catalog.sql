-- Names that PostgreSQL makes for constraints, indexes and sequences, and what its catalogue says of them.

CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE, c int CHECK (c > 0), d int REFERENCES t (a), e int, UNIQUE (a, b), CHECK (a < b), FOREIGN KEY (d, a) REFERENCES t (a, b), CHECK (b < a))
CREATE INDEX ON t (a) INCLUDE (b)
CREATE INDEX ON t (a, b) INCLUDE (c, d)
CREATE INDEX ON t (a)
CREATE INDEX ON t (a)
CREATE INDEX ON t (a) INCLUDE (a)
CREATE UNIQUE INDEX ON t (e) INCLUDE (b)
ALTER TABLE t ADD UNIQUE (e) INCLUDE (c)
ALTER TABLE t ADD CHECK (e > 0)
ALTER TABLE t ADD CHECK (e > 1)
ALTER TABLE t ADD CHECK (true)
ALTER TABLE t ADD FOREIGN KEY (e) REFERENCES t
ALTER TABLE t ADD FOREIGN KEY (e) REFERENCES t (b)
CREATE TABLE w (a int, b int, UNIQUE (a) INCLUDE (b), PRIMARY KEY (b) INCLUDE (a))
CREATE TABLE w2 (LIKE w INCLUDING ALL)
SELECT conrelid::regclass, conname, contype FROM pg_constraint WHERE connamespace = current_schema()::regnamespace ORDER BY conrelid::regclass::text, conname
SELECT relname, relkind FROM pg_class WHERE relnamespace = current_schema()::regnamespace ORDER BY relname

CREATE TABLE a234567890123456789012345678901234567890123456789012345678901234567890 (b1234567890123456789012345678901234567890 int PRIMARY KEY, b2234567890123456789012345678901234567890 int UNIQUE CHECK (b2234567890123456789012345678901234567890 > 0), c serial, UNIQUE (c, b2234567890123456789012345678901234567890))
SELECT conname, contype FROM pg_constraint WHERE connamespace = current_schema()::regnamespace ORDER BY conname
SELECT relname, relkind FROM pg_class WHERE relnamespace = current_schema()::regnamespace ORDER BY relname

CREATE TABLE s (abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk int UNIQUE CHECK (abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk > 0), abcdefghijklmnopqrstuvwxyz int, abcdefghijklmnopqrstuvwxyz2 int, abcdefghijklmnopqrstuvwxyz3 serial)
CREATE INDEX ON s (abcdefghijklmnopqrstuvwxyz, abcdefghijklmnopqrstuvwxyz2, abcdefghijklmnopqrstuvwxyz3)
CREATE INDEX ON s (abcdefghijklmnopqrstuvwxyz, abcdefghijklmnopqrstuvwxyz2, abcdefghijklmnopqrstuvwxyz3)
CREATE INDEX ON s (abcdefghijklmnopqrstuvwxyz, abcdefghijklmnopqrstuvwxyz2) INCLUDE (abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk)
CREATE TABLE s2 (LIKE s INCLUDING ALL)
SELECT conname, contype FROM pg_constraint WHERE connamespace = current_schema()::regnamespace ORDER BY conname
SELECT relname, relkind FROM pg_class WHERE relnamespace = current_schema()::regnamespace ORDER BY relname

CREATE TABLE "éééééééééééééééééééééééééééééé1" ("ééééééééééééééééééééééééééééééé" int PRIMARY KEY, "xéééééééééééééééééééééééééééééé" int UNIQUE, x serial UNIQUE)
CREATE TABLE "0éééééééééééééééééééééééééééééé" ("ééééééééééééééééééééééééééééééé" int PRIMARY KEY, "xéééééééééééééééééééééééééééééé" int UNIQUE)
SELECT conname, contype FROM pg_constraint WHERE connamespace = current_schema()::regnamespace ORDER BY conname COLLATE "C"
SELECT relname, relkind FROM pg_class WHERE relnamespace = current_schema()::regnamespace ORDER BY relname COLLATE "C"

CREATE TYPE mood AS ENUM ('sad', 'ok')
CREATE TABLE o (a bool, b smallint, c int, d bigint, e real, f float8, g numeric(10,2), h text, i varchar(5), j char(3), k name, l "char", m bytea, n date, o time, p timetz, q timestamp, r timestamptz, s interval, t uuid, u jsonb, v oid, w regclass, x int[], y text[], z mood, aa inet, ab cidr, ac macaddr, ad macaddr8, ae mood[], af varchar[], ag regtype)
CREATE INDEX one ON o (a, b, c, d, e, f, g, h, i, j, k) INCLUDE (a)
CREATE INDEX two ON o (l, m, n, o, p, q, r, s, t, u, v)
CREATE INDEX three ON o (w, x, y, z, aa, ab, ac, ad, ae, af, ag)
SELECT i.indexrelid::regclass, k.n, o.opcname, o.oid < 10000 AND o.oid = 3126, o.opcintype, o.opcdefault, f.opfname FROM pg_index i, LATERAL unnest(i.indclass) WITH ORDINALITY AS k (c, n) JOIN pg_opclass o ON o.oid = k.c JOIN pg_opfamily f ON f.oid = o.opcfamily WHERE i.indrelid = 'o'::regclass ORDER BY 1, 2
SELECT indexname, regexp_replace(indexdef, ' ON .*USING', ' ON USING') FROM pg_indexes WHERE tablename = 'o' ORDER BY 1
SELECT oid, opcname, opcfamily, opcintype, opcdefault, opckeytype FROM pg_opclass WHERE opcmethod = 403 AND oid < 10000 ORDER BY oid
SELECT pg_opclass_is_visible(3126), pg_opclass_is_visible(1), pg_opfamily_is_visible(1994), pg_opfamily_is_visible(1)

CREATE TABLE o (a text, b int)
CREATE INDEX ON o (a text_ops, b int4_ops)
CREATE INDEX ON o (a int4_ops)
CREATE INDEX ON o (a nothing_ops)
SELECT pg_get_indexdef(indexrelid, 1, true) FROM pg_index WHERE indrelid = 'o'::regclass ORDER BY 1
