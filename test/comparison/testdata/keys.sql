-- Indexes over values that are equal and do not look alike, or whose order is not that of their texts.
create table kt (id int primary key, v timetz)
insert into kt select g, null::timetz from generate_series(1001,1400) g
insert into kt values (1, '10:00+00'), (2, '10:00+05'), (3, '05:00+00'), (4, '05:00-05'), (5, '10:00-05'), (6, '24:00+00'), (7, '00:00+14'), (8, '23:59:59.999999-12'), (9, '12:00+02:30'), (10, '09:30+00')
insert into kt values (101, '09:30+00'), (102, '12:00+02:30'), (103, '23:59:59.999999-12'), (104, '00:00+14'), (105, '24:00+00'), (106, '10:00-05'), (107, '05:00-05'), (108, '05:00+00'), (109, '10:00+05'), (110, '10:00+00')
create index on kt (v, id)
create index on kt (v desc, id)
analyze kt
select id from kt where v = '10:00+00'::timetz order by id
select id from kt where v < '10:00+00'::timetz order by id
select id from kt where v >= '10:00+00'::timetz order by id
select id from kt where v > '10:00+00'::timetz order by id
select id from kt where v <= '10:00+00'::timetz order by id
select id from kt where v <> '10:00+00'::timetz order by id
select count(*) from kt where v in ('10:00+00'::timetz, '10:00+00'::timetz)
select max(id) from kt where v = any(array['10:00+00'::timetz])
select id from kt where v = '10:00+05'::timetz order by id
select id from kt where v < '10:00+05'::timetz order by id
select id from kt where v >= '10:00+05'::timetz order by id
select id from kt where v > '10:00+05'::timetz order by id
select id from kt where v <= '10:00+05'::timetz order by id
select id from kt where v <> '10:00+05'::timetz order by id
select count(*) from kt where v in ('10:00+05'::timetz, '10:00+00'::timetz)
select max(id) from kt where v = any(array['10:00+05'::timetz])
select id from kt where v = '05:00+00'::timetz order by id
select id from kt where v < '05:00+00'::timetz order by id
select id from kt where v >= '05:00+00'::timetz order by id
select id from kt where v > '05:00+00'::timetz order by id
select id from kt where v <= '05:00+00'::timetz order by id
select id from kt where v <> '05:00+00'::timetz order by id
select count(*) from kt where v in ('05:00+00'::timetz, '10:00+00'::timetz)
select max(id) from kt where v = any(array['05:00+00'::timetz])
select id from kt where v = '05:00-05'::timetz order by id
select id from kt where v < '05:00-05'::timetz order by id
select id from kt where v >= '05:00-05'::timetz order by id
select id from kt where v > '05:00-05'::timetz order by id
select id from kt where v <= '05:00-05'::timetz order by id
select id from kt where v <> '05:00-05'::timetz order by id
select count(*) from kt where v in ('05:00-05'::timetz, '10:00+00'::timetz)
select max(id) from kt where v = any(array['05:00-05'::timetz])
select id from kt where v = '10:00-05'::timetz order by id
select id from kt where v < '10:00-05'::timetz order by id
select id from kt where v >= '10:00-05'::timetz order by id
select id from kt where v > '10:00-05'::timetz order by id
select id from kt where v <= '10:00-05'::timetz order by id
select id from kt where v <> '10:00-05'::timetz order by id
select count(*) from kt where v in ('10:00-05'::timetz, '10:00+00'::timetz)
select max(id) from kt where v = any(array['10:00-05'::timetz])
select id from kt where v = '24:00+00'::timetz order by id
select id from kt where v < '24:00+00'::timetz order by id
select id from kt where v >= '24:00+00'::timetz order by id
select id from kt where v > '24:00+00'::timetz order by id
select id from kt where v <= '24:00+00'::timetz order by id
select id from kt where v <> '24:00+00'::timetz order by id
select count(*) from kt where v in ('24:00+00'::timetz, '10:00+00'::timetz)
select max(id) from kt where v = any(array['24:00+00'::timetz])
select id from kt where v = '00:00+14'::timetz order by id
select id from kt where v < '00:00+14'::timetz order by id
select id from kt where v >= '00:00+14'::timetz order by id
select id from kt where v > '00:00+14'::timetz order by id
select id from kt where v <= '00:00+14'::timetz order by id
select id from kt where v <> '00:00+14'::timetz order by id
select count(*) from kt where v in ('00:00+14'::timetz, '10:00+00'::timetz)
select max(id) from kt where v = any(array['00:00+14'::timetz])
select id from kt where v = '23:59:59.999999-12'::timetz order by id
select id from kt where v < '23:59:59.999999-12'::timetz order by id
select id from kt where v >= '23:59:59.999999-12'::timetz order by id
select id from kt where v > '23:59:59.999999-12'::timetz order by id
select id from kt where v <= '23:59:59.999999-12'::timetz order by id
select id from kt where v <> '23:59:59.999999-12'::timetz order by id
select count(*) from kt where v in ('23:59:59.999999-12'::timetz, '10:00+00'::timetz)
select max(id) from kt where v = any(array['23:59:59.999999-12'::timetz])
select id from kt where v = '12:00+02:30'::timetz order by id
select id from kt where v < '12:00+02:30'::timetz order by id
select id from kt where v >= '12:00+02:30'::timetz order by id
select id from kt where v > '12:00+02:30'::timetz order by id
select id from kt where v <= '12:00+02:30'::timetz order by id
select id from kt where v <> '12:00+02:30'::timetz order by id
select count(*) from kt where v in ('12:00+02:30'::timetz, '10:00+00'::timetz)
select max(id) from kt where v = any(array['12:00+02:30'::timetz])
select id from kt where v = '09:30+00'::timetz order by id
select id from kt where v < '09:30+00'::timetz order by id
select id from kt where v >= '09:30+00'::timetz order by id
select id from kt where v > '09:30+00'::timetz order by id
select id from kt where v <= '09:30+00'::timetz order by id
select id from kt where v <> '09:30+00'::timetz order by id
select count(*) from kt where v in ('09:30+00'::timetz, '10:00+00'::timetz)
select max(id) from kt where v = any(array['09:30+00'::timetz])
select id, v from kt where v is not null order by v, id
select id, v from kt where v is not null order by v desc, id
select min(id), count(*) from kt group by v order by v
select count(distinct v) from kt
select x.id, y.id from kt x join kt y on x.v = y.v where x.id < y.id order by 1, 2
select min(v), max(v) from kt

