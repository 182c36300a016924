-- A type, columns of it, order, comparison, casts.
create type mood as enum ('sad', 'ok', 'happy')
create table p (id int primary key, m mood not null default 'ok', ms mood[])
insert into p values (1, 'happy', '{sad,ok}'), (2, 'sad', array['happy']::mood[]), (3, default, null)
insert into p values (4, 'angry')
insert into p values (4, null)
insert into p values (4, 'SAD')
select id from p order by m, id
select id from p order by m desc
select id from p where m > 'sad' order by id
select id from p where m in ('sad', 'happy') order by id
select id from p where m = 'nope'
select m::text, count(*) from p group by m order by m
select min(m)::text, max(m)::text from p
select m::text, 'ok'::mood::text, 'happy'::text::mood::text from p where id = 1
select 'ok'::mood < 'happy'::mood, 'ok'::mood = 'ok', 'sad'::mood between 'sad' and 'ok'
select 'x'::mood
select 1::mood
select 'ok'::mood::int
select m = 'ok'::text from p
select m || '!' from p where id = 1
select coalesce(m, 'sad')::text, case when id = 1 then m else 'sad' end::text from p order by id
select ms[1]::text, array_length(ms, 1), ms::text from p order by id
select enum_first(null::mood)::text, enum_last(null::mood)::text, enum_range(null::mood)::text
select enum_range('ok'::mood, null)::text, enum_range(null, 'ok'::mood)::text, enum_range('ok'::mood, 'happy'::mood)::text
select a.id, b.id from p a join p b on a.m = b.m order by 1, 2
create index on p (m)
select id from p where m = 'happy'
create unique index on p (m, id)
alter table p add check (m <> 'sad' or id = 2)
insert into p values (7, 'sad')
update p set m = 'sad' where id = 2 returning m::text
create table k (m mood primary key, n int)
insert into k values ('happy', 1), ('sad', 2), ('ok', 3)
insert into k values ('sad', 4)
insert into k values ('sad', 4) on conflict (m) do update set n = excluded.n returning m::text, n
select m::text from k order by m desc
select p.id, k.n from p join k using (m) order by 1
select typname, typtype, typcategory, typlen, typarray <> 0, typelem from pg_type where typname = 'mood'
select typname, typtype, typcategory, typelem = 'mood'::regtype from pg_type where typname = '_mood'
select enumlabel, enumsortorder from pg_enum where enumtypid = 'mood'::regtype order by enumsortorder
select format_type('mood'::regtype, null), 'mood'::regtype::text, 'mood[]'::regtype::text
select data_type, udt_schema, udt_name from information_schema.columns where table_name = 'p' and column_name in ('m', 'ms') order by 1
select format_type(atttypid, atttypmod) from pg_attribute where attrelid = 'p'::regclass and attnum > 0 order by attnum
select e.enumlabel from pg_catalog.pg_enum e join pg_catalog.pg_type t on t.oid = e.enumtypid where t.typname = 'mood' order by e.enumsortorder
alter table p drop column ms
drop table k
drop type mood
drop type mood cascade
select * from p order by id
select 'ok'::mood

-- ALTER TYPE.
create type c as enum ('b', 'd')
create table t (x c, y c[])
insert into t values ('b', '{d}'), ('d', '{b}')
alter type c add value 'e'
alter type c add value 'a' before 'b'
alter type c add value 'c' after 'b'
alter type c add value if not exists 'c'
alter type c add value 'c'
alter type c add value 'z' before 'nope'
insert into t values ('a'), ('c'), ('e')
select x::text, y::text from t order by x
select enumlabel from pg_enum where enumtypid = 'c'::regtype order by enumsortorder
alter type c rename value 'b' to 'bee'
alter type c rename value 'b' to 'x'
alter type c rename value 'bee' to 'a'
select x::text, y::text from t order by x
insert into t values ('b')
select x::text from t where x = 'bee'
alter type c rename to cc
insert into t values ('bee')
select 'a'::cc::text, count(*) from t
select 'a'::c
create type cc as enum ()
create type empty as enum ()
select enum_range(null::empty)::text
alter type empty add value 'first'
select 'first'::empty::text
alter type nope add value 'x'
drop type if exists nope
drop type nope
drop type empty, cc cascade
select * from t

-- In transactions.
create type m as enum ('a', 'b')
begin
alter type m add value 'c'
select 'c'::m
rollback
select 'c'::m
begin
create type n as enum ('x')
create table t (v n default 'x')
insert into t default values returning v::text
commit
select v::text from t
begin
drop type n cascade
rollback
select v::text from t
begin
create type o as enum ('x')
rollback
select 'x'::o
begin
alter type m add value 'c'
commit
select 'c'::m::text

