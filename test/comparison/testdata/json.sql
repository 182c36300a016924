-- json is a type of its own, and rows in JSON keep the names of their columns.
select '{"b":1,  "a":2, "b":3}'::json, '{"b":1,  "a":2, "b":3}'::jsonb, json '{"x" : 1}', pg_typeof('1'::json), cast('[1 ,2]' as json)
select json '{"x" : 1}' -> 'x', json '{"x" : [1 , 2]}' -> 'x', json '{"x" : [1 , 2]}' ->> 'x', json '[1.50, 1e2]' ->> 0, json '[1.50, 1e2]' -> 1
select '1'::json = '1'::json
select '1'::json = '1'
select distinct x from (values ('1'::json)) v(x)
select x from (values ('1'::json)) v(x) order by x
select x from (values ('1'::json)) v(x) group by x
select '1'::json union select '2'::json
select max('1'::json)
select '{"b":1, "a":2}'::json::jsonb, '{"b":1,"a":2}'::jsonb::json, '{"b":1}'::json::text, '1'::jsonb::int4, '1'::json::int4
select '{"a":1,'::json
select '{"a" 1}'::json
select '[1,]'::json
select '[,]'::json
select '{1:2}'::json
select '{"a":1}x'::json
select '{"a":1} 5'::json
select 'tru'::json
select '"abc'::json
select '"a\x"'::json
select '01'::json
select '1.'::json
select ''::json
select ' '::jsonb
select '{"a":}'::json
select '{"a":1 "b":2}'::json
select '[1 2]'::json
select '"\u00"'::json
select '"\ud800"'::json
select '"\u0000"'::jsonb
select '"\u0000"'::json
select '{"a":1}'''::json
select '{''a'':1}'::json

