-- ARRAY[n] and a[n] in definitions, types in all their places, subscripted assignments, GROUP BY an outer query's column.
create view v1 as select array[7] as a
select * from v1

create table t2 (a int[], c int default (array[3,4])[1], d int[] default array[3], e int[] default '{1}'::int[3], f int array[2], g int array, h int[3][3], check (a[1] > 0))
insert into t2 (a) values ('{1,2}')
select * from t2

create table t2b (a int[], check (a[1] > 0), g int generated always as (a[1]) stored)
insert into t2b values ('{5}')
select * from t2b

create table t3 (a int[])
create view v3 as select a[1] as x, a[2] y from t3 where a[1] > 0
insert into t3 values ('{7,8}')
select * from v3

create table t5 (a int)
alter table t5 add column b int[3] default array[9], add c int array[2] default array[4]
insert into t5 values (1)
select * from t5

create table t5 (a int)
alter table t5 alter a type text, add constraint c check (a <> 'x')
insert into t5 values ('x')

create view v6 as select tablespace from (values ('x')) as w(tablespace)
select * from v6

create table t7 (tablespace text, check (tablespace > 'a'))
insert into t7 values ('b')
select * from t7

create table t7 (a int) tablespace pg_default
select * from t7

create table t7 (a int primary key using index tablespace pg_default)
select * from t7

create table t7 (a int) tablespace nope

create table t8 (json json, cidr cidr, "json2" "json", v "varchar"(3), b bpchar(4), n "numeric"(5,2))
insert into t8 values ('1', '10.0.0.0/8', '[1, 2]', 'abc', 'x', 1.239)
select * from t8

create table t8 (json json, cidr cidr)
create view v8 as select json, cidr from t8
insert into t8 values ('{"a":  1}', '10.0.0.0/8')
select * from v8

create view v9 as select x json from (values (1)) w(x)
select * from v9

create view v9 as (select 1, x json from (values (1)) w(x))
select * from v9

create view v10 as select case when true then array[3] else array[4] end as a, (array[5])[1] as b, array[array[1],array[2]] as c
select * from v10

create view v10 as select 1 as a where 3 = any (array[3]) and not array[1] = array[2]
select * from v10

create table t11 (a int check (a in (1, 2)) check ((array[1,2])[1] = 1), b text[] default array['x'])
insert into t11 values (1)
select * from t11

create table t12 (a int, b int[] not null default array[7] check (b[1] = 7))
insert into t12 values (1)
select * from t12

create temp table t12 (a int, b int[] not null default array[7] check (b[1] = 7))
insert into t12 values (1)
select * from t12

create table if not exists public.t13 (a text[3], b text [] [2] default array['a'])
insert into public.t13 values ('{a}')
select * from public.t13
drop table public.t13

create materialized view m1 as select array[7] as a, (array[1,2,3])[2] as b
select * from m1

create table t14 (a int[])
alter table t14 alter a set default array[3], add check (a[1] = 3)
insert into t14 default values
select * from t14

create table t15 (a int[])
alter table t15 alter a set data type bigint[4], alter a set default array[3]
insert into t15 default values
select * from t15

select * from json_to_recordset('[{"a":1,"b":[1,2], "c": {"x":  1}}]') as x(a int, b int[2], c json)

select * from json_to_recordset('[{"a":1,"b":[1,2]}]') x(a "int4", b "json")

select cast('1' as "json"), cast('{1}' as int[3]), cast('{1}' as int array)

select a[1] from (select array[1,2] as a) q

select '{1,2}'::int[][2] , ('{4,5}'::int[])[2]

select x json from (values (1)) w(x)

select 1 json, 2 cidr

select f.json from (select 1 json) f

with json as (select 1 a) select json.a from json

select array['k1', 1]

select array[1, 2.5]::int[], array['1', 2]::numeric[]

select array[]::text[], array[[]]::int[]

select 1 <-> 2

create table j (a int primary key, j jsonb, arr int[])
insert into j values (1, '{}', '{1}')
update j set j['a'] = '1'
update j set j['b'] = null
update j set arr[2] = 5 where a = 1 returning *
insert into j values (1, '{}') on conflict (a) do update set arr[3] = 7, j['x'] = '2' returning *
select * from j

create table j (a int primary key, arr int[])
insert into j values (1, '{1}')
insert into j values (1) on conflict (a) do update set arr[3] = 7
with u as (update j set arr[1] = 9 returning *) select * from u
update j set arr[1:2] = '{4,5}'
select * from j