create table kt (id int primary key, v interval)
insert into kt select g, null::interval from generate_series(1001,1400) g
insert into kt values (1, '1 mon'), (2, '30 days'), (3, '29 days 24:00'), (4, '-1 day'), (5, '0'), (6, '1 year'), (7, '360 days'), (8, '-1 mon 30 days'), (9, '1 day -1 sec'), (10, '24:00')
insert into kt values (101, '24:00'), (102, '1 day -1 sec'), (103, '-1 mon 30 days'), (104, '360 days'), (105, '1 year'), (106, '0'), (107, '-1 day'), (108, '29 days 24:00'), (109, '30 days'), (110, '1 mon')
create index on kt (v, id)
create index on kt (v desc, id)
analyze kt
select id from kt where v = '1 mon'::interval order by id
select id from kt where v < '1 mon'::interval order by id
select id from kt where v >= '1 mon'::interval order by id
select id from kt where v > '1 mon'::interval order by id
select id from kt where v <= '1 mon'::interval order by id
select id from kt where v <> '1 mon'::interval order by id
select count(*) from kt where v in ('1 mon'::interval, '1 mon'::interval)
select max(id) from kt where v = any(array['1 mon'::interval])
select id from kt where v = '30 days'::interval order by id
select id from kt where v < '30 days'::interval order by id
select id from kt where v >= '30 days'::interval order by id
select id from kt where v > '30 days'::interval order by id
select id from kt where v <= '30 days'::interval order by id
select id from kt where v <> '30 days'::interval order by id
select count(*) from kt where v in ('30 days'::interval, '1 mon'::interval)
select max(id) from kt where v = any(array['30 days'::interval])
select id from kt where v = '29 days 24:00'::interval order by id
select id from kt where v < '29 days 24:00'::interval order by id
select id from kt where v >= '29 days 24:00'::interval order by id
select id from kt where v > '29 days 24:00'::interval order by id
select id from kt where v <= '29 days 24:00'::interval order by id
select id from kt where v <> '29 days 24:00'::interval order by id
select count(*) from kt where v in ('29 days 24:00'::interval, '1 mon'::interval)
select max(id) from kt where v = any(array['29 days 24:00'::interval])
select id from kt where v = '-1 day'::interval order by id
select id from kt where v < '-1 day'::interval order by id
select id from kt where v >= '-1 day'::interval order by id
select id from kt where v > '-1 day'::interval order by id
select id from kt where v <= '-1 day'::interval order by id
select id from kt where v <> '-1 day'::interval order by id
select count(*) from kt where v in ('-1 day'::interval, '1 mon'::interval)
select max(id) from kt where v = any(array['-1 day'::interval])
select id from kt where v = '0'::interval order by id
select id from kt where v < '0'::interval order by id
select id from kt where v >= '0'::interval order by id
select id from kt where v > '0'::interval order by id
select id from kt where v <= '0'::interval order by id
select id from kt where v <> '0'::interval order by id
select count(*) from kt where v in ('0'::interval, '1 mon'::interval)
select max(id) from kt where v = any(array['0'::interval])
select id from kt where v = '1 year'::interval order by id
select id from kt where v < '1 year'::interval order by id
select id from kt where v >= '1 year'::interval order by id
select id from kt where v > '1 year'::interval order by id
select id from kt where v <= '1 year'::interval order by id
select id from kt where v <> '1 year'::interval order by id
select count(*) from kt where v in ('1 year'::interval, '1 mon'::interval)
select max(id) from kt where v = any(array['1 year'::interval])
select id from kt where v = '360 days'::interval order by id
select id from kt where v < '360 days'::interval order by id
select id from kt where v >= '360 days'::interval order by id
select id from kt where v > '360 days'::interval order by id
select id from kt where v <= '360 days'::interval order by id
select id from kt where v <> '360 days'::interval order by id
select count(*) from kt where v in ('360 days'::interval, '1 mon'::interval)
select max(id) from kt where v = any(array['360 days'::interval])
select id from kt where v = '-1 mon 30 days'::interval order by id
select id from kt where v < '-1 mon 30 days'::interval order by id
select id from kt where v >= '-1 mon 30 days'::interval order by id
select id from kt where v > '-1 mon 30 days'::interval order by id
select id from kt where v <= '-1 mon 30 days'::interval order by id
select id from kt where v <> '-1 mon 30 days'::interval order by id
select count(*) from kt where v in ('-1 mon 30 days'::interval, '1 mon'::interval)
select max(id) from kt where v = any(array['-1 mon 30 days'::interval])
select id from kt where v = '1 day -1 sec'::interval order by id
select id from kt where v < '1 day -1 sec'::interval order by id
select id from kt where v >= '1 day -1 sec'::interval order by id
select id from kt where v > '1 day -1 sec'::interval order by id
select id from kt where v <= '1 day -1 sec'::interval order by id
select id from kt where v <> '1 day -1 sec'::interval order by id
select count(*) from kt where v in ('1 day -1 sec'::interval, '1 mon'::interval)
select max(id) from kt where v = any(array['1 day -1 sec'::interval])
select id from kt where v = '24:00'::interval order by id
select id from kt where v < '24:00'::interval order by id
select id from kt where v >= '24:00'::interval order by id
select id from kt where v > '24:00'::interval order by id
select id from kt where v <= '24:00'::interval order by id
select id from kt where v <> '24:00'::interval order by id
select count(*) from kt where v in ('24:00'::interval, '1 mon'::interval)
select max(id) from kt where v = any(array['24:00'::interval])
select id, v from kt where v is not null order by v, id
select id, v from kt where v is not null order by v desc, id
select min(id), count(*) from kt group by v order by v
select count(distinct v) from kt
select x.id, y.id from kt x join kt y on x.v = y.v where x.id < y.id order by 1, 2
select min(v), max(v) from kt

