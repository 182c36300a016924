-- Several changes of one row in one statement: each part of it sees the rows as they were, a row is changed once, and ON CONFLICT meets what
-- the parts before have written and removed.

create table t (k int primary key, v int, u int unique, check (v < 100))
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t RETURNING *) INSERT INTO t SELECT k, v+1, u FROM d ON CONFLICT DO NOTHING
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t RETURNING *) INSERT INTO t SELECT k, v+1, u FROM d ON CONFLICT (k) DO UPDATE SET v = t.v + 50
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t RETURNING *) INSERT INTO t SELECT k, v+1, u FROM d RETURNING *
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t) INSERT INTO t VALUES (1, 5, 5) ON CONFLICT DO NOTHING
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t) INSERT INTO t VALUES (1, 5, 5) ON CONFLICT (k) DO UPDATE SET v = 99
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t) INSERT INTO t VALUES (1, 5, 5)
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (UPDATE t SET v = 1 RETURNING k), b AS (UPDATE t SET v = 2 RETURNING k) SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (UPDATE t SET v = 1), b AS (UPDATE t SET v = 2) SELECT 1
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (UPDATE t SET v = 1) UPDATE t SET v = 3
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (UPDATE t SET v = 1 RETURNING *) UPDATE t SET v = a.v + 1 FROM a WHERE a.k = t.k
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (UPDATE t SET v = 1 RETURNING *) DELETE FROM t USING a WHERE a.k = t.k
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (DELETE FROM t RETURNING *) UPDATE t SET v = a.v + 1 FROM a WHERE a.k = t.k RETURNING *
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (UPDATE t SET v = v+1 RETURNING *) INSERT INTO t SELECT k, v, u FROM a ON CONFLICT (k) DO UPDATE SET v = 0
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (UPDATE t SET v = v+1 RETURNING *) INSERT INTO t SELECT k, v, u FROM a ON CONFLICT (u) DO UPDATE SET v = 0
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (UPDATE t SET v = v+1 RETURNING *) INSERT INTO t SELECT k, v, u FROM a ON CONFLICT DO NOTHING RETURNING *
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (UPDATE t SET k = k+10 RETURNING *) INSERT INTO t SELECT k-10, v, u+1 FROM a ON CONFLICT (k) DO UPDATE SET v = 0
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (INSERT INTO t VALUES (7,7,7) RETURNING *) INSERT INTO t SELECT * FROM a ON CONFLICT DO NOTHING
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (INSERT INTO t VALUES (7,7,7) RETURNING *) INSERT INTO t SELECT * FROM a ON CONFLICT (k) DO UPDATE SET v=1
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (INSERT INTO t VALUES (7,7,7) RETURNING *) UPDATE t SET v = 5 FROM a
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (INSERT INTO t VALUES (7,7,7) RETURNING *) SELECT * FROM t ORDER BY k
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
UPDATE t SET v = x.v FROM (VALUES (1, 1), (1, 2), (1, 200)) x(k, v) WHERE x.k = t.k
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
UPDATE t SET v = x.v FROM (VALUES (1, 1), (1, 2)) x(k, v) WHERE x.k = t.k
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (UPDATE t SET v = 1 RETURNING *), b AS (UPDATE t SET v = a.v + 200 FROM a WHERE a.k=t.k) SELECT count(*) FROM a
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t RETURNING k) INSERT INTO t SELECT k+1, 0, k FROM d ON CONFLICT (k) DO NOTHING
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t RETURNING k) INSERT INTO t SELECT k+1, 0, k FROM d ON CONFLICT (k) DO UPDATE SET v = 77
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t RETURNING k) SELECT * FROM d LIMIT 1
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t RETURNING *), i AS (INSERT INTO t SELECT k, v+1, u FROM d ON CONFLICT (k) DO UPDATE SET v = 0 RETURNING *) SELECT * FROM i ORDER BY k
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH i AS (INSERT INTO t VALUES (1, 55, 55) ON CONFLICT (k) DO UPDATE SET v = 56 RETURNING *) UPDATE t SET v = 9 FROM i
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH i AS (INSERT INTO t VALUES (1, 55, 55) ON CONFLICT (k) DO UPDATE SET v = 56 RETURNING *) DELETE FROM t USING i
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH i AS (INSERT INTO t VALUES (1, 55, 55) ON CONFLICT (k) DO UPDATE SET v = 56 RETURNING *) INSERT INTO t VALUES (1, 0, 0), (4, 4, 4) ON CONFLICT (k) DO UPDATE SET v = 57
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH i AS (INSERT INTO t VALUES (4, 55, 55) RETURNING *) INSERT INTO t VALUES (4, 0, 0) ON CONFLICT (k) DO UPDATE SET v = 57
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH i AS (INSERT INTO t VALUES (4, 55, 55) RETURNING *) INSERT INTO t VALUES (4, 0, 0)
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t WHERE k = 1), i AS (INSERT INTO t VALUES (1, 0, 0)) SELECT 1
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH i AS (INSERT INTO t VALUES (1, 0, 0)), d AS (DELETE FROM t WHERE k = 1) SELECT 1
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH a AS (UPDATE t SET v = 1 WHERE k < 3 RETURNING k), b AS (DELETE FROM t WHERE k IN (SELECT k FROM a) RETURNING k), c AS (DELETE FROM t RETURNING k) SELECT (SELECT count(*) FROM b), (SELECT count(*) FROM c), (SELECT count(*) FROM a)
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t WHERE k = 1 RETURNING u) UPDATE t SET u = d.u FROM d WHERE k = 2
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t WHERE k = 1 RETURNING u) INSERT INTO t SELECT 9, 9, u FROM d ON CONFLICT (u) DO UPDATE SET v = -1
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (UPDATE t SET u = 100 WHERE k = 1 RETURNING 11 AS u) INSERT INTO t SELECT 9, 9, u FROM d ON CONFLICT (u) DO UPDATE SET v = -1
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (UPDATE t SET u = 100 WHERE k = 1 RETURNING u) INSERT INTO t SELECT 9, 9, u FROM d ON CONFLICT (u) DO UPDATE SET v = -1
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (UPDATE t SET u = 100 WHERE k = 1 RETURNING u) INSERT INTO t SELECT 9, 9, u FROM d ON CONFLICT DO NOTHING
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t RETURNING *) INSERT INTO t SELECT k, v, u FROM d UNION ALL SELECT k+1, v, u+1 FROM d ON CONFLICT (k) DO UPDATE SET v = 0
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t WHERE k=1 RETURNING *) INSERT INTO t SELECT k, v+1, u FROM d ON CONFLICT (k) DO UPDATE SET v = t.v + 50 WHERE false RETURNING *
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
INSERT INTO t VALUES (1,5,50),(1,6,60) ON CONFLICT (k) DO UPDATE SET v = 7 WHERE excluded.v = 6
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
INSERT INTO t VALUES (5,5,50),(5,6,60) ON CONFLICT (k) DO UPDATE SET v = 7 WHERE false
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
DELETE FROM t USING (VALUES (1),(1)) x(k) WHERE x.k = t.k RETURNING *
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t WHERE k=1 RETURNING *), e AS (INSERT INTO t SELECT k, 1, u FROM d RETURNING *) INSERT INTO t SELECT k, 2, u FROM e ON CONFLICT (k) DO UPDATE SET v = 3
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t WHERE k=1 RETURNING *), e AS (INSERT INTO t SELECT k, 1, u FROM d RETURNING *), f AS (DELETE FROM t USING e WHERE t.k = e.k RETURNING t.*) SELECT * FROM f
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH u AS (UPDATE t SET k = 4 WHERE k = 1 RETURNING *) INSERT INTO t SELECT 4, 0, 0 FROM u ON CONFLICT (k) DO UPDATE SET v = 9
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH u AS (UPDATE t SET k = 4 WHERE k = 1 RETURNING *) INSERT INTO t SELECT 1, 0, 0 FROM u ON CONFLICT (k) DO UPDATE SET v = 9
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH u AS (UPDATE t SET k = 4 WHERE k = 1 RETURNING *) DELETE FROM t USING u WHERE t.k IN (1, 4)
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t RETURNING *) INSERT INTO t SELECT 1, v, u FROM d ON CONFLICT (k) DO UPDATE SET v = -1
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t RETURNING *) INSERT INTO t SELECT 3, v, u FROM d ON CONFLICT (k) DO UPDATE SET v = -1
select * from t order by k
delete from t
insert into t values (1, 10, 11), (2, 20, 22), (3, 30, 33)
WITH d AS (DELETE FROM t RETURNING *) INSERT INTO t SELECT 3, v, u FROM d ON CONFLICT (k) DO NOTHING RETURNING *
select * from t order by k
delete from t