create table j (a int primary key, arr int[])
update j set arr[1] = 
select 1


create table kv(k int primary key, v text); insert into kv values (1,'a')
(table kv) order by 1
create table t3(a int); create table t4 (a int, b int); insert into t3 values (1), (2), (3); insert into t4 values (1, 2), (2, 2), (null, 3)
select (select q.a from t3 group by q.a) from t4 q
select (select q.a + count(*) from t3 group by q.a) from t4 q order by 1
select (select sum(t3.a) from t3 group by q.a having q.a > 1) from t4 q order by 1
select q.a, exists (select 1 from t3 group by q.a, t3.a having q.a = t3.a) from t4 q order by 1
select * from t4 q, lateral (select q.b, t3.a, count(*) from t3 group by q.b, t3.a) x order by 1, 2, 3, 4
select * from t4 q, lateral (select q.b as b, count(*) from t3 group by b) x order by 1, 2, 3, 4
select (select q.a from t3 group by q.a, q.b) from t4 q order by 1
select (select q.a + q.b from t3 group by q.a, q.b) from t4 q order by 1
select (select (select q.a + x.a from t3 group by q.a, x.a) from t3 x where x.a = q.b group by x.a, q.a) from t4 q order by 1
select (select max(q.a) from t3 group by q.a) from t4 q
select (select distinct q.a from t3) from t4 q order by 1
select (select count(*) over (partition by q.a) from t3 limit 1) from t4 q order by 1

select '1'::"int4", '1'::"varchar", 'abc'::"varchar"(2), 'abc'::pg_catalog.varchar(2), 'abc'::bpchar(5), 'abc'::"bpchar"(2)

select '1'::"json", '1.234'::"numeric"(5,2), '1.234'::pg_catalog.numeric(5,2), '12:00:00.123'::"time"(1), '12:00:00.123'::"timetz"(1)

select '2020-01-01 12:00:00.123'::"timestamp"(1), '2020-01-01 12:00:00.123'::"timestamptz"(1), 'a'::"char"

select "json" '1'

select "varchar"(3) 'abcd'

select 'abc'::"text"(2)

select 'abc'::text(2)

select 'abc'::int4(2)

select '1'::int(2)

select '{1}'::"int4"[], '{1,2}'::int array, '{1,2}'::int array[2], '{1,2}'::int[2][2], '{1,2}'::int[][]

select 'abc'::"character"(2)

select 'abc'::"nope"(3)

select 'abc'::"text"[]

create table t3(a int)
insert into t3 values (1),(2),(3)
create table t4 (a int, b int)
insert into t4 values (1, 2), (2, 2), (null, 3)
select (select count(*) over (partition by q.a) from t3 limit 1) from t4 q order by 1
select (select sum(a) over (order by q.a, a) from t3 limit 1) from t4 q order by 1
select (select a from t3 order by q.a, a desc limit 1) from t4 q order by 1
select (select distinct on (q.a) a from t3 order by q.a, a desc limit 1) from t4 q order by 1
select (select q.a from t3 union select q.b order by 1 limit 1) from t4 q order by 1
select * from t4 q, lateral (values (q.a, 1), (q.b, 2) order by 1 limit 1) v order by 1,2,3,4
select (select array_agg(a order by q.a, a) from t3) from t4 q order by 1
select (select string_agg(distinct a::text, ',' order by a::text) from t3 group by q.b) from t4 q order by 1
select (select generate_series(1, q.a) group by q.a limit 1) from t4 q order by 1
select (select max(t3.a) from t3 where t3.a = q.a group by q.a, t3.a order by q.a) from t4 q order by 1
select (select (select q.a group by t3.a) from t3 group by t3.a, q.b limit 1) from t4 q order by 1
select (select count(*) from t3 group by 'x'::text || q.a) from t4 q order by 1
select (select rank() over (partition by q.b order by q.a) from t3 group by q.a, q.b) from t4 q order by 1
select q.a, (select q.a from t3 group by q.b limit 1) from t4 q order by 1
select (select array[q.a] from t3 group by array[q.a]) from t4 q order by 1
select (select (q).a from t3 group by (q).a) from t4 q order by 1
select (select q.a from t3 group by 1) from t4 q order by 1
select (select q.a as z from t3 group by z) from t4 q order by 1
delete from t3 where a = (select q.a from t4 q where q.a = t3.a group by t3.a, q.a)
select * from t3
update t3 set a = (select t3.a + count(*) from t4 group by t3.a)
select * from t3 order by 1
select '1'::"int4", '1'::"varchar", 'abc'::"varchar"(2), 'abc'::pg_catalog.varchar(2), 'abc'::bpchar(5), 'abc'::"bpchar"(2)