create table kt (id int primary key, v float8)
insert into kt select g, null::float8 from generate_series(1001,1400) g
insert into kt values (1, '0'), (2, '-0'), (3, 'NaN'), (4, 'Infinity'), (5, '-Infinity'), (6, '1e300'), (7, '-1e-300'), (8, '1.5'), (9, '2')
insert into kt values (101, '2'), (102, '1.5'), (103, '-1e-300'), (104, '1e300'), (105, '-Infinity'), (106, 'Infinity'), (107, 'NaN'), (108, '-0'), (109, '0')
create index on kt (v, id)
create index on kt (v desc, id)
analyze kt
select id from kt where v = '0'::float8 order by id
select id from kt where v < '0'::float8 order by id
select id from kt where v >= '0'::float8 order by id
select id from kt where v > '0'::float8 order by id
select id from kt where v <= '0'::float8 order by id
select id from kt where v <> '0'::float8 order by id
select count(*) from kt where v in ('0'::float8, '0'::float8)
select max(id) from kt where v = any(array['0'::float8])
select id from kt where v = '-0'::float8 order by id
select id from kt where v < '-0'::float8 order by id
select id from kt where v >= '-0'::float8 order by id
select id from kt where v > '-0'::float8 order by id
select id from kt where v <= '-0'::float8 order by id
select id from kt where v <> '-0'::float8 order by id
select count(*) from kt where v in ('-0'::float8, '0'::float8)
select max(id) from kt where v = any(array['-0'::float8])
select id from kt where v = 'NaN'::float8 order by id
select id from kt where v < 'NaN'::float8 order by id
select id from kt where v >= 'NaN'::float8 order by id
select id from kt where v > 'NaN'::float8 order by id
select id from kt where v <= 'NaN'::float8 order by id
select id from kt where v <> 'NaN'::float8 order by id
select count(*) from kt where v in ('NaN'::float8, '0'::float8)
select max(id) from kt where v = any(array['NaN'::float8])
select id from kt where v = 'Infinity'::float8 order by id
select id from kt where v < 'Infinity'::float8 order by id
select id from kt where v >= 'Infinity'::float8 order by id
select id from kt where v > 'Infinity'::float8 order by id
select id from kt where v <= 'Infinity'::float8 order by id
select id from kt where v <> 'Infinity'::float8 order by id
select count(*) from kt where v in ('Infinity'::float8, '0'::float8)
select max(id) from kt where v = any(array['Infinity'::float8])
select id from kt where v = '-Infinity'::float8 order by id
select id from kt where v < '-Infinity'::float8 order by id
select id from kt where v >= '-Infinity'::float8 order by id
select id from kt where v > '-Infinity'::float8 order by id
select id from kt where v <= '-Infinity'::float8 order by id
select id from kt where v <> '-Infinity'::float8 order by id
select count(*) from kt where v in ('-Infinity'::float8, '0'::float8)
select max(id) from kt where v = any(array['-Infinity'::float8])
select id from kt where v = '1e300'::float8 order by id
select id from kt where v < '1e300'::float8 order by id
select id from kt where v >= '1e300'::float8 order by id
select id from kt where v > '1e300'::float8 order by id
select id from kt where v <= '1e300'::float8 order by id
select id from kt where v <> '1e300'::float8 order by id
select count(*) from kt where v in ('1e300'::float8, '0'::float8)
select max(id) from kt where v = any(array['1e300'::float8])
select id from kt where v = '-1e-300'::float8 order by id
select id from kt where v < '-1e-300'::float8 order by id
select id from kt where v >= '-1e-300'::float8 order by id
select id from kt where v > '-1e-300'::float8 order by id
select id from kt where v <= '-1e-300'::float8 order by id
select id from kt where v <> '-1e-300'::float8 order by id
select count(*) from kt where v in ('-1e-300'::float8, '0'::float8)
select max(id) from kt where v = any(array['-1e-300'::float8])
select id from kt where v = '1.5'::float8 order by id
select id from kt where v < '1.5'::float8 order by id
select id from kt where v >= '1.5'::float8 order by id
select id from kt where v > '1.5'::float8 order by id
select id from kt where v <= '1.5'::float8 order by id
select id from kt where v <> '1.5'::float8 order by id
select count(*) from kt where v in ('1.5'::float8, '0'::float8)
select max(id) from kt where v = any(array['1.5'::float8])
select id from kt where v = '2'::float8 order by id
select id from kt where v < '2'::float8 order by id
select id from kt where v >= '2'::float8 order by id
select id from kt where v > '2'::float8 order by id
select id from kt where v <= '2'::float8 order by id
select id from kt where v <> '2'::float8 order by id
select count(*) from kt where v in ('2'::float8, '0'::float8)
select max(id) from kt where v = any(array['2'::float8])
select id, v from kt where v is not null order by v, id
select id, v from kt where v is not null order by v desc, id
select min(id), count(*) from kt group by v order by v
select count(distinct v) from kt
select x.id, y.id from kt x join kt y on x.v = y.v where x.id < y.id order by 1, 2
select min(v), max(v) from kt

