-- Numbers: scales outside the precision, functions, equality of what prints differently.

select 12345::numeric(3,-2), 0.00123::numeric(3,5), '-55'::numeric(2,-1), 1234.5678::decimal(6, -1), numeric(3,-1) '123'

select 123456::numeric(3,-2)

select 0.12::numeric(3,5)

select 1::numeric(3,1001)

select 1::numeric(0,2)

create table n (a numeric(3,-2), b numeric(2,4), c numeric(5,2)[])
insert into n values (12345, 0.0012, '{1.005,2}')
insert into n values (123456, 0, null)
insert into n values (0, 0.1, null)
select a, b, c, pg_typeof(a), a + 1, b * 2 from n
select format_type(atttypid, atttypmod) from pg_attribute where attrelid = 'n'::regclass and attnum > 0 order by attnum

select gcd(12, 18), gcd(1.5, 0.5), gcd(0, 0), lcm(4, 6), lcm(1.5, 0.4), gcd('NaN'::numeric, 1), min_scale(1.500), trim_scale(1.500), scale(1.500), min_scale(0.00)

select sind(30), cosd(60), tand(45), cotd(45), asind(0.5), acosd(0.5), atand(1), atan2d(1, 1), sind(-390), cosd(450), tand(135), cotd(0), sind('NaN')

select sin('infinity')

select degrees(1e308)

select width_bucket(5.35, 0.024, 10.06, 5), width_bucket(5, array[1, 3, 4, 10]), width_bucket('b'::text, array['a', 'c']), width_bucket(0.5::float8, 1, 0, 10), width_bucket(1, '{}'::int[])

select width_bucket(5, array[1, null])

select regr_count(y, x), regr_slope(y, x), regr_intercept(y, x), regr_r2(y, x), corr(y, x), covar_pop(y, x), covar_samp(y, x), regr_avgx(y, x), regr_avgy(y, x), regr_sxx(y, x), regr_syy(y, x), regr_sxy(y, x) from (values (1.0::float8, 2.0::float8), (3, 4), (4, 7), (null, 1)) v(y, x)

select regr_count(1, null), corr(1, 1), regr_r2(1, 2), covar_samp(1, 2)

select count(distinct x), count(distinct y), count(distinct z) from (values (1.0, 0.0::float8, interval '1 day'), (1.00, '-0', '24:00'), (1, 'NaN', '1 mon'), (2, 'NaN', '30 days')) v(x, y, z)

select x, count(*) from (values ('-0'::float8), (0), ('NaN'), ('NaN')) v(x) group by x order by x

select a.x, b.y from (values (1.0), (2)) a(x) join (values (1.00), (3)) b(y) on a.x = b.y

select distinct x from (values (interval '1 day'), ('24:00'), ('30 days'), ('1 mon')) v(x) order by 1

select array_agg(x order by x desc nulls last), array_agg(distinct x order by x), string_agg(distinct x::text, ',' order by x::text), count(*) filter (where x > 1), sum(distinct x), max(x) filter (where false) from (values (1.5), (null), ('NaN'), (1.50), (-1)) v(x)

select sum(x), avg(x), max(x), min(x), stddev(x) from (values ('infinity'::float8), (1), ('-infinity')) v(x)

select sum(x), avg(x) from (values ('infinity'::numeric), (1), ('-infinity')) v(x)

select sum(x), avg(x) from (values (interval '1 mon'), ('-1 day'), (null)) v(x)

select sum('-0'::float8), power('NaN'::numeric, 0), power(1, 'NaN'::numeric), log(2.0, 'infinity'), ln('infinity'::numeric), exp('-infinity'::numeric), sqrt('infinity'::numeric), 0::numeric ^ 0, '-infinity'::numeric ^ 3, 2::numeric ^ '-infinity'

select 0::numeric ^ '-infinity'

select round(2.5), round(-2.5), round(2.5::float8), round(0.125, 2), trunc(-1.29, 1), round(1234.5, -2), div(7.5, 2), mod(-7.5, 2), ceil(-0.5), floor(-0.5), sign(-0.0::float8), 5 % -3, -5 / 2, factorial(20)

select get_bit('\x1234'::bytea, 4), set_bit('\x1234'::bytea, 0, 1), bit_count('\xff01'::bytea), overlay('\x0102030405'::bytea placing '\xaa'::bytea from 2 for 3), get_byte('\x12ff'::bytea, 1)

select get_bit('\x12'::bytea, 8)

select to_char(0.5::float8, '9'), to_char(1234.567, '9,999.99'), to_char(-5, 'S999'), to_char(485, 'RN'), to_char(1e10::float8, '9.99EEEE'), to_char(12, '0000'), to_char(-12.5, 'FM99.99PR'), to_char(3, '9th'), to_number('12,454.8-', '99G999D9S'), to_number('-34,338,492', '99G999G999')

select 'a' ^@ 'a', 'abc' ^@ 'b', 'abc'::text ^@ null

select '{"a": {"b": 1}}'::jsonb #- '{a,b}', '[1, 2]'::jsonb #- '{0}', '5'::jsonb -> 0

-- What a pattern matches.
select substring('foobar' similar '%#"o_b#"%' escape '#'), substring('foobar', '%#"o_b#"%', '#'), substring('abc' similar 'x#"b#"y' escape '#'), 'foo' similar to 'f(o|a)+', substring('Thomas' from '...$'), substring('Thomas' from 2 for 3)

select regexp_replace('abcabc', 'b', 'X', 3), regexp_replace('abcabc', 'b', 'X', 1, 0), regexp_replace('abcabcabc', 'B', 'X', 1, 2, 'i'), regexp_replace('foobarbaz', 'b(..)', 'X\1Y', 'g'), regexp_replace('a.b', '.', 'x', 'q')

select regexp_replace('abc', 'b', 'X', '1')

select regexp_match('abc', 'b', 'g')

select regexp_count('ABCABCAXYaxy', 'A.', 1, 'i'), regexp_instr('number of your street, town zip, FR', '[^,]+', 1, 2), regexp_like('Hello', 'world'), regexp_substr('number of your street, town zip, FR', '[^,]+', 1, 2), regexp_match('foobarbequebaz', '(bar)(beque)'), regexp_split_to_array('a1b2c', '[0-9]')

select 'ünï' ~ '^[[:alpha:]]+$', 'ünï' ~ '^\w+$', 'Ü' ~ '[[:upper:]]', 'a+b' ~ 'a+b', regexp_match('aXb', 'a(?:x)b', 'i'), regexp_match(E'a\nb', '^b', 'n')

select unistr('\0061\+000062\u0063\U00000064\\'), U&'\0061bc', normalize('a')

select chr(-1)

select format('%z')
