-- Temporary tables shadow others, and come before them in the search path.
create table t (id int primary key, v text)
discard temp
insert into t values (1, 'permanent')
create temp table t (id int primary key, v text default 'd', w numeric(5,2) not null default 1.5, unique (v, w), check (id > 0))
insert into t values (1, 'a'), (2, 'b') returning *
insert into t values (3) returning id, v, w
insert into t values (1, 'x')
insert into t values (4, 'a', 1.5)
insert into t values (-1)
insert into t values (5, 'e', null)
insert into t values (1, 'x') on conflict (id) do update set v = excluded.v || t.v returning *
insert into t values (1, 'x') on conflict do nothing
update t set w = w * 2 where id = 2 returning *
delete from t where id = 3 returning id
select * from t order by id
select * from pg_temp.t where id = 1
select * from scratch.t
select t.id, p.v from t join scratch.t p using (id)
select relpersistence, relkind, relnamespace = pg_my_temp_schema() from pg_class where oid = 't'::regclass
select 't'::regclass = 'pg_temp.t'::regclass, to_regclass('pg_temp.nope'), pg_table_is_visible('t'::regclass), pg_table_is_visible('scratch.t'::regclass)
select nspname like 'pg_temp_%' from pg_namespace where oid = pg_my_temp_schema()
select table_type, is_insertable_into, commit_action from information_schema.tables where table_name = 't' and table_schema like 'pg_temp%'
select column_name, data_type, is_nullable, column_default from information_schema.columns where table_name = 't' and table_schema like 'pg_temp%' order by ordinal_position
select indexname, tablename from pg_indexes where tablename = 't' and schemaname like 'pg_temp%' order by 1
set search_path = scratch, pg_temp
select v from t where id = 1
drop table t
select count(*) from t
drop table t
select * from t

-- Transactions and savepoints.
create table p (id int)
discard temp
begin
create temp table t (id int)
insert into t values (1)
insert into p values (1)
savepoint a
insert into t values (2)
create temp table u as select * from t
create index on t (id)
alter table t add column v int default 7
savepoint b
delete from t
truncate u
rollback to b
select * from t order by id
select * from u order by id
rollback to a
select * from t
select * from u
rollback
select * from t
select * from p
begin
create temp table t (id int)
insert into t values (1)
insert into p values (1)
commit
begin
drop table t
rollback
select * from t
begin
insert into t select id + 1 from t
insert into t select id + 2 from t
select * from t order by 1
select 1/0
select * from t
commit
select * from t

-- ON COMMIT.
discard temp
begin
create temp table d (id int) on commit drop
create temp table r (id int) on commit delete rows
create temp table k (id int) on commit preserve rows
create temp table a on commit drop as select 1 as x
create temp table b on commit delete rows as select generate_series(1, 3) as x
insert into d values (1)
insert into r values (1)
insert into k values (1)
select * from d, r, k, a
commit
select * from r
select * from k
select * from b
select * from a
select * from d
insert into r values (2)
select * from r
create temp table gone (id int) on commit drop
select * from gone
create table nope (id int) on commit drop
create table nope (id int) on commit preserve rows
begin
insert into r values (3)
savepoint s
insert into r values (4)
rollback to s
select * from r
rollback
select * from r
begin
create temp table d2 (id serial primary key) on commit drop
create temp view dv as select * from d2
create temp table e (id int references d2)
commit
select * from dv
insert into e values (9)
select * from e

-- AS, LIKE, SELECT INTO.
create table p (id int primary key default 5, v varchar(10) not null check (v <> ''))
discard temp
insert into p values (1, 'a'), (2, 'b')
create temp table a as select id, v || '!' as v from p order by id
create temp table if not exists a as select 1
create temp table b (x, y) as select * from p with no data
create temp table c (like p including all)
create temp table e as values (1, 'x'), (2, 'y')
create temp table f as table p
select id, v into temp g from p where id > 1
select 1 as one, 'x'::text as two into temporary table h
select * into i from p
create local temporary table l (x int)
create temp table a (x int)
select * from a order by 1
select * from b
insert into c (v) values ('q') returning *
insert into c values (5, 'x')
insert into c values (6, '')
select * from e order by 1
select * from f order by 1
select * from g
select * from h
select * from i order by 1
select relname, relpersistence from pg_class where relname in ('a', 'i', 'g', 'h') and relkind = 'r' and (relnamespace = 'scratch'::regnamespace or relnamespace = pg_my_temp_schema()) order by 1
select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute where attrelid = 'c'::regclass and attnum > 0 order by attnum