create table kt (id int primary key, v bpchar)
insert into kt select g, null::bpchar from generate_series(1001,1400) g
insert into kt values (1, 'a'), (2, 'a  '), (3, 'ab'), (4, '')
insert into kt values (101, ''), (102, 'ab'), (103, 'a  '), (104, 'a')
create index on kt (v, id)
create index on kt (v desc, id)
analyze kt
select id from kt where v = 'a'::bpchar order by id
select id from kt where v < 'a'::bpchar order by id
select id from kt where v >= 'a'::bpchar order by id
select id from kt where v > 'a'::bpchar order by id
select id from kt where v <= 'a'::bpchar order by id
select id from kt where v <> 'a'::bpchar order by id
select count(*) from kt where v in ('a'::bpchar, 'a'::bpchar)
select max(id) from kt where v = any(array['a'::bpchar])
select id from kt where v = 'a  '::bpchar order by id
select id from kt where v < 'a  '::bpchar order by id
select id from kt where v >= 'a  '::bpchar order by id
select id from kt where v > 'a  '::bpchar order by id
select id from kt where v <= 'a  '::bpchar order by id
select id from kt where v <> 'a  '::bpchar order by id
select count(*) from kt where v in ('a  '::bpchar, 'a'::bpchar)
select max(id) from kt where v = any(array['a  '::bpchar])
select id from kt where v = 'ab'::bpchar order by id
select id from kt where v < 'ab'::bpchar order by id
select id from kt where v >= 'ab'::bpchar order by id
select id from kt where v > 'ab'::bpchar order by id
select id from kt where v <= 'ab'::bpchar order by id
select id from kt where v <> 'ab'::bpchar order by id
select count(*) from kt where v in ('ab'::bpchar, 'a'::bpchar)
select max(id) from kt where v = any(array['ab'::bpchar])
select id from kt where v = ''::bpchar order by id
select id from kt where v < ''::bpchar order by id
select id from kt where v >= ''::bpchar order by id
select id from kt where v > ''::bpchar order by id
select id from kt where v <= ''::bpchar order by id
select id from kt where v <> ''::bpchar order by id
select count(*) from kt where v in (''::bpchar, 'a'::bpchar)
select max(id) from kt where v = any(array[''::bpchar])
select id, v from kt where v is not null order by v, id
select id, v from kt where v is not null order by v desc, id
select min(id), count(*) from kt group by v order by v
select count(distinct v) from kt
select x.id, y.id from kt x join kt y on x.v = y.v where x.id < y.id order by 1, 2
select min(v), max(v) from kt

