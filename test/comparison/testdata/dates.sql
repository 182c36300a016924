-- Dates, times and intervals: what is read, zones, templates, fields and arithmetic, and the ends of RANGE frames.

set timezone='America/New_York'
select date_trunc('hour', '2024-11-03 05:30:00+00'::timestamptz), date_trunc('hour', '2024-11-03 06:30:00+00'::timestamptz)
select date_trunc('minute', '2024-11-03 05:30:20+00'::timestamptz), date_trunc('minute', '2024-11-03 06:30:20+00'::timestamptz)
select date_trunc('day', '2024-11-03 06:30:00+00'::timestamptz), date_trunc('week', '2024-11-03 06:30:00+00'::timestamptz)
select date_trunc('hour', '2024-11-03 06:30:00+00'::timestamptz, 'Europe/Berlin'), date_trunc('hour', '2024-10-27 00:30:00+00'::timestamptz, 'Europe/Berlin'), date_trunc('hour', '2024-10-27 01:30:00+00'::timestamptz, 'Europe/Berlin')
select date_trunc('hour', x) , count(*) from generate_series('2024-11-03 04:00:00+00'::timestamptz, '2024-11-03 08:00:00+00', '30 min') x group by 1 order by 1
set timezone='UTC'
select timestamptz '2024-07-01 12:00+00' at time zone 'CET', timestamptz '2024-07-01 12:00+00' at time zone 'MET', timestamptz '2024-07-01 12:00+00' at time zone 'EET', timestamptz '2024-07-01 12:00+00' at time zone 'WET', timestamptz '2024-07-01 12:00+00' at time zone 'EST5EDT', timestamptz '2024-07-01 12:00+00' at time zone 'MST', timestamptz '2024-07-01 12:00+00' at time zone 'EST', timestamptz '2024-07-01 12:00+00' at time zone 'HST', timestamptz '2024-07-01 12:00+00' at time zone 'MSK', timestamptz '2010-07-01 12:00+00' at time zone 'MSK'
select timestamptz '2024-07-01 12:00 CET', timestamptz '2024-07-01 12:00 MET', timestamptz '2024-07-01 12:00 EET', timestamptz '2024-07-01 12:00 WET'
set timezone='CET'
select timestamptz '2024-07-01 12:00+00'
show timezone
set timezone='WET'
select timestamptz '2024-07-01 12:00+00'
set timezone='UTC'
select to_timestamp('2024-01-03','IYYY-IW-ID'), to_date('2024-53-3','IYYY-IW-ID'), to_date('2005 400','IYYY IDDD'), to_date('2005 03','IYYY IW')
select to_date('2024-W05-3','IYYY-"W"IW-ID')
select to_date('20 05','YY IW')
select to_date('2024 05','YYYY IW')
select to_date('2024-5-3', 'YYYY-WW-D'), to_date('2024 12 2','YYYY MM W'), to_date('2024 Q2','YYYY "Q"Q'), to_date('21 24','CC YY'), to_date('19','CC')
select time '23:59:60.01', timestamp '2024-01-01 23:59:60.01', time '23:59:60', time '24:00:00', time '23:59:59.9999999', timestamptz '2024-01-01 23:59:60.5+02'
select time '25:00', time '24:00:01'
select time '24:00:00.01'
select time '12:00 America/New_York'
select time '2024-07-01 12:00 America/New_York', timetz '2024-07-01 12:00 America/New_York', timetz '12:00 PST', timetz '12:00 EST5EDT'
select timetz '12:00 America/New_York'
select time '12:00 PST'
select date '99-Jan-08'
select date 'Jan-99-08'
select date '08-99-Jan'
select date '99-08-Jan'
set datestyle='iso,ymd'
select date '99-Jan-08', date '99 Jan 08', date 'Jan-99-08', date '99-08-Jan', date '1999-Jan-08'
select date '08-Jan-99'
select date 'Jan-08-99'
set datestyle='iso,mdy'
select age('infinity'::timestamp, '2020-01-01'::timestamp)
select interval '2147483647 days' + interval '1 day'
select interval '2147483647 days 24 hours', justify_hours(interval '2147483647 days 24 hours')
select interval '1-2 3' year
select interval '1-2 3' year to month
select interval '1 2' day to minute, interval '1 2:03' day to minute, interval '1 2:03:04' day to minute, interval '1 2' day to hour, interval '2:03' day to minute, interval '1' day to minute
select interval '1 2' day to second, interval '1 2' hour to minute, interval '1 2:03' hour to second, interval '1 2' minute, interval '1 2' second
set intervalstyle='sql_standard'
select interval '-1 2:03:04', interval '-1-2', interval '-1-2 3 4:05:06', interval '-1 day 2:03', interval '-1 year 2 mons', interval '1 day -1 hour', interval '-23 hours 45 min 12.34 sec', interval '-1 year 2 months 1 day 23 hours 45 min 12.34 sec', interval '-1 year 2 months 1 day 23 hours 45 min +12.34 sec', interval '-1-2' year to month, interval '-10 -2:03'
select interval '-1 2:03:04 ago'
set intervalstyle='postgres'
select interval '1.5'::interval second(0)
select interval '9223372036854775807 us' + interval '1 us'
select interval '9223372036854775807 us' * 2, -interval '-9223372036854775808 us'
select interval '2147483647 months' * 2
select interval '178956970 years 8 months'
select interval '178956970 years 7 months 1 month'
select timestamptz '2024-01-01 00:00:00 +100'
set timezone='+100'
set timezone = 100
show timezone
select timestamptz '2024-01-01 00:00:00+00'
set timezone = -100
show timezone
select timestamptz '2024-01-01 00:00:00+00'
set timezone = 167
show timezone
select timestamptz '2024-01-01 00:00:00+00'
set timezone = 168
show timezone
select timestamptz '2024-01-01 00:00:00+00'
set timezone='XYZ100'
select timestamptz '2024-01-01 00:00:00+00'
show timezone
set timezone='<+120>-120'
select timestamptz '2024-01-01 00:00:00+00'
show timezone
set timezone='UTC'