-- Foreign keys.
create table p (id int primary key)
discard temp
create temp table x (id int primary key)
create temp table y (id int references x on delete cascade, n int references p)
create temp table y (id int references x on delete cascade)
create table z (id int references x)
insert into y values (1)
insert into x values (1), (2)
insert into y values (1), (2)
delete from x where id = 1
select * from y
truncate x
truncate x cascade
select * from y
insert into x values (3)
insert into y values (3)
drop table x
drop table x cascade
insert into y values (7)
alter table y add foreign key (id) references p
alter table p add column n int references y

-- ALTER TABLE with rows.
discard temp
create temp table t (id int, v text)
insert into t select g, case when g > 8 then 'v1' else 'v' || g + 10 end from generate_series(1, 10) g
alter table t add primary key (id)
alter table t add column n int
alter table t add column d int not null default 4
alter table t add constraint c check (id < 5)
alter table t add constraint c check (id < 50)
alter table t add unique (v)
alter table t alter column n set not null
update t set n = id
alter table t alter column n set not null
insert into t (id) values (11)
insert into t (id, n) values (60, 1)
create unique index u on t (n)
insert into t (id, n) values (12, 3)
create index on t (v)
select count(*) from t where v = 'v1'
alter table t rename column n to m
alter table t rename to tt
alter table tt alter column d drop default
alter table tt alter column d set default 9
insert into tt (id, m) values (13, 13) returning *
alter table tt drop column v
select * from tt where m > 9 order by id
alter table tt drop constraint c
alter table tt rename constraint t_pkey to pk
alter table tt set schema scratch
alter table tt set schema pg_temp
alter index u rename to w
drop index w
insert into tt (id, m) values (14, 3) returning id
truncate tt
select count(*) from tt
analyze tt
comment on table tt is 'c'
select obj_description('tt'::regclass, 'pg_class')

-- Sequences, serial and identity columns.
discard temp
create temp sequence s start 5 increment 3 maxvalue 12
select nextval('s'), nextval('s'), currval('s'), lastval()
select nextval('pg_temp.s')
select nextval('s')
select setval('s', 6), nextval('s')
select setval('s', 6, false), nextval('s')
alter sequence s restart with 7 maxvalue 100
select nextval('s'), nextval('s')
create temp table t (a serial, b bigint generated always as identity, c int generated by default as identity (start 10), v text)
insert into t (v) values ('x'), ('y') returning *
insert into t (b) values (1)
insert into t (c) values (99) returning c
begin
insert into t (v) values ('r') returning a
rollback
insert into t (v) values ('s') returning a
truncate t restart identity
insert into t (v) values ('x') returning *
create sequence s
drop sequence pg_temp.s
select nextval('s')
drop sequence t_a_seq
drop table t
select relname from pg_class where relkind = 'S' and relname like 't\_%' order by 1
begin read only
select nextval('s')

-- Views.
create table p (id int primary key, v text)
discard temp
insert into p values (1, 'a')
create temp table t (id int, w text)
insert into t values (1, 'w')
create temp view tv as select * from p
create view vv as select t.id, p.v, t.w from t join p using (id)
select * from vv
select * from pg_temp.tv
select relname, relpersistence from pg_class where relkind = 'v' and relnamespace = pg_my_temp_schema() order by 1
create or replace temp view tv as select id, v, 1 as one from p
select * from tv
drop table t
drop table t cascade
select * from vv
drop view tv
create view scratch.bad as select * from pg_temp.nope

