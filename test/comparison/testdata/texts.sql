-- Texts of checks, with the parentheses of every operator and with the needed ones.
create table t (a int check (a > 0 and a < 100), b varchar(10) check (b like 'x%'), c numeric check (c > 0), d text check (length(d || 'x') > 3), g bool check (g), h bool check (not g), i int check (i in (1, 2, 3)), j text check (j in ('a', 'b')))
create table u (a int, f bool, k int check (k between 1 and 10), l int check (l is null or k > 0 and a < 3), s int check (-a < 3), v text check (v not like 'a%'), w int[] check (w[1] > 0 and w[a + 1] > 0), x numeric(10,2) check (x > 1.5), y int check (coalesce(a, v::int) > 0), z int check (a not in (1, 2)), aa int check (a = any (w) and a > 0))
create table v (a int, f bool, n timestamptz, ae jsonb, b text, c int check ((a + 1) * 2 > 3 and (a > 1 or a < 2)), d text check ((ae ->> 'k') = 'x'), e bool check (f is true), g bool check (f is not false), h text check (b ilike 'x%'), i bigint check (i > 0), j float check (j > 0 and j < 1.5), k int check (a is distinct from 1), l int check (nullif(a, 1) > 1), m int check (extract(year from n) > 2000), o int check (greatest(a, i) > 0), p char(3) check (p = 'abc'))
create table w (a int check (a + 1 - (2 - a) * 3 > 0 and not (a > 1 and a < 5)), b text check (case when a > 1 then case when b = 'x' then true else b is null end else false end = true), c int check (length(b || 'x') > 1 or not a > 2), f bool check (not (a is null)), g bool check ((a is null) = f), h bool check (coalesce(a > 1, f)), k int check ((a + 1)::numeric > 1), m int check (-(-a) > 1), p int check ((a > 1) is true), "Q" int check ("Q" > 0), "order" int check ("order" % 2 = 0))
select pg_get_constraintdef(oid), pg_get_constraintdef(oid, true) from pg_constraint where connamespace = 'scratch'::regnamespace and contype = 'c' order by pg_get_constraintdef(oid) collate "C"
select pg_get_expr(conbin, conrelid), pg_get_expr(conbin, conrelid, true) from pg_constraint where connamespace = 'scratch'::regnamespace and contype = 'c' order by pg_get_constraintdef(oid) collate "C"
select check_clause from information_schema.check_constraints where constraint_schema = 'scratch' and check_clause not like '%IS NOT NULL' order by check_clause collate "C"

-- Texts of defaults and generation expressions.
create table t (a int default 1 + 2, b text default 'x' || 'y', c numeric default 0, d text default upper('x'), e int generated always as (a * 2) stored, f numeric generated always as (a * 1.5 + c) stored, n timestamptz default now(), o date default current_date, w int default -1, y bigint default 5, aa numeric(10,2) default 1.5, ac bool default true, ae jsonb default '{}', ag interval default '1 day', ay uuid default gen_random_uuid(), bb text default current_user, bc text default (1 + 2)::text, bd int default (1 + 2) * 3, be text default (1 + 2)::text || 'z', bf float default (1 + 2)::float * 2.5::float, bg text default case when true then 'x' else 'y' end)
select pg_get_expr(adbin, adrelid), pg_get_expr(adbin, adrelid, false), pg_get_expr(adbin, adrelid, true) from pg_attrdef where adrelid = 't'::regclass order by adnum
select column_name, column_default, generation_expression from information_schema.columns where table_schema = 'scratch' order by ordinal_position

-- Texts of defaults and generation expressions of another type than the column, before and after its type changes.
create table t (a int, g text generated always as (a * 2) stored, h bigint generated always as (a * 2) stored, v varchar(4) generated always as (a) stored, n numeric(5,2) generated always as (a) stored, q varchar(2) generated always as ('ab') stored, d text default 5, i bigint default 1, w varchar(3) default 'ab', x numeric(4,1) default 1, c char(3) default 'a', b date default now())
alter table t alter column h type text
alter table t alter column g type bigint
alter table t alter column v type varchar(5)
alter table t alter column i type numeric(5,1)
alter table t add column k char(4) generated always as (case when a > 3 then 'x' else 'yy' end) stored, add column l smallint generated always as (a + 1) stored
select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 't'::regclass order by adnum
insert into t (a) values (7)
insert into t (a) values (70000)
select a, g, h, v, n, q, k, l from t

-- A view's text by its name.
create view v as select 1 as x
select pg_get_viewdef('v') = pg_get_viewdef('v'::regclass), pg_get_viewdef('v', true) = pg_get_viewdef('v'::regclass, true), pg_get_viewdef('scratch.v') is null
select pg_get_viewdef('missing')
select pg_get_viewdef('missing', true)