-- Defaults, generated columns, arrays, temporary tables.
create type s as enum ('new', 'done')
create table t (id int primary key, v s not null default 'new', g boolean generated always as (v = 'done') stored, check (v in ('new', 'done')))
insert into t (id) values (1) returning v::text, g
update t set v = 'done' returning g
create temp table x as select * from t
select v::text from x
insert into x values (2, 'nope')
select array_agg(v)::text from t
select unnest(enum_range(null::s))::text
select 'new' = any(enum_range(null::s)::text[])
select v::text from t where v = any('{new,done}')
prepare r as select id from t where v = $1
execute r('done')
execute r('nope')
select to_json(v), jsonb_build_object('v', v) from t
create view w as select id from t where v = 'done'
select * from w

-- What depends on a type, in which order it is named.
create type e as enum ('a','b','c')
create table t (id int primary key, v e default 'a', vs e[], check (v <> 'b'))
create index i on t (v)
create view w as select v from t
create view w2 as select * from w
create table k (v e primary key, n int)
insert into k values ('a', 1), ('b', 2)
create table fk (v e references k)
create view w3 as select 'a'::e::text as x, 1 as y
create table chk (x text, check (x <> 'b'::e::text))
create table def (x text default 'b'::e::text, y int)
create view agg as select enum_range(null::e)::text as r
drop type e
drop type e restrict
drop type e cascade
select table_name, column_name from information_schema.columns where table_schema = 'scratch' order by 1, 2
insert into k values (3)
select n from k order by n
insert into chk values ('b')
insert into def (y) values (1) returning x
create type a1 as enum ('x')
create type a2 as enum ('x')
create table m (p a1, q a2, r a1)
drop type a1, a2
drop type a1, a2 cascade
select count(*) from information_schema.columns where table_name = 'm'
drop type int4
drop type nope.x
drop type if exists nope.x, a1

-- Temporary types.
create type pg_temp.tt as enum ('q')
select 'q'::pg_temp.tt::text, 'q'::tt::text
create temp table z (v pg_temp.tt primary key, vs tt[])
insert into z values ('q')
alter type tt add value 'r'
insert into z values ('r', '{q,r}')
select v::text, vs::text from z order by z.v
begin
alter type tt add value 's'
select 's'::tt
rollback
begin
alter type tt add value 's'
commit
select 's'::tt::text
discard temp
select 'q'::tt

-- Types of parameters; functions of enums.
create type b1 as enum ('x', 'y')
create type b2 as enum ('x', 'z')
prepare q(b1) as select $1::text, pg_typeof($1)::text
execute q('x')
execute q('z')
deallocate q
prepare q(b1[], scratch.b2) as select $1::text, $2::text
execute q('{x,y}', 'z')
prepare anew(nope) as select $1
select enum_range('x'::b1, v)::text from (values ('y'::b1), (null)) s(v)
select enum_range(v)::text, enum_first(v)::text, enum_last(v)::text from (values ('y'::b1), (null)) s(v)
select enum_range(v, v)::text from (values ('y'::b1), (null)) s(v)
select enum_range(null, null)
select enum_first(null)
select enum_range(1)
select 'x'::b1 = 'x'::b2
select 'x'::b1 in ('x'::b2)
select enum_range('x'::b1, 'x'::b2)
select 'x'::b1::b2
select 'x'::b1::text::b2::text
select coalesce('x'::b1, 'x'::b2)
select * from (select 'x'::b1 union select 'x'::b2) s
create type nix as enum ()
select enum_first(null::nix)
comment on type b1 is 'hello'
select obj_description('b1'::regtype, 'pg_type')
select description from pg_description where objoid = 'b1'::regtype
comment on type b1 is null
select obj_description('b1'::regtype, 'pg_type')
comment on type nope is 'x'
create table b1 (x int)
create table b3 (x int)
create type b3 as enum ('x')
alter type b1 rename to b3

