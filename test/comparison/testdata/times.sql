-- Fields and precision of intervals; the signs of time zones.
select interval '1' year, interval '1-2', interval '1-2' year to month, interval '3 4:05' day to minute, interval '1.5' hour, interval '12:34:56.789' second(1), interval(1) '12:34:56.789', interval 'P1Y2M3DT4H5M6.7S', interval '1 day ago', interval '@ 1 hour 2 mins ago', interval '1.5 months', interval '5' minute, interval '10:20' minute to second
select interval '1 day'::interval hour, ('1 day 12:34:56'::interval)::interval day, cast('5' as interval day), '1:02:03.456'::interval(1), pg_typeof('1'::interval(2))
select '1.5'::interval second, '1'::interval, '100'::interval hour to minute

create table i(a interval hour to minute, b interval(2), c interval year, d interval day to second(3), e interval(6)[])
insert into i values ('1 day 12:34:56', '1.23456 sec', '3 years 5 mons', '1.23456', '{1,2 days}')
select * from i
update i set b = '1.239', c = '23 months'
select a, b, c from i
select attname, atttypmod, format_type(atttypid, atttypmod) from pg_attribute where attrelid = 'i'::regclass and attnum > 0 order by attnum

select timestamptz '2024-01-01 00:00+00' at time zone '+03:30', timestamptz '2024-01-01 00:00+00' at time zone 'UTC-5', timestamptz '2024-01-01 00:00+00' at time zone 'GMT+2', timestamptz '2024-01-01 00:00+00' at time zone interval '-08:00', timestamp '2024-01-01' at time zone '-3'
select timestamptz '2024-01-01 00:00 UTC-5', timestamptz '2024-01-01 00:00 GMT+2', timestamptz '2024-01-01 00:00 +03:30', timestamptz '2024-01-01 00:00 EST5EDT', timestamptz '2024-07-01 00:00 PST8PDT'
select timezone('+3', timestamp '2024-01-01'), timetz '12:00+00' at time zone '+03:30', timetz '12:00+00' at time zone interval '2 hours'
select extract(epoch from interval '1 year 1 day'), extract(dow from date '2024-03-03'), extract(isodow from date '2024-03-03'), extract(week from date '2024-12-30'), extract(julian from timestamp '2024-01-01 12:00'), extract(century from date '0001-01-01 BC'), extract(decade from date '0001-01-01 BC'), extract(timezone from timestamptz '2024-01-01'), extract(second from time '12:34:56.789'), extract(milliseconds from interval '1.5 s')
select date_trunc('week', timestamp '2024-03-03 12:00'), date_trunc('day', timestamptz '2024-03-03 22:00+00', 'Asia/Tokyo'), date_trunc('quarter', interval '7 months'), date_trunc('century', date '2024-01-01'), date_bin('15 minutes', timestamp '2024-01-01 12:37', timestamp '2024-01-01')
select log(0.5, 'Infinity'::numeric), log('Infinity'::numeric, 'Infinity'::numeric), log('Infinity'::numeric, 2), log(1.0, 'Infinity'::numeric)
select power('-Infinity'::numeric, 0.5)
select power('-Infinity'::numeric, 3), power('-Infinity'::numeric, -1), power('Infinity'::numeric, -0.5)
select jsonb_set_lax('{"a":1}', '{a}', null, true, 'delete_key'), jsonb_set_lax('{"a":1}', '{a}', null), jsonb_set_lax('{"a":1}', '{a}', '5'), jsonb_set_lax('{"a":1}', '{b}', null, false)
select jsonb_set_lax('{"a":1}', '{a}', null, true, 'raise_exception')
select jsonb_insert('{"a":1}', '{a}', '2')
select jsonb_set('1', '{a}', '2')
select jsonb_insert('{"a":[0,1]}', '{a,1}', '"x"'), jsonb_insert('{"a":[0,1]}', '{a,1}', '"x"', true), jsonb_insert('{"a":1}', '{b}', '2'), jsonb_set('{"a":1}', '{b}', '2', false)
select json_each('1')
select regexp_count('abcabc', 'b', 3), regexp_instr('xabab', 'a', 1, 2), regexp_instr('xabab', 'a(b)', 1, 1, 1, 'i', 1), regexp_substr('xabab', 'a.', 1, 2), regexp_substr('xabab', '(a)(b)', 1, 1, '', 2), regexp_instr('abc', 'z'), regexp_substr('abc', 'z'), regexp_count('ABC', 'b', 1, 'i')
select regexp_instr('abc', 'b', 0)
select similar_to_escape('a%'), 'abc' similar to 'a#%' escape '#'
