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