create table t(id int, name text, j json, jb jsonb, at timestamptz, n numeric, a int[])
insert into t values (1, 'x', '{"z" : 1,  "a":[1, 2]}', '{"z" : 1,  "a":[1, 2]}', '2024-01-02 03:04:05+00', 1.50, '{1,2}'), (2, null, null, null, null, null, null)
select row_to_json(t) from t
select to_json(t), to_jsonb(t) from t
select json_agg(t) from t
select jsonb_agg(t) from t
select json_agg(t.*), jsonb_agg(t.*) from t
select array_to_json(array_agg(t)) from t
select row_to_json(t, true) from t
select row_to_json(x) from (select 1 as a, 'b' as c) x
select row_to_json(x) from (select 1 as a) x
select x from (select 1) x
select x from (select 1 as a, 2 as b) x
select x.* from (select 1 as a, 2 as b) x
select (x).a, (x).* from (select 1 as a, 2 as b) x
select t from t
select y, (y).id, (y).* from (select t as y from t) s
select row_to_json(y) from (select t as y from t) s
select to_json(s) from (select id, t as inner_row from t) s
select json_agg(x) from (select id, name from t) x
select json_agg(x) from (values (1, 'a'), (2, 'b')) x(n, s)
with c as (select id, name from t) select json_agg(c), row_to_json((select r from (select c.id as k) r)) from c group by c.id order by c.id
create view v as select id, name from t
select row_to_json(v) from v
select to_jsonb(v) from v
create view w as select row_to_json(t) as r from t
select * from w
select row_to_json(row(1, 'a')), to_json(row(1, null)), row_to_json(row(t.id, t.name)) from t
select json_build_object('a', t) from t
select json_build_object('a', 1, 'b', json '{"x" :1}', 'c', jsonb '{"x" :1}', 'd', null, 'e', array[1,2], 'f', 'x'::text, 'g', 1.50, 'h', true)
select jsonb_build_object('a', t, 'b', json '{"z":1, "a":2}') from t
select json_object_agg(id, t), jsonb_object_agg(id, name) from t
select x from generate_series(1,2) x
select x from generate_series(1,2) x(y)
select row_to_json(x) from generate_series(1,2) x
select row_to_json(x) from generate_series(1,2) with ordinality x
select row_to_json(e) from jsonb_each('{"a":1}') e
select e from jsonb_each('{"a":1}') e
select (jsonb_each('{"a":1}')).*
select json_each('{"b":1 , "a": [1 , 2]}'), json_array_elements('[1 , {"x" : 2}]')
select * from json_each_text('{"b":1.50, "a": "x\ny", "c":null, "d":{"q" :1}}')
select json_object_keys('{"b":1,"a":2,"b":3}')
select json_typeof('{"a":1}'), json_array_length('[1, 2]'), json_strip_nulls('{"a": null, "b": [1, null], "c": 1.50}')
select json_extract_path('{"a": {"b" : [1 , 2]}}', 'a', 'b'), json_extract_path_text('{"a": {"b" : "x"}}', 'a', 'b'), json '{"a":[1,{"b" : 2}]}' #> '{a,1}', json '{"a":[1,{"b" : 2}]}' #>> '{a,1,b}'
select json_object('{a,1,b,2}'), json_object('{{a,1},{b,null}}'), json_object('{a,b}', '{1,2}'), jsonb_object('{b,1,a,2}')
select coalesce('1'::json, '2'), case when true then json '{"a" : 1}' else '3' end
select json_agg(j order by id) from t
update t set j = '{"q" :  1}' where id = 2
select j from t order by id
update t set j = jb where id = 1
select j, j::text, length(j::text) from t order by id
update t set j = 'x'
insert into t(j) values ('{"k" : 2, "k": 1}'::jsonb)
insert into t(j) values (5)
create index on t (j)
create table k(j json primary key)
create table ju(j json unique)
select json_populate_record(null::t, '{"id": 5, "name": "q", "a": [1,2], "n": "1.5"}')
select * from json_populate_record(null::t, '{"id": 5, "name": "q", "a": [1,2], "j": {"x" : 1}}')
select * from jsonb_populate_recordset(null::t, '[{"id": 5}, {"id": 6, "name": "z"}]')
select * from json_to_record('{"a":1,"b":"x","c":[1,2]}') as x(a int, b text, c int[], d date)
select * from jsonb_to_recordset('[{"a":1,"b":"x"},{"a":2}]') as x(a int, b text)
select row(1, 'a', null, null, null, null, null)::t
select '(1,"a b",,,,,)'::t
select null::t
select (row(1, 'a', null, null, null, null, null)::t).name
select t is null, t is not null from t where id = 1
select count(t), count(t.*), count(*) from t
select pg_typeof(row(1,2)), row(1,'a b',null,'x"y')
select array_agg(row(id, name) order by id) from t
select jsonb_agg(x order by x) from (values (2),(1)) v(x)
select a.*, to_json(b) from (select 1 as i) a join (select 1 as i, 2 as j) b using (i)
select json_agg(json_build_object('id', id) order by id) from t
select array_agg(j order by id) from t
select '{"{\"a\" : 1}"}'::json[]

-- json has no equality and no order, nor has what holds one.
create table tj (j json, n int)
insert into tj values ('1', 1), ('1', 2)
select count(distinct j) from tj
select row(j, n) = row(j, n) from tj
select (j, n) < (j, n) from tj
select distinct row(j, n) from tj
select row(j, n) from tj order by 1
select count(*) from tj group by row(j, n)
select array_agg(j order by j) from tj
select array_agg(distinct j) from tj
select array[j] = array[j] from tj
select distinct array[j] from tj
select array[j] from tj order by 1
select rank() over (partition by j) from tj
select rank() over (order by j) from tj
select nullif(j, j) from tj
select row(j) is distinct from row(j) from tj
select j in ('1') from tj
select case j when '1' then 1 end from tj
select max(j) from tj
select array_agg(j order by n), json_agg(j order by n desc), count(j) from tj

