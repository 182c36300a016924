-- Arrays of several dimensions, with bounds of their own, their parts, and assignments to these.
select '{{1,2},{3,4}}'::int[], array[[1,2],[3,4]], array[array[1,2],array[3,4]], '[0:1]={7,8}'::int[], '{{a,b},{c,"d e"}}'::text[]
select array[[1,2],[3,4]]::text[], array[['1','2'],['3','4']]::int[], array[[1,2],[3,4.5]], '{{1,2},{3,4}}'::int[][], '{}'::int[], array[]::int[], array[[]]::int[]
select array[[1,2],[3]]
select '{{1,2},{3}}'::int[]
select '{{1},2}'::int[]
select '{1,{2}}'::int[]
select '{1,2'::int[]
select '{1,2}}'::int[]
select '{1,,2}'::int[]
select '{"a}'::text[]
select '{a"b"}'::text[]
select '[0:1={1,2}'::int[]
select '[1:0]={}'::int[]
select '[0:2]={1,2}'::int[]
select '[1]={1,2}'::int[]
select '[:1]={1}'::int[]
select 'x'::int[]
select ''::int[]
select '{1}x'::int[]
select '{{{{{{{1}}}}}}}'::int[]
select a[1], a[1][2], a[2][1], a[3][1], a[1:1], a[1:2][2:2], a[2], a[:1], a[2:], a[:], a[:][2:], a[1][1:2], a[null], a[1:null] from (select array[[1,2],[3,4]] a) s
select a[0], a[1], a[-1], a[0:0], a[1:5], a[:0], a[5:6], (a[0:1])[1] from (select '[0:1]={7,8}'::int[] a) s
select a[2:3], a[:2], a[3:], a[0:2], a[4:2] from (select array[1,2,3] a) s
select array_dims(array[[1,2],[3,4]]), array_ndims(array[[1,2]]), array_length(array[[1,2,3]], 2), array_upper('[2:4]={1,2,3}'::int[], 1), array_lower('[2:4]={1,2,3}'::int[], 1), cardinality(array[[1,2],[3,4]]), array_dims('{}'::int[]), array_length(array[1], 0)
select array_fill(7, array[2,3]), array_fill(7, array[2], array[0]), array_fill(null::int, array[2]), array_fill(1, '{}'::int[])
select array_cat(array[1,2], array[3]), array_cat(array[[1,2]], array[3,4]), array_cat(array[1,2], array[[3,4]]), array[[1,2]] || array[[3,4]], array[1,2] || array[[3,4]]
select array_cat(array[[1,2]], array[3])
select array[[1,2]] || 3
select array_append('[0:1]={1,2}'::int[], 3), array_prepend(0, '[0:1]={1,2}'::int[]), 0 || '[5:6]={1,2}'::int[]
select array_position(array[1,2,3,2], 2), array_position('[0:2]={1,2,3}'::int[], 3), array_positions(array[1,2,1], 1), array_position(array[1,2,3,2], 2, 3)
select array_position(array[[1,2]], 1)
select array_remove(array[1,2,1], 1), array_replace(array[[1,2],[1,3]], 1, 9), trim_array(array[1,2,3], 1), trim_array(array[[1,2],[3,4]], 1)
select array_remove(array[[1,2]], 1)
select unnest(array[[1,2],[3,4]])
select * from unnest(array[[1,2],[3,4]]) with ordinality
select generate_subscripts(array[[1,2,3],[4,5,6]], 2), generate_subscripts('[0:1]={1,2}'::int[], 1)
select generate_subscripts(array[1,2,3], 1, true)
select generate_subscripts('1 2 3'::int2vector, 1), ('1 2 3'::int2vector)[0], ('1 2 3'::int2vector)[1], array_lower('1 2 3'::int2vector, 1), array_upper('1 2'::int2vector, 1)
select string_to_table('a,b', ','), string_to_table('abc', null), string_to_table('a,b,c', ',', 'b')
select array_agg(x) from (values (array[1,2]), (array[3,4])) v(x)
select array_agg(x) from (values (array[1,2]), (array[3])) v(x)
select array_agg(x) from (values (array[1,2]), (null)) v(x)
select array_agg(x) from (values (array[[1],[2]]), (array[[3],[4]])) v(x)
select array(select array[i, i+1] from generate_series(1,3) i)
select array[[1,2],[3,4]] = array[[1,2],[3,4]], array[[1,2],[3,4]] = array[1,2,3,4], array[1,2,3,4] < array[[1,2],[3,4]], '[0:1]={1,2}'::int[] = array[1,2], array[1,2] < array[1,3], array[1] < array[1,2]
select array[[1,2],[3,4]] @> array[3], array[1,2] && array[[2,5]], 3 = any(array[[1,2],[3,4]])
select array_to_string(array[[1,2],[3,null]], ',', '*'), to_json(array[[1,2],[3,4]]), to_jsonb(array[[[1],[2]],[[3],[4]]]), array_to_json(array[[1,2],[3,4]], true), json_agg(array[[1]])
select array_to_json('{}'::int[]), array_to_json(array[array[]::int[]])
select x from (values (array[[1,2]]), (array[1,2]), ('[0:1]={1,2}'::int[]), (array[1,3])) v(x) order by x
select distinct x from (values (array[[1,2]]), (array[1,2]), (array[1,2])) v(x) order by 1
select (array[[1,2],[3,4]])[2][1], (array['a','b'])[1], ('{1,2}'::int[])[2:2]

create table t(id int primary key, a int[], b text[][], c int[3])
insert into t values (1, '{{1,2},{3,4}}', '{{a,b}}', '{1,2,3,4}'), (2, '[0:1]={5,6}', null, array[]::int[])
select * from t order by id
select a[1][2], a[0], b[1:1], array_dims(a) from t order by id
select a from t where a = '{{1,2},{3,4}}'
create index on t (a)
select a from t order by a
select a from t where a = '[0:1]={5,6}'
update t set a[1] = 9 where id = 2
update t set a[5] = 1 where id = 2
update t set c[2:3] = '{8,9}' where id = 1
update t set c[1] = 4 where id = 2
update t set b[2] = 'x' where id = 2
update t set a[2][2] = 40 where id = 1
select * from t order by id
update t set a[3][3] = 1 where id = 1
update t set c[1:2] = '{1}' where id = 1
update t set c[-1] = 0 where id = 1
select c from t order by id

select ('{"a": {"b": [1,2]}}'::jsonb)['a'], ('{"a": {"b": [1,2]}}'::jsonb)['a']['b'][1], ('[1,2]'::jsonb)[-1], ('{"a":1}'::jsonb)['x'], ('[1]'::jsonb)['0'], ('"x"'::jsonb)[0]
select ('{"a":1}'::jsonb)[null], (null::jsonb)['a'], ('{"1":2}'::jsonb)[1]
select ('{"a":1}'::json)['a']
select ('{"a":1}'::jsonb)[1.5]
select ('[1,2]'::jsonb)[0:1]
select (1)[1]

create table j(id int, d jsonb)
insert into j values (1, '{"a": 1}'), (2, null), (3, '[1]')
update j set d['b'] = '2' where id = 1
update j set d['x']['y'] = '"z"' where id < 3
update j set d[3] = '4' where id = 3
select * from j order by id
update j set d['a']['q'] = '1' where id = 1
select d from j where d['a'] = '1'
