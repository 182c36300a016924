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
