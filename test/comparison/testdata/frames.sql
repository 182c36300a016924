-- RANGE frames with offsets, over all types that have them.
create table ev (id int, d date, ts timestamp, tz timestamptz, tm time, ttz timetz, iv interval, f4 float4, f8 float8, n numeric, i2 int2, i8 int8)
insert into ev select g, date '2000-01-01' + g, timestamp '2000-01-01' + g * interval '1 day', timestamptz '2000-01-01 00:00+00' + g * interval '12 hours', time '00:00' + g * interval '1 hour', timetz '00:00+00' + g * interval '1 hour', g * interval '1 day', g, g, g, g, g from generate_series(1,6) g
insert into ev values (7)
insert into ev values (8, 'infinity','infinity','infinity',null,null,null,'infinity','infinity','infinity',7,null),(9,'-infinity','-infinity','-infinity',null,null,null,'-infinity','-infinity','-infinity',8,null),(10,null,null,null,null,null,null,'nan','nan','nan',9,9223372036854775807)
select id, count(*) over (order by d range between '1 day' preceding and '2 days' following), sum(id) over (order by d range between '1 day' preceding and '2 days' following) from ev order by d, id
select id, sum(id) over (order by d desc range between '1 day' preceding and '2 days' following) from ev order by d desc, id
select id, sum(id) over (order by ts range between interval '1 day' preceding and interval '1 day' following) from ev order by ts, id
select id, sum(id) over (order by tz range between interval '1 day' preceding and current row) from ev order by tz, id
select id, sum(id) over (order by tm range between interval '1 hour' preceding and interval '90 minutes' following) from ev order by tm, id
select id, sum(id) over (order by ttz range between interval '1 hour' preceding and interval '90 minutes' following) from ev order by ttz, id
select id, sum(id) over (order by iv range between interval '1 day' preceding and interval '24 hours' following) from ev order by iv, id
select id, sum(id) over (order by f4 range between 1.1 preceding and 1 following) from ev order by f4, id
select id, sum(id) over (order by f8 range between 1.1 preceding and 1 following) from ev order by f8, id
select id, sum(id) over (order by f8 range between 'inf' preceding and 1 following) from ev order by f8, id
select id, sum(id) over (order by f8 range between 'inf' following and 'inf' following) from ev order by f8, id
select id, sum(id) over (order by n range between 1.1 preceding and 1 following) from ev order by n, id
select id, sum(id) over (order by n range between 'inf' preceding and 1 following) from ev order by n, id
select id, sum(id) over (order by n desc nulls last range between 1.1 preceding and 1 following) from ev order by n desc nulls last, id
select id, sum(id) over (order by i2 range between 1 preceding and 1 following) from ev order by i2, id
select id, sum(id) over (order by i8 range between 1 preceding and 1 following) from ev order by i8, id
select count(*) over (order by d range between '-1 day' preceding and current row) from ev
select count(*) over (order by ts range between interval '-1 day' preceding and current row) from ev
select count(*) over (order by tz range between current row and interval '-1 day' following) from ev
select count(*) over (order by tm range between '-1 h' preceding and current row) from ev
select count(*) over (order by iv range between '-1 h' preceding and current row) from ev
select count(*) over (order by f8 range between -1 preceding and current row) from ev
select count(*) over (order by f8 range between 'nan' preceding and current row) from ev
select count(*) over (order by n range between -1 preceding and current row) from ev
select count(*) over (order by n range between 'nan' preceding and current row) from ev
select count(*) over (order by id range between -1 preceding and current row) from ev
select count(*) over (order by id rows between -1 preceding and current row) from ev
select count(*) over (order by id range between null preceding and current row) from ev
select count(*) over (order by id rows between null preceding and current row) from ev
select count(*) over (order by d range between null preceding and current row) from ev
select count(*) over (order by d range between 1 preceding and current row) from ev
select count(*) over (order by d range between 1.5 preceding and current row) from ev
select count(*) over (order by ts range between 1 preceding and current row) from ev
select count(*) over (order by f8 range between '1 day'::interval preceding and current row) from ev
select count(*) over (order by id::text range between 1 preceding and current row) from ev
select count(*) over (order by id::text range between 'x' preceding and current row) from ev
select count(*) over (order by i2 range between 1.5 preceding and current row) from ev
select count(*) over (order by n range between 1 preceding and current row) from ev
select count(*) over (order by n range between 1.5::float8 preceding and current row) from ev
select count(*) over (order by f4 range between 1::float4 preceding and current row) from ev
select count(*) over (order by id range between 'x' preceding and current row) from ev
select count(*) over (order by d range between 'x' preceding and current row) from ev
select count(*) over (order by id range between id preceding and current row) from ev
select count(*) over (order by array[id] range between 1 preceding and current row) from ev
select count(*) over (order by id = 1 range between 1 preceding and current row) from ev
select count(*) over (order by id range between '1 day'::interval preceding and current row) from ev
select count(*) over (order by d range between interval '1 mon' preceding and interval '-1 mon' following) from ev
select count(*) over (order by i8 range between 1::int2 preceding and 1::int8 following) from ev
select count(*) over (order by i2 range between 1::int2 preceding and 1::int4 following) from ev
select count(*) over (order by id::oid range between 1 preceding and current row) from ev
select id, sum(id) over (order by tz range between interval '1 mon 1 day' preceding and interval '1 day' following) from ev order by tz, id
select id, sum(id) over (order by tm range between interval '1 day' preceding and interval '2 mons' following) from ev order by tm, id
select id, sum(id) over (order by tm desc range between interval '23:00' preceding and interval '23:00' following) from ev order by tm desc, id
select id, sum(id) over (order by tm nulls first range between interval '2 hours' preceding and interval '1 hour' preceding) from ev order by tm nulls first, id
select id, sum(id) over (order by iv range between interval '30 days' preceding and interval '1 mon' following) from ev order by iv, id
select id, sum(id) over (order by ts range between unbounded preceding and interval '1 day' preceding) from ev order by ts, id
select count(*) over (order by ts range between interval '300000 years' preceding and current row) from ev where ts > '-infinity'
select id, sum(id) over (order by n range between 'inf' preceding and 'inf' preceding) from ev order by n, id
select id, sum(id) over (order by n range between 'inf' following and 'inf' following) from ev order by n, id
select id, sum(id) over (order by f8 desc range between 'inf' preceding and 'inf' preceding) from ev order by f8 desc, id
select id, sum(id) over (order by i8 desc range between 9223372036854775807 preceding and 0 following) from ev order by i8 desc, id
select count(*) over (order by n range between '-inf' preceding and current row) from ev
select count(*) over (order by ttz range between interval '-1 h' preceding and current row) from ev
select count(*) over (order by tm range between interval '-1 day' preceding and current row) from ev where tm is not null
select id, sum(id) over (order by d range between time '12:00' preceding and time '23:00' following) from ev order by d, id
select sum(n) over (partition by id % 2 order by d range between '1 day' preceding and '3 days' following) from ev order by id
