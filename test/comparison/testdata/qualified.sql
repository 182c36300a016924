-- Columns with the schema of their table.
drop schema if exists other cascade
create schema if not exists other
create table t (a int primary key, b text)
create table other.t (a int primary key, c text)
create view other.v as select scratch.t.a, scratch.t.b from t
insert into t values (1, 'x')
insert into other.t values (1, 'y'), (2, 'z')
select scratch.t.a from t
select scratch.t.* from t
select other.t.a from t
select scratch.t.a, other.t.a, other.t.c from t, other.t order by 2
select t.a from t, other.t
select scratch.t.a from t join other.t on scratch.t.a = other.t.a
select * from t join other.t using (a) where other.t.c = 'y'
select scratch.t.zz from t
select scratch.t.a from t x
select scratch.x.a from t x
select nos.t.a from t
select scratch.nos.a from t
select elsewhere.scratch.t.a from t
select elsewhere.scratch.t.* from t
select other.v.a from other.v
select v.a, other.v.b from other.v where other.v.a = 1 order by other.v.a
select scratch.t.a, count(*) from t group by scratch.t.a having scratch.t.a > 0 order by scratch.t.a
select count(scratch.t.*) from t
select scratch.t from t
select (scratch.t.*) is null from t
select row_to_json(scratch.t.*) from t
select (select other.t.a from other.t where other.t.a = scratch.t.a) from t
select exists (select 1 from other.t where scratch.t.a = other.t.a) from scratch.t
insert into t values (2, 'x') returning scratch.t.a, scratch.t.*
insert into t values (2, 'y') on conflict (a) do update set b = scratch.t.b || excluded.b where scratch.t.a = 2 returning scratch.t.b
insert into t as q values (2, 'y') on conflict (a) do update set b = scratch.t.b
update t set b = scratch.t.b || 'u' where scratch.t.a = 1 returning scratch.t.*
update t set b = other.t.c from other.t where other.t.a = scratch.t.a and scratch.t.a = 1 returning scratch.t.*, other.t.a
update t set b = 1 where other.t.a = 1
update other.t set c = other.t.c || t.a returning other.t.c, t.c
delete from t using other.t where scratch.t.a = other.t.a and other.t.a = 2 returning other.t.*, scratch.t.*
delete from other.t where scratch.t.a = 1
delete from only other.t where other.t.a = 1
select scratch.t.tableoid::regclass from t
select t.* from t, other.t
select * from t, t
select * from t, scratch.t
select * from t a, t
select * from t, other.t t
select * from t natural join other.t
with t as (select 1 as a) select scratch.t.a from t
with t as (select 1 as a) select scratch.t.a from scratch.t
select pg_catalog.pg_class.relname from pg_class where pg_catalog.pg_class.oid = 'pg_class'::regclass
select pg_class.relname from pg_catalog.pg_class where pg_catalog.pg_class.relname = 'pg_class'
select relname, pg_catalog.pg_class.relkind from pg_class where relname = 'pg_class'
create view v2 as select scratch.t.a, other.t.c from t, other.t
select * from v2
create table c (a int check (scratch.c.a > 0))
create table c (a int check (c.a > 0))
create table other.c (a int check (other.c.a > 0), b int generated always as (other.c.a + c.a) stored)
insert into other.c values (1)
insert into other.c values (0)
select * from other.c
select * from t join other.t on scratch.t.a = other.t.a for update of scratch.t
select * from t for update of t
set search_path = other, scratch
select t.c from t
select t.a from scratch.t
select scratch.t.b from t
select scratch.t.b from scratch.t
select other.t.c from t
drop schema other cascade