-- A part that is not read is not computed, unless it changes rows; then it comes after the statement's own rows, the last part first.
with x as (select 1/0) select 1
with x as materialized (select 1/(g-3) as a from generate_series(1, 5) g) select * from x limit 2
with x as materialized (select 1/(g-3) as a from generate_series(1, 5) g) select * from x limit 3

create table t (k int primary key, v int)
create sequence s
insert into t values (1, 1), (2, 2), (3, 3)
with a as (update t set v = nextval('s')), b as (update t set k = k + 10), c as (select nextval('s')) select currval('s')
with a as (update t set v = 7 where k = 1), b as (update t set v = 8), c as (delete from t where k > 2 returning k) select * from c limit 0
select * from t order by k
insert into t values (1, 1), (1, 2) on conflict (k) do update set k = excluded.k + 100
insert into t values (5, 1), (5, 2), (5, 3) on conflict (k) do update set k = t.k + 100
select * from t order by k
insert into t values (1, 1), (1, 2), (1, 3) on conflict (k) do update set k = t.k + 200, v = excluded.v
select * from t order by k

-- A key that a row before has taken is a violation that comes first.
create table t (k int primary key, v int not null, u int unique)
insert into t values (1, 10, 1), (2, 20, 2)
with c0 as (insert into t select k + 1, v, u from (values (7, 1, 1), (7, 2, 3)) w(k, v, u) on conflict (k) do update set v = t.v + 1 returning k, v, u) select * from c0 limit 0
insert into t values (7, 1, 1), (7, 2, 3) on conflict (k) do update set v = 4
update t set v = x.v from (values (1, 5), (1, null)) x(k, v) where x.k = t.k

-- DO UPDATE's condition or values run a part that changes the row in the way: that part's change is the only one.
create table t (k int primary key, v int not null, u int unique)
insert into t values (1, 10, 1), (2, 20, 2)
with c0 as (update t set v = 5 where k = 2 returning v) insert into t values (2, 1, 9) on conflict (k) do update set v = (select v from c0) + 1 returning *
select * from t order by k
with c0 as (delete from t where k = 2 returning v) insert into t values (2, 1, 9) on conflict (k) do update set v = 7 where exists (select 1 from c0) returning *
select * from t order by k
with c0 as (insert into t values (1, 3, 3) on conflict (k) do update set v = 4 returning v) insert into t values (1, 1, 9) on conflict (k) do update set v = (select v from c0) + 1
select * from t order by k
with c0 as (update t set v = 6 where k = 1 returning v) insert into t values (3, 1, 3), (1, 1, 9) on conflict (k) do update set v = (select v from c0) + 1 returning *
select * from t order by k
with c0 as (update t set v = 6 where k = 1 returning v) insert into t values (3, 1, 3), (1, 1, 9) on conflict (k) do update set v = -(select v from c0), u = null where t.k < 0
select * from t order by k