select * from json_to_record('{"a":1,"b":"abc"}') as x(a int, b "varchar"(2))

create table kv (k int primary key)
select (select sum(q.k) from kv group by q.k) from kv q

-- ARRAY[...] under a cast.
select array['k1', 1]::text[], array[1, null]::text[], array[array['a', 1]]::text[], array['01', 1]::text[]

select array[1.5, '2']::int[], array['1', 2.5]::numeric(3,1)[], array[true, 'f']::text[]

select array[1,2]::varchar(1)[], array['abc', 12]::varchar(2)[]

select array[]::text[], array[array[]]::int[], array[[]]::int[], array[array[1], array[]]::int[]

select array['{1,2}', array[3, 4]]::int[]

select array['{1}'::int[], array['2']]::text[]

select array[array[1, 2], array['a', null]]::text[]

select array[1, now()]::text[] is not null

select array[1, now()]::int[]

select array[row(1)]::int[]

select array['x']::int[]

select array[1, 'x']::jsonb[]

select array['1', '"x"']::jsonb[], array[null]::jsonb[]

select (array['a', 1])::text[]

select cast(array['a', 1] as text[]), array['a', 1]::text

select array['2020-01-01', now()::date]::date[] is null, array['2020-01-01', '2021-01-01'::timestamp]::date[]

select array['a', 1] || array['b']

create table t (a int, b text, c text[] default array['k', 1]::text[], d text[] check (d <> array['x', 2]::text[]))
insert into t (a) values (1) returning *
select array[a, b, 'x', 1.50]::text[] from t
select array[a, c]::text[] from t
select array[c, array[a]]::text[] from t
select array[(select 1), 'x']::text[] from t
insert into t values (1, 'x', null, array['x', '2'])
create view v as select array['k', a, 1.0]::varchar(3)[] as x from t
select * from v
select array_agg(a)::text[], array[count(*), 'x']::text[] from t
select array[array['a', 1], c]::text[] from t
create type mood as enum ('ok', 'no')
select array['ok', 'no']::mood[], array['ok', null]::mood[], array['ok', 1]::mood[]
select array['ok', 'bad']::mood[]
create view w as select array['ok', 'no']::mood[] as m, array[array['ok']]::mood[] as n
alter type mood rename value 'ok' to 'fine'
create table y (a mood[] default array['no', 'fine']::mood[])

-- Operators that do not exist.
select 1 #=# 2

select 'a' ~~~ 'b'

select 1 ==> 2

select 1 *** 2, 3

select 1 === 2

select (1 <=> 2)

select 1 <=> 2 from pg_class where 1 &&& 2

select a ### b from pg_class

create table u1 (a int, b text, c int[], d jsonb)
select a ### 1 from u1
select ### a from u1
select a + ### a from u1
select a::int8 ### b::varchar from u1
select c[1] ### (a) from u1
select null ### a from u1
select true ### false from u1
select case when true then a end ### 1 from u1
select a ### 1 + 2 * 3 from u1
select a + 1 ### 2 from u1
select a || 'x' ### 2 from u1
select b = 'x' ### 2 from u1
select not a ### 2 from u1
select * from u1 where a ### 2 order by 1
select * from u1 order by a ### 2
update u1 set a = a ### 2
insert into u1 (a) values (1 ### 2)
delete from u1 where a @#@ (select 2)
create table u2 (a int check (a ### 1))
create view u3 as select a ### 1 as x from u1
select 'a'||-1
select a !== 1 from u1
select count(*) ### 1 from u1
select current_date ### 1
select (select 1) ### 2
select nope ### 2 from u1
select 1 ### nope from u1
select array[1] ### array['a']
select '1' ### '2'
select interval '1 day' ### 2
select 1.5 ### -2
select 1 in (2 ### 3)

select 1 ### from pg_class

select ### 2

select 1 @#@ (select 2)

select 5 <-> 2, 3

select f(a => 1)

select 1 => 2