-- READ ONLY transactions write temporary tables.
create table p (id int)
discard temp
create temp table t (id int)
begin read only
insert into t values (1) returning id
update t set id = 2
select * from t
insert into p values (1)
rollback
begin read only
insert into t values (1)
delete from t where id = 5
commit
select * from t
begin read only
create temp table u (id int)
rollback
begin read only
drop table t
rollback
begin read only
truncate t
rollback
begin read only
with x as (insert into t values (7) returning id) select * from x
with x as (insert into p values (7) returning id) select * from x
rollback

-- Errors.
create temp table scratch.t (id int)
create table pg_temp.t (id int)
discard temp
create table pg_temp.t (id int)
select relpersistence from pg_class where oid = 't'::regclass
create temp table t (id int)
create temp table if not exists t (id int)
create table pg_temp_9999.t (id int)
drop table if exists pg_temp.nope
select * from pg_temp.nope
create temp table t2 (id int primary key, id int)
create temp table t2 (id nope)
create temp table t2 (id int) on commit
drop schema pg_temp
discard all
select * from t
select pg_my_temp_schema() = 0, pg_is_other_temp_schema(0)

-- Plans are those of the session: a name may mean something else with the next statement.
create table t (id int, v text)
discard temp
insert into t values (1, 'permanent')
select v from t
create temp table t (id int, v text)
select v from t
insert into t values (1, 'temporary')
select v from t
prepare q as select v from t
execute q
begin
drop table t
select v from t
rollback
execute q
drop table t
select v from t
execute q

-- Data-modifying WITH, joins, subqueries, set operations over both kinds.
create table p (id int primary key, n int)
discard temp
insert into p select g, g * 10 from generate_series(1, 100) g
create temp table t as select g as id, g % 7 as k from generate_series(1, 50) g
create index on t (k)
analyze t
select count(*), sum(n) from t join p on p.id = t.id where k = 3
select count(*) from p left join t on t.k = p.id where t.id is null
select count(*) from p where id in (select id from t where k = 2)
select count(*) from p where exists (select 1 from t where t.id = p.id and t.k > 4)
with gone as (delete from t where k = 6 returning id) update p set n = 0 where id in (select id from gone)
select count(*) from p where n = 0
select count(*) from t
insert into p select id + 1000, k from t where k = 1
select count(*) from p where id > 1000
update t set k = p.n from p where p.id = t.id
select sum(k) from t
delete from t using p where p.id = t.id and p.n = 0
select id from t union select id from p where id > 1000 order by 1 desc limit 3
select id from t except select id from p order by 1
select max(id), min(k), count(distinct k) from t
select * from t order by k desc, id limit 2
select * from t for update limit 1
declare c cursor for select id from t
begin
declare c cursor for select id from t order by id
fetch 2 from c
delete from t
fetch 2 from c
rollback
select count(*) from t

-- Types, generated columns, arrays, json.
discard temp
create temp table t (id uuid primary key default gen_random_uuid(), a int[] default '{1,2}', j jsonb default '{"a": 1}', g int generated always as (coalesce(array_length(a, 1), 0)) stored, ts timestamptz default '2024-01-01 00:00:00+00', b bytea)
insert into t (b) values ('\x00ff')
select a, j, g, ts, b from t
update t set a = a || 3 returning g
insert into t (g) values (1)

create temp table a (i int unique deferrable)
insert into a values (1)
insert into a values (1)
insert into a values (2),(2)
update a set i = 5
create temp table b (i int primary key deferrable, j int unique deferrable initially deferred)
insert into b values (1, 1)
insert into b values (1, 2)
begin
insert into b values (1, 2)
insert into b values (1, 2)
commit
begin
set constraints all immediate
insert into b values (4, 1)
rollback
begin
set constraints b_j_key immediate
insert into b values (4, 1)
insert into b values (5, 1)
commit

create table pd (i int primary key deferrable, j int unique deferrable initially deferred)
insert into pd values (1,1)
begin
set constraints pd_j_key immediate
insert into pd values (3, 1)
rollback
create temp table dd (i int primary key deferrable, j int unique deferrable initially deferred)
insert into dd values (1,1)
begin
set constraints dd_j_key immediate
insert into dd values (3, 1)
rollback
begin
set constraints dd_pkey deferred
insert into dd values (1, 7)
set constraints dd_pkey immediate
rollback