create table kt (id int primary key, v int[])
insert into kt select g, null::int[] from generate_series(1001,1400) g
insert into kt values (1, '{1}'), (2, '{1,2}'), (3, '{}'), (4, '{{1,2}}'), (5, '{2}'), (6, '{1,NULL}'), (7, '{NULL}'), (8, '[0:1]={1,2}'), (9, '{{1},{2}}')
insert into kt values (101, '{{1},{2}}'), (102, '[0:1]={1,2}'), (103, '{NULL}'), (104, '{1,NULL}'), (105, '{2}'), (106, '{{1,2}}'), (107, '{}'), (108, '{1,2}'), (109, '{1}')
create index on kt (v, id)
create index on kt (v desc, id)
analyze kt
select id from kt where v = '{1}'::int[] order by id
select id from kt where v < '{1}'::int[] order by id
select id from kt where v >= '{1}'::int[] order by id
select id from kt where v > '{1}'::int[] order by id
select id from kt where v <= '{1}'::int[] order by id
select id from kt where v <> '{1}'::int[] order by id
select count(*) from kt where v in ('{1}'::int[], '{1}'::int[])
select 1
select id from kt where v = '{1,2}'::int[] order by id
select id from kt where v < '{1,2}'::int[] order by id
select id from kt where v >= '{1,2}'::int[] order by id
select id from kt where v > '{1,2}'::int[] order by id
select id from kt where v <= '{1,2}'::int[] order by id
select id from kt where v <> '{1,2}'::int[] order by id
select count(*) from kt where v in ('{1,2}'::int[], '{1}'::int[])
select 1
select id from kt where v = '{}'::int[] order by id
select id from kt where v < '{}'::int[] order by id
select id from kt where v >= '{}'::int[] order by id
select id from kt where v > '{}'::int[] order by id
select id from kt where v <= '{}'::int[] order by id
select id from kt where v <> '{}'::int[] order by id
select count(*) from kt where v in ('{}'::int[], '{1}'::int[])
select 1
select id from kt where v = '{{1,2}}'::int[] order by id
select id from kt where v < '{{1,2}}'::int[] order by id
select id from kt where v >= '{{1,2}}'::int[] order by id
select id from kt where v > '{{1,2}}'::int[] order by id
select id from kt where v <= '{{1,2}}'::int[] order by id
select id from kt where v <> '{{1,2}}'::int[] order by id
select count(*) from kt where v in ('{{1,2}}'::int[], '{1}'::int[])
select 1
select id from kt where v = '{2}'::int[] order by id
select id from kt where v < '{2}'::int[] order by id
select id from kt where v >= '{2}'::int[] order by id
select id from kt where v > '{2}'::int[] order by id
select id from kt where v <= '{2}'::int[] order by id
select id from kt where v <> '{2}'::int[] order by id
select count(*) from kt where v in ('{2}'::int[], '{1}'::int[])
select 1
select id from kt where v = '{1,NULL}'::int[] order by id
select id from kt where v < '{1,NULL}'::int[] order by id
select id from kt where v >= '{1,NULL}'::int[] order by id
select id from kt where v > '{1,NULL}'::int[] order by id
select id from kt where v <= '{1,NULL}'::int[] order by id
select id from kt where v <> '{1,NULL}'::int[] order by id
select count(*) from kt where v in ('{1,NULL}'::int[], '{1}'::int[])
select 1
select id from kt where v = '{NULL}'::int[] order by id
select id from kt where v < '{NULL}'::int[] order by id
select id from kt where v >= '{NULL}'::int[] order by id
select id from kt where v > '{NULL}'::int[] order by id
select id from kt where v <= '{NULL}'::int[] order by id
select id from kt where v <> '{NULL}'::int[] order by id
select count(*) from kt where v in ('{NULL}'::int[], '{1}'::int[])
select 1
select id from kt where v = '[0:1]={1,2}'::int[] order by id
select id from kt where v < '[0:1]={1,2}'::int[] order by id
select id from kt where v >= '[0:1]={1,2}'::int[] order by id
select id from kt where v > '[0:1]={1,2}'::int[] order by id
select id from kt where v <= '[0:1]={1,2}'::int[] order by id
select id from kt where v <> '[0:1]={1,2}'::int[] order by id
select count(*) from kt where v in ('[0:1]={1,2}'::int[], '{1}'::int[])
select 1
select id from kt where v = '{{1},{2}}'::int[] order by id
select id from kt where v < '{{1},{2}}'::int[] order by id
select id from kt where v >= '{{1},{2}}'::int[] order by id
select id from kt where v > '{{1},{2}}'::int[] order by id
select id from kt where v <= '{{1},{2}}'::int[] order by id
select id from kt where v <> '{{1},{2}}'::int[] order by id
select count(*) from kt where v in ('{{1},{2}}'::int[], '{1}'::int[])
select 1
select id, v from kt where v is not null order by v, id
select id, v from kt where v is not null order by v desc, id
select min(id), count(*) from kt group by v order by v
select count(distinct v) from kt
select x.id, y.id from kt x join kt y on x.v = y.v where x.id < y.id order by 1, 2