-- Time zones by all kinds of names.
set timezone='us/eastern'
show timezone
set timezone='america/port-au-prince'
show timezone
set timezone='etc/gmt+5'
show timezone
set timezone='gb-eire'
show timezone
set timezone='foo'
show timezone
set timezone='foo/bar'
show timezone
set timezone='EST'
show timezone
set timezone='PST'
show timezone
set timezone='MSK'
show timezone
set timezone='FOO5'
show timezone
set timezone='EST5EDT4,M3.2.0,M11.1.0'
select timestamptz '2024-07-01 00:00+00'
set timezone='-5'
show timezone
select timestamptz '2024-07-01 00:00+00'
set timezone='+5:30'
show timezone
select timestamptz '2024-07-01 00:00+00'
set timezone='5.5'
show timezone
select timestamptz '2024-07-01 00:00+00'
set time zone interval '-08:00' hour to minute
show timezone
select timestamptz '2024-07-01 00:00+00'
set time zone interval '1 day'
show timezone
set time zone interval '1 month'
show timezone
set time zone interval '100:00'
show timezone
select timestamptz '2024-07-01 00:00+00'
set time zone interval '-00:30'
show timezone
select timestamptz '2024-07-01 00:00+00'
set time zone interval '05:30:15'
show timezone
select timestamptz '2024-07-01 00:00+00'
set time zone 5
show timezone
set time zone -5.5
show timezone
set time zone 0
show timezone
select timestamptz '2024-07-01 00:00+00'
set time zone 'UTC'
show timezone
set time zone 'zulu'
show timezone
select timestamptz '2024-07-01 00:00+00'
set timezone to 'utc'
show timezone
set timezone = 'Z'
show timezone
set timezone = 'GMT+3'
show timezone
select timestamptz '2024-07-01 00:00+00'
set timezone = 'UTC-3'
show timezone
select timestamptz '2024-07-01 00:00+00'
set timezone = '<foo>3'
show timezone
select timestamptz '2024-07-01 00:00+00'
set datestyle='sql'
select timestamptz '2024-07-01 00:00+00'
set timezone = 'Europe/Berlin'
select timestamptz '2024-07-01 00:00+00', timestamptz '2024-01-01 00:00+00'
set timezone = 'Asia/Kolkata'
select timestamptz '2024-07-01 00:00+00', timestamptz '1800-01-01 00:00+00'
set datestyle='iso'
select timestamptz '1800-01-01 00:00+00', timestamptz '0044-03-15 00:00 BC'
set timezone='America/New_York'
select timestamptz '1800-01-01 00:00+00', timestamptz '2500-07-01 00:00', timestamptz '200000-07-01 00:00'
select make_timestamptz(2024,1,1,0,0,0,'+2'), make_timestamptz(2024,1,1,0,0,0,'EST'), make_timestamptz(2024,1,1,0,0,0,'EST5EDT'), make_timestamptz(2024,7,1,0,0,0,'MSK')
select make_timestamptz(2024,1,1,0,0,0,'2')
select make_timestamptz(2024,1,1,0,0,0,'+16')
select make_timestamptz(2024,1,1,0,0,0,'nosuch')
select make_timestamptz(2024,1,1,0,0,0,'+05:30')
select make_timestamptz(1973, 07, 15, 08, 15, 55.33, '-2')
select make_timestamptz(2014, 12, 10, 10, 10, 10, 'PST8PDT'), make_timestamptz(2014, 12, 10, 0, 0, 0, 'Europe/Prague') AT TIME ZONE 'UTC'
SELECT make_timestamptz(1910, 12, 24, 0, 0, 0, 'Nehwon/Lankhmar')
select '2014-10-26 00:00:00 MSK'::timestamptz, '2011-03-26 21:00:00 UTC'::timestamptz at time zone 'MSK', '2014-10-25 23:00:00 UTC'::timestamptz AT TIME ZONE 'MSK', '2011-03-27 00:00:00 MSK'::timestamptz, '2011-03-27 00:00:00'::timestamp at time zone 'MSK', '1912-01-01 MSK'::timestamptz, '2100-01-01 MSK'::timestamptz
select '2007-12-09 02:00:00 VET'::timestamptz, '2016-05-01 VET'::timestamptz, '2024-01-01 ALMT'::timestamptz,  '1990-01-01 ALMT'::timestamptz
select timestamp '2024-01-01' at time zone '', timestamp '2024-01-01' at time zone ' EST'
select timestamp '2024-01-01' at time zone ' EST'
select timestamp '2024-01-01' at time zone interval '1 mon'
select timestamp '2024-01-01' at time zone interval '1 day'
select timestamptz '2024-01-01' at time zone interval '1 day'
select timetz '12:00+02' at time zone 'foo'
select time '12:00' at time zone 'EST'
select date '2024-01-01' at time zone 'EST'
select timestamp 'infinity' at time zone 'EST', timestamptz '-infinity' at time zone 'nosuch'