-- Keys, paths and elements.
select json_object_agg(k, 1), jsonb_object_agg(k, k) from (values (timestamp '2024-01-02 03:04:05')) v(k)

select jsonb_object_agg(k, 1) from (values ('{"a": 1}'::jsonb)) v(k)

select json_build_object(true, 1, 1.50, 2, date '2024-01-02', 3)

select json_build_object(array[1], 1)

select json_build_array(1::oid, 'int4'::regtype, 'x'::"char", timestamptz '0044-03-15 00:00+00 BC')

select jsonb_set('[]', '{a}', '1')

select jsonb_set('{"a": [1, 2]}', '{a,x}', '1')

select jsonb_set('{"a": 1}', array[null]::text[], '1')

select jsonb_set('{}', '{{a,b},{c,d}}', '1')

select jsonb_insert('{"a": [1, 2]}', '{a,1}', '9'), jsonb_insert('{"a": [1, 2]}', '{a,1}', '9', true), jsonb_insert('[1]', '{-1}', '0'), jsonb_insert('{}', '{b}', '1')

select jsonb_insert('{"a": 1}', '{a}', '2')

select * from json_array_elements('{"a": 1}')

select * from jsonb_array_elements('1')

select '[1, 2]'::jsonb - '{{a}}'::text[]

select '{"a": 1}'::jsonb - 1

-- Polymorphic functions and literals without a type.
select array_append(array[1], '2'), array_prepend('1', array[2]), array_cat(array[1], '{2}'), array_position(array[1, 2], '2'), array_remove(array[1, 2], '1'), array_replace(array[1, 2], '1', '3'), array_append('{a}', 'b'), array['1', 2], coalesce('1', 2), greatest('1', 2), least(1, '0', 3), case when true then '1' else 2 end, nullif('1', 1)

select to_jsonb('a')

select array_agg('x')

select array_to_json('{1}')

select coalesce('x', 1)

select array_length('{1}', 1)

select '1' - '2'

select '1' + '2'

-- An index of a jsonb column has its entries in the order of texts, which is not that of values.
create table jx (id int primary key, j jsonb, a jsonb[], k jsonb)
create index on jx (j)
create index on jx (a)
create unique index on jx (k, id)
insert into jx select g, case g % 6 when 0 then to_jsonb(g) when 1 then jsonb_build_object('a', g) when 2 then jsonb_build_object('b', 1, 'p', g) when 3 then jsonb_build_array(g) when 4 then to_jsonb(g::text) end, array[to_jsonb(g), jsonb_build_object('z', g % 3)], to_jsonb(g % 4 + 0.0) from generate_series(1, 60) g
analyze jx
select id from jx where j > '{"p": 1}' order by id
select id from jx where j < '{"p": 1}' order by id
select id from jx where j >= '10' and j <= '30' order by id
select id from jx where j between '[3]' and '[30]' order by id
select id from jx where j = '{"a": 7.0}'
select id from jx where j in ('12.0', '{"a": 7}', '[9.00]') order by id
select id from jx where j = any('{12.0,18}'::jsonb[]) order by id
select id from jx where j is null order by id
select id, j from jx order by j, id
select id, j from jx order by j desc, id limit 10
select j from jx order by j limit 5
select min(id) from jx where j is not null group by j order by 1 limit 3
select count(distinct j), count(distinct k) from jx
select distinct k from jx order by k
select k, count(*) from jx group by k order by k
select id from jx where k = '1' order by id
select id from jx where k = '1' and id > 20 order by id
select id from jx where a < array['12'::jsonb] order by id
select id from jx order by a, id
select x.id, y.id from jx x join jx y on x.k = y.j order by 1, 2
select x.id, y.id from jx x join jx y on x.j = y.j and x.id <> y.id order by 1, 2
select id from jx x where exists (select 1 from jx y where y.j = x.k) order by id
select id from jx where (k, id) > ('2', 30) order by id
