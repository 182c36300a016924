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