-- Arithmetic, fields and functions.
set timezone='America/New_York'
select make_interval(hours=>2147483647, secs=>-1.5)
select justify_hours('1 mon -1 hour'), justify_hours('-1 day 25 hours'), justify_hours('2147483647 days 23:59'), justify_days('29 days'), justify_days('-1 mon 35 days'), justify_interval('1 mon -1 hour'), justify_interval('-1 mon 1 hour'), justify_interval('33 days 24 hours'), justify_interval('-2147483648 days -24:00')
select justify_days('2147483647 months 30 days')
select justify_interval('2147483647 days 2562047788:00')
select justify_hours('2147483647 days 24 hours')
select justify_hours('-2147483648 days -24 hours')
select interval '1 day' * 'NaN'::float8
select interval '1 day' * 'inf'::float8
select interval '1 day' * 1e300
select interval '1 day' / 0
select interval '1 mon' / 1e-300
select interval '1 mon' / 'NaN'
select interval '1 year' * 1.1, interval '1 mon' * 0.1, interval '1 mon 1 day' / 7, interval '10:00' * -1.5, interval '1 year 2 mons' / 3, interval '2147483647 months' * 0.999, interval '-2147483648 months' * 1
select interval '2147483647 days' * 2
select interval '9223372036854775807 us' / 0.5
select -interval '-2147483648 months'
select -interval '-2147483648 days'
select interval '2147483647 days' - interval '-1 days'
select interval '0' - interval '-2147483648 days'
select interval '1 day' - interval '-9223372036854775808 us'
select interval '178956970 years 7 mons' + interval '1 mon'
select timestamp '294276-12-31' + interval '1 day'
select timestamp '294276-12-31' + interval '2147483647 months'
select timestamp '2024-01-01' + interval '2147483647 days'
select timestamp '2024-01-01' - interval '2147483647 months'
select timestamp '2024-01-01' + interval '9223372036854775807 us'
select timestamp '2024-01-31' + interval '1 mon', timestamp '2024-02-29' - interval '1 year', timestamp '2024-03-31' - interval '1 mon 1 day', timestamptz '2024-03-09 02:30' + interval '1 day', timestamptz '2024-03-10 00:30' + interval '24 hours', timestamptz '2024-11-02 01:30' + interval '1 day', timestamptz '2024-11-03 00:30' + interval '1 hour', timestamptz '2024-11-03 01:30-04' + interval '0 days 1 hour', timestamptz '2024-11-03 01:30-04' + interval '0', timestamptz '2024-11-03 01:30-04' + interval '1 day' - interval '1 day'
select timestamp 'infinity' + interval '1 day', timestamp '-infinity' - interval '1 mon', date 'infinity' + 1, date '-infinity' - 5, date 'infinity' + interval '1 day', date 'infinity' + time '12:00'
select timestamp 'infinity' - timestamp '2024-01-01'
select timestamp 'infinity' - timestamp 'infinity'
select timestamp '294276-12-31' - timestamp '4713-01-01 BC'
select timestamp '290000-12-31' - timestamp '4713-01-01 BC'
select date 'infinity' - date '2024-01-01'
select date '5874897-12-31' + 1
select date '5874897-12-31' - date '4713-11-24 BC'
select date '4713-11-24 BC' - 1
select date '4714-11-24 BC' - 1
select date '2024-01-01' + 2147483647
select date '2024-01-01' - 2147483647
select date '5874897-12-31'::timestamp
select date '5874897-12-31'::timestamptz
select date '5874897-12-31' + time '12:00'
select date '2024-01-01' + timetz '12:00+02', timetz '12:00-05' + date '2024-01-01', time '23:00' + interval '2 hours', time '01:00' - interval '2 hours', time '12:00' + interval '1 day 1 mon', timetz '23:00+05' + interval '2 hours', time '12:00' - time '13:00', timetz '12:00+02' - interval '13 hours'
select timetz '12:00+02' - timetz '13:00'
select time '12:00' + time '13:00'
select time '12:00' * 2
select extract(century from date '0001-01-01 BC'), extract(century from date '0100-12-31'), extract(century from date '0101-01-01'), extract(millennium from date '1000-01-01'), extract(millennium from date '1001-01-01'), extract(millennium from date '0001-01-01 BC'), extract(decade from date '0001-12-31 BC'), extract(decade from date '0011-01-01 BC'), extract(decade from date '0012-12-31 BC'), extract(year from date '0001-01-01 BC'), extract(isoyear from date '0001-01-01'), extract(isoyear from date '0001-01-03 BC'), extract(week from date '0001-01-01 BC'), extract(julian from date '4713-01-01 BC')
select extract(microseconds from interval '1 day 12:34:56.789'), extract(hour from interval '100:00'), extract(day from interval '40 days'), extract(quarter from interval '-4 months'), extract(month from interval '-14 months'), extract(year from interval '-14 months'), extract(decade from interval '-125 years'), extract(century from interval '-125 years'), extract(millennium from interval '2500 years'), extract(second from interval '-1.5 s'), extract(minute from interval '-90 min')
select extract(week from interval '1 day')
select extract(dow from interval '1 day')
select extract(isoyear from interval '1 day')
select extract(timezone from interval '1 day')
select extract(foo from interval '1 day')
select extract(day from time '12:00')
select extract(timezone from time '12:00')
select extract(foo from time '12:00')
select extract(dow from timetz '12:00+00')
select extract(timezone from timetz '12:00-05:30'), extract(timezone_hour from timetz '12:00-05:30'), extract(timezone_minute from timetz '12:00-05:30')
select extract(timezone from timestamp '2024-01-01')
select extract(timezone from timestamptz '2024-01-01'), extract(timezone_hour from timestamptz '1800-01-01'), extract(timezone_minute from timestamptz '1800-01-01')
select extract(hour from date '2024-01-01')
select extract(microseconds from date '2024-01-01')
select extract(epoch from date 'infinity'), extract(year from timestamp '-infinity'), extract(day from timestamp 'infinity'), extract(epoch from timestamptz 'infinity'), extract(julian from date '-infinity')
select extract(foo from timestamp 'infinity')
select extract(hour from date 'infinity')
select extract(timezone from timestamp 'infinity')
select date_part('epoch', timestamp '2024-01-01 12:00:00.5'), date_part('julian', timestamptz '2024-01-01 12:00'), date_part('second', interval '1.5 s'), date_part('hour', date '2024-01-01'), date_part('day', date 'infinity'), date_part('epoch', date '-infinity')
select extract(epoch from '2024-01-01 12:00'::timestamp), extract(isodow from timestamp '2024-01-07'), extract(dow from timestamp '2024-01-07'), extract(doy from timestamp '2024-12-31'), extract('year' from date '2024-01-01'), extract(YEAR from date '2024-01-01'), extract("year" from date '2024-01-01')
select date_trunc('decade', timestamp '0004-12-25'), date_trunc('decade', timestamp '0002-12-31 BC'), date_trunc('century', timestamp '0055-08-10 BC'), date_trunc('millennium', timestamp '1970-03-20'), date_trunc('century', timestamptz '1970-03-20'), date_trunc('week', timestamp '2024-01-01'), date_trunc('quarter', timestamptz '2024-06-30'), date_trunc('day', timestamptz '2024-03-10 12:00'), date_trunc('month', date '2024-02-29')
select date_trunc('foo', timestamp '2024-01-01')
select date_trunc('timezone', timestamp '2024-01-01')
select date_trunc('dow', timestamptz '2024-01-01')
select date_trunc('week', interval '1 day')
select date_trunc('foo', interval '1 day')
select date_trunc('dow', interval '1 day')
select date_trunc('foo', timestamp 'infinity')
select date_trunc('decade', interval '125 years'), date_trunc('quarter', interval '-7 mons'), date_trunc('hour', interval '-1:30'), date_trunc('day', interval '1 mon 3 days 4:05')
select date_trunc('day', timestamptz '2001-02-16 20:38:40+00', 'Australia/Sydney'), date_trunc('day', timestamptz '2001-02-16 20:38:40+00', 'GMT'), date_trunc('day', timestamptz '2001-02-16 20:38:40+00', 'VET')
select date_trunc('day', timestamptz '2001-02-16 20:38:40+00', 'foo')
select date_bin('15 min', timestamp '2020-02-11 15:44:17.71323', timestamp '2001-01-01'), date_bin('5 days', timestamp '2020-02-11', timestamp '2024-01-01'), date_bin('1 us', timestamp '2020-02-11 15:44:17.71323', timestamp '2001-01-01'), date_bin('15 min', timestamptz '2020-02-11 15:44:17+00', timestamptz '2001-01-01 00:02:30+00'), date_bin('1 day', timestamp 'infinity', timestamp '2001-01-01')
select date_bin('5 months', timestamp '2020-02-01', timestamp '2001-01-01')
select date_bin('0 days', timestamp '2020-02-01', timestamp '2001-01-01')
select date_bin('-2 days', timestamp '2020-02-01', timestamp '2001-01-01')
select date_bin('1 day', timestamp '2020-02-01', timestamp 'infinity')
select date_bin('200000000 days', timestamp '2020-02-01', timestamp '2001-01-01')
select date_bin('1 day', timestamp '294276-12-31', timestamp '4713-01-01 BC')
select * from generate_series(timestamp '2024-01-01', timestamp '2024-01-04', '1 day')
select * from generate_series(timestamp '2024-01-04', timestamp '2024-01-01', '-1 day')
select * from generate_series(timestamp '2024-01-01', timestamp '2024-01-04', '0')
select * from generate_series(timestamp '2024-01-31', timestamp '2024-06-30', '1 mon')
select * from generate_series(timestamptz '2024-03-09', timestamptz '2024-03-12', '1 day')
select * from generate_series(timestamptz '2024-03-09 12:00', timestamptz '2024-03-11 12:00', '12 hours')
select * from generate_series(date '2024-01-01', date '2024-01-03', '1 day')
select * from generate_series(timestamp '2024-01-01', timestamp '2024-01-04', '1 mon -30 days') limit 3
select count(*) from generate_series(timestamp '2024-01-01', timestamp '2024-01-04', '1 mon -31 days') limit 3
select (timestamp '2000-11-27', timestamp '2000-11-28') overlaps (timestamp '2000-11-27 12:00', timestamp '2000-11-30'), (time '00:00', time '01:00') overlaps (time '00:30', time '01:30'), (time '00:00', interval '1 hour') overlaps (time '01:30', interval '1 hour'), (date '2024-01-01', date '2024-01-01') overlaps (date '2024-01-01', date '2024-01-02'), (timetz '00:00+00', timetz '01:00+00') overlaps (timetz '00:30+00', timetz '01:30+00'), (date '2024-01-02', date '2024-01-01') overlaps (date '2024-01-01', date '2024-01-02'), (timestamp '2000-01-01', null::timestamp) overlaps (timestamp '2000-01-01', null::timestamp)
select age(timestamp '2001-04-10', timestamp '1957-06-13'), age(timestamp '2000-02-29', timestamp '1999-03-31'), age(date '2024-03-31', date '2024-02-29'), age(timestamp '2024-01-01', timestamp '2024-03-31 12:00'), age(timestamptz '2024-03-11', timestamptz '2024-03-09'), age(timestamptz '2024-11-04', timestamptz '2024-11-03')
select isfinite(date 'infinity'), isfinite(timestamp '-infinity'), isfinite(interval '1 day'), isfinite(timestamptz '2024-01-01')
select make_date(2024,2,30)
select make_date(0,1,1)
select make_date(-44,3,15), make_date(2024,2,29), make_date(5874897,12,31)
select make_date(5874898,1,1)
select make_date(-4715,1,1)
select make_date(2147483647,1,1)
select make_time(24,0,0), make_time(23,59,60), make_time(8,20,0.0000005), make_time(8,20,59.9999999)
select make_time(24,0,1)
select make_time(10,55,100.1)
select make_time(-1,0,0)
select make_time(0,0,'NaN')
select make_timestamp(2023,2,28,24,0,0), make_timestamp(-44,3,15,1,2,3.5)
select make_timestamp(2023,2,29,0,0,0)
select make_timestamp(2023,13,1,0,0,0)
select make_timestamp(294277,1,1,0,0,0)
select make_timestamp(0,7,15,12,30,15)
select to_timestamp(0), to_timestamp(1e10), to_timestamp(-1e10), to_timestamp('infinity'::float), to_timestamp('-infinity'::float), to_timestamp(1262349296.7890123)
select to_timestamp(1e300)
select to_timestamp('NaN'::float)
select to_timestamp(9224318016000)
select timestamp '2024-01-01 12:34:56.789'::time, timestamptz '2024-01-01 12:34:56.789'::timetz, timestamptz '2024-07-01 12:34:56.789'::time, time '12:34:56.789'::interval, interval '1 day 25:00'::time, interval '-1:00'::time, time '12:00'::timetz is not null, timetz '12:00+02'::time, timestamp '2024-01-01 12:00'::date, timestamptz '2024-01-01 12:00+00'::date, timestamp 'infinity'::date, timestamptz '-infinity'::date
select timestamp 'infinity'::time, timestamptz 'infinity'::timetz
select time(3) '12:34:56.7896', timetz(0) '12:34:56.7896+02', timestamp(2) '2024-01-01 12:34:56.785', timestamptz(0) '2024-12-31 23:59:59.5', time(0) '23:59:59.5', '12:34:56.789'::time(1), timestamp(0) '294276-12-31 23:59:59.4'
select timestamp(0) '294276-12-31 23:59:59.5'
select timetz '12:00+02' < timetz '11:00+00', timetz '12:00+02' = timetz '10:00+00', timetz '12:00+02' < timetz '12:00+01', interval '1 mon' = interval '30 days', interval '24:00' = interval '1 day', interval '1 mon' < interval '31 days', interval '178000000 years' > interval '1 day', date '2024-01-01' < timestamp '2024-01-01 00:00:01', date '2024-01-01' = timestamptz '2024-01-01', timestamp '2024-01-01' = timestamptz '2024-01-01'
select sum(x), avg(x), min(x), max(x) from (values (interval '1 mon'),(interval '10 days'),(interval '-1 hour')) v(x)
select sum(x) from (values (interval '2147483647 days'),(interval '1 day')) v(x)
select avg(x) from (values (interval '2147483647 days'),(interval '1 day')) v(x)
select max(x), min(x) from (values (timetz '12:00+02'),(timetz '11:00+00')) v(x)
select interval '1:20:05 5 microseconds', interval '1 day 1 day'
select interval '3 days 5 milliseconds', interval '1.5 weeks', interval '1.2345 y', interval '0.1 mon', interval '1.23456789 decade', interval '-0.5 mil'
select interval '1 day 1 day'
select interval 'P1Y0M3DT04H05M06S'::text, interval '1-2'::text, interval '3 4:05:06'::text
set intervalstyle='iso_8601'
select interval '1 year -2 mons', interval '-1.5 s', interval '0', interval '1 day -00:00:00.5', interval '-2147483648 days -9223372036854775808 us'
set intervalstyle='sql_standard'
select interval '1 year -2 mons', interval '-1.5 s', interval '0', interval '1 day -00:00:00.5', interval '-2147483648 days -9223372036854775808 us', interval '1 mon 1 day', interval '-1 mon', interval '12:00', interval '1 12:00'
set intervalstyle='postgres_verbose'
select interval '1 year -2 mons', interval '-1.5 s', interval '0', interval '1 day -00:00:00.5', interval '-2147483648 days -9223372036854775808 us', interval '-1 day 1 hour', interval '1 mon -1 day', interval '-1 year 1 mon 1.0 s', interval '1 sec', interval '-1 sec'
set intervalstyle='postgres'
select interval '-2147483648 days -9223372036854775808 us', interval '1 year -2 mons', interval '-2147483648 months'