-- New values are not used before they are committed.
create type b1 as enum ('x')
create table t (id int, v b1, s text)
insert into t values (1, 'x', 'y')
begin
alter type b1 add value 'y'
select 'y'::b1
rollback
begin
alter type b1 add value 'y'
select s::b1 from t
rollback
begin
alter type b1 add value 'y'
insert into t values (2, 'y')
rollback
begin
alter type b1 add value 'y'
select enum_last(null::b1)
rollback
begin
alter type b1 add value 'y'
select enum_range(null::b1)
rollback
begin
alter type b1 add value 'y'
select enum_first(null::b1)::text
select count(*) from pg_enum where enumtypid = 'b1'::regtype
insert into t values (2, 'x')
alter type b1 rename value 'y' to 'z'
commit
select 'z'::b1::text, enum_range(null::b1)::text
begin
create type b2 as enum ('a')
select 'a'::b2::text
alter type b2 add value 'b'
select 'b'::b2
commit
begin
create type b2 as enum ('a')
alter type b2 add value 'b'
create table u (v b2)
commit
insert into u values ('b') returning v::text

-- Names that change under what uses them.
create schema if not exists s1
create schema if not exists s2
create type s1.e as enum ('a','b','c')
create table t (id int primary key, v s1.e default 'a', vs s1.e[] default '{a,b}', check (v <> 'b' or id = 1), g bool generated always as (v = 'a') stored)
create view w as select id, v, v = 'a' as is_a, v in ('a', 'c') as ac, 'b'::s1.e as b, vs @> '{a}' as has, array['a','b']::s1.e[] as arr, case v when 'a' then 1 when 'b' then 2 end as n, 'a' as txt from t where v = any('{a,b}') or v > 'a'
insert into t (id) values (1), (2)
insert into t (id, v) values (3, 'c')
prepare p as select id from t where v = 'a' order by id
execute p
alter type s1.e rename value 'a' to 'it''s'
deallocate p
select id, v::text, is_a, ac, b::text, has, arr::text, n, txt from w order by id
insert into t (id) values (4) returning v::text, vs::text, g
alter type s1.e rename to "E 2"
select id, v::text, is_a, ac, b::text, has, arr::text, n, txt from w order by id
insert into t (id) values (5) returning v::text, vs::text, g
alter type s1."E 2" set schema s2
select format_type(atttypid, atttypmod) from pg_attribute where attrelid = 't'::regclass and attname like 'v%' order by 1
select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 't'::regclass and adnum < 4 order by adnum
select id, v::text, is_a, ac, b::text, has, arr::text, n, txt from w order by id
alter schema s2 rename to s3
select udt_schema, udt_name from information_schema.columns where table_name = 't' and column_name = 'v'
select pg_typeof(v)::text from t limit 1
select pg_type_is_visible(oid) from pg_type where typname = 'E 2'
set search_path = s3, scratch
select format_type(atttypid, atttypmod) from pg_attribute where attrelid = 't'::regclass and attname like 'v%' order by 1
select 'b'::"E 2"::text
select pg_type_is_visible('"E 2"'::regtype)
set search_path = scratch
alter table t add column more s3."E 2" not null default 'it''s'
alter type s3."E 2" rename value 'it''s' to 'plain'
select id, more::text from t order by id
drop schema s3
drop schema s3 cascade
select * from t order by id
drop schema s1

-- Keys that go.
create type x as enum ('o', 'p', 'q')
create table u (a x primary key)
insert into u values ('q'), ('o'), ('p')
alter table u drop column a
select count(*) from u
alter table u add column z int
update u set z = 1
create table pk (a int, b text, c x, primary key (a, b))
create index pki on pk (c)
insert into pk values (1,'x','p'), (1,'y','q'), (2, 'x', 'o')
create table fk (a int, b text, foreign key (a, b) references pk)
insert into fk values (1, 'x')
alter table pk drop constraint pk_pkey
alter table pk drop constraint pk_pkey cascade
insert into fk values (5, 'x')
insert into pk values (1,'x','p')
insert into pk values (null,'x','p')
select a, b, c::text from pk order by a, b, c
select a from pk where c = 'p'
delete from pk where b = 'y'
alter table pk add primary key (a)
alter table pk add primary key (b)
begin
delete from pk where a = 1
alter table pk add primary key (b)
alter table pk drop column b
insert into pk (a) values (7)
rollback
select a, b, c::text from pk order by a, b, c
alter table pk drop column b
begin
drop type x cascade
select a from pk order by a
rollback
select a, c::text from pk order by 1, 2
drop type x cascade
select a from pk order by 1
select a from pk where c = 'p'

-- The text of a view with constants of enums keeps its relations' schemas.
create schema if not exists elsewhere
create type kind as enum ('a', 'b')
create table elsewhere.t (v scratch.kind)
insert into elsewhere.t values ('a'), ('b')
create table t (v kind)
set search_path = elsewhere, scratch
create view scratch.w as select v from t where v = 'a' or v in ('b', 'a')
set search_path = scratch
select v::text from w order by v
drop schema elsewhere cascade