create table kt (id int primary key, v numeric[])
insert into kt select g, null::numeric[] from generate_series(1001,1400) g
insert into kt values (1, '{1}'), (2, '{1.0}'), (3, '{1.00,2}'), (4, '{}'), (5, '{NaN}'), (6, '{-1}')
insert into kt values (101, '{-1}'), (102, '{NaN}'), (103, '{}'), (104, '{1.00,2}'), (105, '{1.0}'), (106, '{1}')
create index on kt (v, id)
create index on kt (v desc, id)
analyze kt
select id from kt where v = '{1}'::numeric[] order by id
select id from kt where v < '{1}'::numeric[] order by id
select id from kt where v >= '{1}'::numeric[] order by id
select id from kt where v > '{1}'::numeric[] order by id
select id from kt where v <= '{1}'::numeric[] order by id
select id from kt where v <> '{1}'::numeric[] order by id
select count(*) from kt where v in ('{1}'::numeric[], '{1}'::numeric[])
select 1
select id from kt where v = '{1.0}'::numeric[] order by id
select id from kt where v < '{1.0}'::numeric[] order by id
select id from kt where v >= '{1.0}'::numeric[] order by id
select id from kt where v > '{1.0}'::numeric[] order by id
select id from kt where v <= '{1.0}'::numeric[] order by id
select id from kt where v <> '{1.0}'::numeric[] order by id
select count(*) from kt where v in ('{1.0}'::numeric[], '{1}'::numeric[])
select 1
select id from kt where v = '{1.00,2}'::numeric[] order by id
select id from kt where v < '{1.00,2}'::numeric[] order by id
select id from kt where v >= '{1.00,2}'::numeric[] order by id
select id from kt where v > '{1.00,2}'::numeric[] order by id
select id from kt where v <= '{1.00,2}'::numeric[] order by id
select id from kt where v <> '{1.00,2}'::numeric[] order by id
select count(*) from kt where v in ('{1.00,2}'::numeric[], '{1}'::numeric[])
select 1
select id from kt where v = '{}'::numeric[] order by id
select id from kt where v < '{}'::numeric[] order by id
select id from kt where v >= '{}'::numeric[] order by id
select id from kt where v > '{}'::numeric[] order by id
select id from kt where v <= '{}'::numeric[] order by id
select id from kt where v <> '{}'::numeric[] order by id
select count(*) from kt where v in ('{}'::numeric[], '{1}'::numeric[])
select 1
select id from kt where v = '{NaN}'::numeric[] order by id
select id from kt where v < '{NaN}'::numeric[] order by id
select id from kt where v >= '{NaN}'::numeric[] order by id
select id from kt where v > '{NaN}'::numeric[] order by id
select id from kt where v <= '{NaN}'::numeric[] order by id
select id from kt where v <> '{NaN}'::numeric[] order by id
select count(*) from kt where v in ('{NaN}'::numeric[], '{1}'::numeric[])
select 1
select id from kt where v = '{-1}'::numeric[] order by id
select id from kt where v < '{-1}'::numeric[] order by id
select id from kt where v >= '{-1}'::numeric[] order by id
select id from kt where v > '{-1}'::numeric[] order by id
select id from kt where v <= '{-1}'::numeric[] order by id
select id from kt where v <> '{-1}'::numeric[] order by id
select count(*) from kt where v in ('{-1}'::numeric[], '{1}'::numeric[])
select 1
select id, v from kt where v is not null order by v, id
select id, v from kt where v is not null order by v desc, id
select min(id), count(*) from kt group by v order by v
select count(distinct v) from kt
select x.id, y.id from kt x join kt y on x.v = y.v where x.id < y.id order by 1, 2

