-- The types of the rows of tables and views.
create table t (a int, b text)
insert into t values (1, 'x'), (2, null)
create view v as select a, b from t
create table u (a int, b text, c varchar(3), d numeric(5,2), f int[])
create table "Odd t" (a int)
select t from t
select v from v
select x from t x(q, r)
select row_to_json(x) from t x(q, r)
select (x).q, x.r from t x(q, r)
select (x).a from t x(q, r)
select (select t from t where a = 1)
select array_agg(t order by a) from t
select array(select t from t order by a)
select row(1, 2)
select s from (select * from t) s
select w from (values (1, 2)) w
select pg_typeof(t), pg_typeof(t.*), pg_typeof(v), pg_typeof(array[t]), pg_typeof(row(1)) from t, v limit 1
select pg_typeof(x) from "Odd t" x right join (select 1) s on true
select pg_typeof(c) from pg_class c limit 1
select pg_typeof(s) from information_schema.schemata s limit 1
select t::text, t.*::text from t
select row_to_json(t), to_jsonb(t) from t
select jsonb_populate_record(null::t, '{"a": 5, "b": "z"}')
select pg_typeof(json_populate_record(null::v, '{"a": 5}'))
select * from jsonb_populate_record(null::t, '{"a": 5, "b": "z"}')
select json_populate_recordset(null::t, '[{"a": 1}, {"b": "q"}]')
select '(1,a)'::t, ('(1,a)'::t).*, ('(1,a)'::t).b
select row(1, 'a')::t, (row(1, 'a')::t).*, (1, 'a')::t, (1, 2)::t
select row(1)::t
select row(1, 2, 3)::t
select row('x', 2)::t
select row(1, date '2000-01-01')::t
select row(1, 'x', 'abcdef', 1.234, '{3}')::u
select row(1, 'x', 'abc', date '2000-01-01', '{3}')::u
select null::t, null::t is null, (null::t).a
select '(1)'::t
select 'abc'::t
select t::v from t
select v::t from v
select t::"Odd t" from t
select s::t from (select 1 as a, 'b' as b) s
select s::t from (select 1 as a) s
select t from t union select v from v
select t from t union all select row(1, 'x')
select '1'::bytea union select gen_random_uuid()
select array[1] union select array['a'::text]
select array[1] union select array[date '2000-01-01']
select coalesce('a'::bytea, gen_random_uuid())
select case when true then '{}'::json else '1'::bytea end
select coalesce(array[1], array[date '2000-01-01'])
select t from t union all select row(1, 'x')::t
select case when true then t else row(1, 'a') end from t
select coalesce(t, row(5, 'd')::t) from t
select coalesce(null::t, row(5, 'd'))
select max(t) from t
select nope(t) from t
select a(t), b(x) from t, t x where t = x
select (t).nope from t
select t from t order by t desc
select t, count(*) from t group by t order by t
select typname, typtype, typcategory, typlen, typarray <> 0, typrelid::regclass, typelem::regtype, typinput, typsend, typalign, typstorage, typbyval from pg_type where typname in ('t', 'v', 'Odd t', '_t') order by 1
select relname, reltype::regtype, (select typname from pg_type where oid = reltype) from pg_class where relname in ('t', 'v', 'Odd t') order by 1
select typname from pg_type t join pg_class c on t.oid = c.reltype where c.relname in ('t', 'u') order by 1
select t.typname, e.typname from pg_type t join pg_type e on t.typarray = e.oid where t.typname in ('t', 'u') order by 1
select 't'::regtype, '_t'::regtype, 't[]'::regtype, '"Odd t"'::regtype::text, '"Odd t"[]'::regtype::text
select to_regtype('t'), to_regtype('nope'), format_type('t'::regtype, null), format_type('_t'::regtype, -1)
select array[row(1, 'a')::t, row(2, 'b')::t], '{"(1,a)","(2,b)"}'::t[]
select unnest('{"(1,a)","(2,b)"}'::t[])
select * from unnest('{"(1,a)","(2,b)"}'::t[])
insert into t values (8, 'e') returning t, pg_typeof(t)
update t set b = 'u' where a = 8 returning t
delete from t where a = 8 returning t.*::text, t
with w as (select t from t) select pg_typeof(t) from w limit 1
with w as (select * from t) select pg_typeof(w) from w limit 1
select l, r, pg_typeof(r) from t l left join t r on l.a = r.a + 1 order by 1
select lag(t) over (order by a), first_value(t) over (order by a) from t
prepare row1 as select $1::t, pg_typeof($1)
execute row1('(1,u)')
deallocate row1
prepare row2(t) as select ($1).b
execute row2(row(1, 'u')::t)
deallocate row2
select 't_pkey'::regtype
create sequence s
select 's'::regtype

-- A record that is compared as a whole has equal NULLs; a row constructor with another has not.
create table t (a int, b text)
insert into t values (1, 'x'), (2, null)
select t = t, t <> t, t < t, t <= t, t is distinct from t from t order by a
select row(2, null) = row(2, null), (select t from t where a = 2) = (select t from t where a = 2)
select x.a from t x join t y on x = y order by 1
select x.a, y.a from t x join t y on x < y
select x.a from t x left join t y on x = y where y is null
select t from t where t in (select t from t)
select t from t where t not in (select t from t)
select t from t where (a, b) in (select a, b from t)
select t from t where (a, b) not in (select a, b from t)
select t from t where t = any(select x from t x where x.a = 2)
select x in (select t from t) from (select t as x from t) s
select case t when t then 1 end, nullif(t, t), t = null from t
select count(*) from t x, t y where x = y
select (row(1, 2)).f2, (row(1, 2)).*
select (row(1, 2)).f3
create view w as select null::t as k
drop table t cascade
select k from w