-- The ends of RANGE frames near the largest numbers, and at infinity.
create table rf(a int, b bigint, f float8)
insert into rf values (1,9223372036854775807,'inf'),(2,-9223372036854775808,'-inf'),(3,0,'nan'),(4,5,1.5),(5,9223372036854775800,2),(6,null,null)
select a, count(*) over (order by b range between 10 preceding and 10 following), count(*) over (order by b desc range between 10 preceding and 10 following),count(*) over (order by b range between 10 following and 9223372036854775807 following),count(*) over (order by b range between 9223372036854775807 preceding and 9223372036854775806 preceding) from rf order by 1
select a, count(*) over (order by b desc range between 10 following and 9223372036854775807 following),count(*) over (order by b desc range between 9223372036854775807 preceding and 9223372036854775806 preceding), count(*) over (order by b nulls first range between 9223372036854775807 preceding and 1 following) from rf order by 1
select a, count(*) over (order by f range between 10 preceding and 10 following), count(*) over (order by f desc range between 1 preceding and 1 following) from rf order by 1
select a, count(*) over (order by f range between 'inf'::float8 preceding and 'inf'::float8 following), count(*) over (order by f range between 'inf'::float8 preceding and 'inf'::float8 preceding), count(*) over (order by f range between 'inf'::float8 following and 'inf'::float8 following), count(*) over (order by f desc range between 'inf'::float8 following and 'inf'::float8 following), count(*) over (order by f desc range between 'inf'::float8 preceding and 1.1::float8 following) from rf order by 1
select a, count(*) over (order by f range between 'nan'::float8 preceding and 1.0::float8 following) from rf order by 1
select a, count(*) over (order by f range between (-1)::float8 preceding and 1.0::float8 following) from rf order by 1
select a, count(*) over (order by b range between -1 preceding and 1 following) from rf order by 1
select a, count(*) over (order by b rows between -1 preceding and 1 following) from rf order by 1
select a, count(*) over (order by a::int2 range between 2 preceding and 32767 following), count(*) over (order by a range between 2147483647 preceding and 2147483647 following) from rf order by 1
drop table rf