create table kt (id int primary key, v interval[])
insert into kt select g, null::interval[] from generate_series(1001,1400) g
insert into kt values (1, '{1 mon}'), (2, '{30 days}'), (3, '{1 day}')
insert into kt values (101, '{1 day}'), (102, '{30 days}'), (103, '{1 mon}')
create index on kt (v, id)
create index on kt (v desc, id)
analyze kt
select id from kt where v = '{1 mon}'::interval[] order by id
select id from kt where v < '{1 mon}'::interval[] order by id
select id from kt where v >= '{1 mon}'::interval[] order by id
select id from kt where v > '{1 mon}'::interval[] order by id
select id from kt where v <= '{1 mon}'::interval[] order by id
select id from kt where v <> '{1 mon}'::interval[] order by id
select count(*) from kt where v in ('{1 mon}'::interval[], '{1 mon}'::interval[])
select 1
select id from kt where v = '{30 days}'::interval[] order by id
select id from kt where v < '{30 days}'::interval[] order by id
select id from kt where v >= '{30 days}'::interval[] order by id
select id from kt where v > '{30 days}'::interval[] order by id
select id from kt where v <= '{30 days}'::interval[] order by id
select id from kt where v <> '{30 days}'::interval[] order by id
select count(*) from kt where v in ('{30 days}'::interval[], '{1 mon}'::interval[])
select 1
select id from kt where v = '{1 day}'::interval[] order by id
select id from kt where v < '{1 day}'::interval[] order by id
select id from kt where v >= '{1 day}'::interval[] order by id
select id from kt where v > '{1 day}'::interval[] order by id
select id from kt where v <= '{1 day}'::interval[] order by id
select id from kt where v <> '{1 day}'::interval[] order by id
select count(*) from kt where v in ('{1 day}'::interval[], '{1 mon}'::interval[])
select 1
select id, v from kt where v is not null order by v, id
select id, v from kt where v is not null order by v desc, id
select min(id), count(*) from kt group by v order by v
select count(distinct v) from kt
select x.id, y.id from kt x join kt y on x.v = y.v where x.id < y.id order by 1, 2
