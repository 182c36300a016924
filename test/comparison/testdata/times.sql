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

-- justify_*: overflow, and signs.
select justify_interval('1 mon -1 hour'), justify_interval('-35 days 25:00'), justify_hours('25:00:00'), justify_hours('-1 day 25:00'), justify_days('-35 days'), justify_interval('2147483647 days 24:00'), justify_days('1 mon -31 days')

select justify_hours('2147483647 days 24:00')

select justify_interval(interval '178956970 years 7 mons 2147483647 days')

-- Periods that overlap.
select (date '2024-01-01', interval '10 days') overlaps (date '2024-01-05', date '2024-01-06'), (timestamp '2024-01-01', null) overlaps (timestamp '2024-01-01', timestamp '2024-01-02'), (time '10:00', time '12:00') overlaps (time '11:00', interval '1 hour'), (timestamptz '2024-01-01 00:00+00', interval '1 day') overlaps (timestamptz '2024-01-02 00:00+00', interval '1 day')

select date_bin('15 minutes', timestamp '2020-02-11 15:44:17', timestamp '2001-01-01'), date_bin('-1 day', timestamp '2020-02-11', timestamp '2001-01-01')

select date_bin('1 month', timestamp '2020-02-11 15:44:17', timestamp '2001-01-01')

select date_bin('1 day', timestamp '2020-02-11 15:44:17', timestamp 'infinity')

-- Input and output of intervals.
select interval '1-2' year to month, interval '1' year, interval '1 2:03:04.567' day to second(1), interval(3) '1.23456 s', interval '90' minute, interval '10:20' minute to second, interval '1' month, interval '1:30' hour to minute, interval '5' day

select interval 'P1Y2M3DT4H5M6.7S', interval 'P0001-02-03T04:05:06', interval 'PT36H', interval '1-2 3 4:05:06', interval '-1-2 +3 -4:05:06', interval '@ 1 year 2 mons ago', interval '1.5 months', interval '1.5 years', interval '1 fortnight'

select interval '1 day 1 day'

select interval '1:00 5 minutes'

select '100'::text::interval(0), '100'::text::interval hour, cast('1.5 days' as interval day), '12:34:56.789'::time::interval(1)

set intervalstyle = sql_standard
select interval '1 year 2 months', interval '1 day 02:03:04', interval '-1 day -02:03:04.5', interval '1 year 2 mons -3 days', interval '0', interval '-1-2', interval '1 2:03', interval '-1 2:03:04'

set intervalstyle = iso_8601
select interval '1 year 2 months 3 days 04:05:06.7', interval '-1 day -02:03:04.5', interval '0', interval '-1 mon 1 day'

set intervalstyle = postgres_verbose
select interval '1 year 2 months 3 days 04:05:06.7', interval '-1 day -02:03:04.5', interval '0', interval '1 mon -1 day', interval '-00:00:01'

-- Zones.
select timetz '12:00+05:30' at time zone 'UTC', timetz '12:00+05:30' + date '2024-01-01', date '2024-01-01' + timetz '12:00-08', '12:00'::timetz = '12:00+00'::timetz, '11:00-01'::timetz < '12:00+00'::timetz, extract(timezone from timetz '12:00+05:30'), extract(epoch from timetz '12:00-08')

select timestamptz '2024-07-01 12:00 America/New_York', timestamptz '2024-07-01 12:00 EST5EDT', timestamp '2024-07-01 12:00' at time zone 'GMT+2', timestamp '2024-07-01 12:00' at time zone '+03:30', timestamptz '2024-07-01 12:00+00' at time zone 'UTC-5', timestamptz '2024-07-01 12:00+00' at time zone '<+03>-3', timestamptz '2024-07-01 12:00+00' at time zone 'CET-1CEST'

-- Functions with a date.
select date_part('hour', date '2024-02-29'), date_part('epoch', date '2024-02-29'), extract(week from date '2024-12-30'), date_trunc('quarter', date '2024-05-05'), date_trunc('Week', timestamptz '2024-05-05 00:00+00', 'America/New_York')

select extract(hour from date '2024-02-29')

select date_trunc('dow', timestamp '2024-02-29')

select date_trunc('week', interval '8 days')

select make_date(-44, 3, 15), make_time(8, 15, 23.5), make_timestamp(2013, 7, 15, 8, 15, 23.5), make_timestamptz(2013, 7, 15, 8, 15, 23.5, 'America/New_York'), make_interval(1, 2, 3, 4, 5, 6, 7.5)

select make_date(2023, 2, 30)

select to_timestamp(1284352323.5), to_timestamp('2024-02-30', 'YYYY-MM-DD')
