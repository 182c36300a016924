-- A variadic function has at least one argument for its last parameter.
select concat(), 1
select concat_ws(',')
select format()
select format('a%%b'), format(null)
select json_build_object(), json_build_array(), jsonb_build_object(), jsonb_build_array()
select json_extract_path('{}')
select jsonb_extract_path_text('{"a":1}')
select num_nulls()
select num_nonnulls()
select num_nulls(null), num_nonnulls(1, null, 2)

-- Numbers that are too small for their type, and the digits of deviations.
select 1e-50::float4
select 1e-400::float8
select 1e-45::float4, 1e-30::float4, 0e-50::float4
select stddev(x), variance(x), stddev_pop(x), var_pop(x) from (values (1e10), (2), (4)) v(x)
select stddev(x), variance(x), stddev_pop(x), var_pop(x) from (values (1.1), (2.2), (3.3)) v(x)

-- The type "char" is a byte.
select '\377'::"char", '\101'::"char", '\0'::"char", ('\377'::"char")::int, (-1)::"char"

-- Expressions with = ANY and ALL are the same expression in GROUP BY, ORDER BY and DISTINCT.
create table g (x int, y int[], s varchar)
insert into g values (1, '{1,2}', 'a'), (3, '{1}', 'b'), (null, '{1}', 'a'), (2, '{2}', 'c')
select x = any(y), count(*) from g group by x = any(y) order by x = any(y)
select x > all(y), count(*) from g group by x > all(y) order by x > all(y)
select distinct x = any(y) from g order by x = any(y)
select distinct on (x = any(y)) x from g order by x = any(y), x
select x = any(y) from g group by x = all(y)
select x = any(y) from g group by x < any(y)
select string_agg(distinct s, ',' order by s), string_agg(distinct s, ',' order by s desc) from g
select string_agg(distinct x::text, ',' order by x) from g
select count(*) filter (where count(*) > 0) from g
select count(*) filter (where row_number() over () > 0) from g
select count(*) filter (where count(*) > 0) over () from g
select count() over () from g
select sum(x order by x) over () from g
select sum(x) over (w rows 1 preceding) from g window w as (rows 2 preceding)
select sum(x) over (w) from g window w as (order by x rows 2 preceding)
select sum(x) over w from g window w as (order by x rows 2 preceding)
select sum(x) over v from g window w as (rows 2 preceding), v as (w order by x)
(select x from g limit 1) limit 2
(select x from g order by x) order by x
((select x from g order by x)) order by x
(select x from g offset 1) offset 1
(select x from g limit 1) offset 0
(select x from g order by x) limit 1
with a as (select 1) (with b as (select 2) select * from b)
with a as (select 1) (select * from a)

-- An empty array has no type by itself.
select array[]
select array[]::int[], array[array[]::int[]], array[]::text[][]
select array[[]]
select cardinality(array[])
select 1 where 1 = any (array[])
select 1 where 1 = any (array[]::int[])
select coalesce(array[], '{1}'::int[])

-- A row without a declared type has the fields f1, f2 and so on.
select json_populate_record(null::record, '{"a":1}')
select json_populate_record(row(1,2), '{"f1":0,"f2":1}')
select json_populate_record(row(1,2), '{"f1":"x"}')
select json_populate_record(row(1,'q'), null), json_populate_record(row(1, 2.5), '{"f2":"3.5","x":1}')
select json_populate_recordset(null::record, '[{"x":776}]')
select json_populate_recordset(row(1,2), '[{"f1":0},{"f2":7}]')
select jsonb_populate_record(row(1,2), '{"f1":0,"f2":1}')
select jsonb_populate_recordset(row(1,2), '[{"f1":0},{"f2":7}]')
select * from json_to_record('{"a":1,"b":"x"}') as t(a int, b text)
select * from jsonb_to_recordset('[{"a":1,"b":"x"},{"a":2}]') as t(a int, b text, c int[])

-- Settings whose values have a unit.
select set_config('vacuum_cost_delay', '40', false), current_setting('vacuum_cost_delay')
select set_config('vacuum_cost_delay', '0.5', false), current_setting('vacuum_cost_delay')
select set_config('vacuum_cost_delay', '1500us', false), current_setting('vacuum_cost_delay')
select set_config('vacuum_cost_delay', '0.08s', false), current_setting('vacuum_cost_delay')
select set_config('vacuum_cost_delay', '1s', false)
select set_config('vacuum_cost_delay', '1 week', false)
select set_config('min_parallel_table_scan_size', '0', false), set_config('min_parallel_index_scan_size', '64', false), set_config('geqo_selection_bias', '1.25', false)
select set_config('force_parallel_mode', 'regress', false), set_config('jit_above_cost', '-1', false), set_config('enable_partitionwise_join', 'yes', false)

-- Constant parts are evaluated before any row is read, unless another constant leaves them out.
create table v(x int)
insert into v values (1)
select x from v where x > 5 and 1/0 = 1
select x from v where 1/0 = 1 and false
select x from v where false and 1/0 = 1
select 1/0 from v where x > 5
select x from v where x > 5 and (true or 1/0 = 1)
select case when x > 5 then 1/0 else 2 end from v
select case when true then 2 else 1/0 end from v
select case 1 when 2 then 1/0 else 3 end
select case x when 2 then 1 when 3 then 1/0 end from v
select coalesce(1, 1/0), coalesce(null, 2, 1/0)
select coalesce(x, 1/0) from v
select nullif(1, 1/0)
select x from v where x in (5, 1/0)
select x from v where x > 5 order by 1/0
select count(*) filter (where 1/0 = 1) from v where x > 5
select (select 1/0 where x > 5) from v
select exists (select 1 from v w where 1/0 = v.x) from v
select x from v where x > 5 and 'a'::text::int = 1
select x from v where x > 5 and sqrt(-1::float8) = 1
select x from v where x > 5 and ('{1,2}'::int[])[1/0] = 1
select x from v where x > 5 and date '2024-01-01' + 2147483647 > now()
select x from v where x > 5 limit 1/0
with w as (select 1/0 as a) select 1
with w as materialized (select 1/0 as a from v where x > 5) select * from w
select v.x from v join v w on v.x = w.x and 1/0 = 1
values (1), (1/0)
select 'x' like 'a\' from v where x > 5
select sum(x / 0) from v where x > 5
