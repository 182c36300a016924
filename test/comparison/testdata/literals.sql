-- Literals without a type are read by the input function of the type that they get, and mean now what they say.
create table t(ts timestamp, tz timestamptz, d date, ti time, tt timetz)
insert into t(ts,d) values ('now','today')
insert into t(ts,d) values ('today','tomorrow'), ('epoch', 'yesterday')
insert into t(ts,d,tz,ti,tt) select 'infinity', '-infinity', 'infinity', 'allballs', 'allballs'
insert into t(tz,ti) values ('now','now')
select ts = 'now'::timestamp, d = current_date, tz = now(), ti = localtime, tt, extract(year from ts) > 1999 from t
select count(*) from t where ts > 'yesterday'
select count(*) from t where d = 'today'
select count(*) from t where d between 'yesterday' and 'tomorrow'
select count(*) from t where d in ('today', 'tomorrow')
select count(*) from t where d = any('{today,tomorrow}')
update t set d = 'epoch', ts = 'epoch', ti = 'allballs'
select ts, d, ti from t limit 1
update t set d = 'tomorrow', ts = 'now'
select d - current_date, ts <= now() from t limit 1
insert into t(ts) values (default), ('now')
select coalesce(ts, 'now') is not null, case when true then 'now' else ts end <= now()::timestamp from t
select d from t union select 'epoch' order by 1 limit 1
select date_trunc('day', 'epoch'::timestamp), age('2020-01-01', '2019-01-01'::timestamp)
select 'today' = current_date, 'now' <= now(), 'tomorrow'::date - current_date, 'today'::timestamptz = current_date
values ('epoch'::date), ('1999-01-01')
prepare p(timestamp) as select $1
execute p('epoch')
prepare q as select $1 = 'today'::date
execute q('today')
select date 'now' = current_date, timestamp 'epoch', time 'allballs', timestamptz 'infinity'
create table dd(a timestamp default 'now', b date default 'today', c timestamptz default 'epoch', d text default 'now', e timestamp default 'now'::timestamp, f timestamp default now(), g timestamp default 'now'::text::timestamp)
insert into dd default values
select a is not null, a = e, c, d, b = current_date from dd
insert into dd(a) values ('now') on conflict do nothing
insert into dd(a) select 'now' union all select 'epoch'
insert into t(ts) select x from (values ('now'),('epoch')) v(x)
select extract(epoch from timestamp 'epoch'), date_part('year', 'epoch'::timestamp)
select 'epoch' + interval '1 day'
select 'epoch' - date '1970-01-02'
select date '1970-01-02' - 'epoch'
select '5' + 3, 3 + '5', '5' * '3'
select '1' || 2, 'a' || null, 1 || 'x'
select 1 = '1', '1' = 1.0, 'x' = 'x'
select 1 = 'x'
select true = 't', true and 'yes'
select 1 union select 'a'
select 1 union select '2' order by 1
select case when true then '1' else 2 end, coalesce(null, '7', 8), nullif('1', 2)
select greatest('1', 2), least(1, '0')
select array[1, '2', null], array['1', 2.5]
select '{1,2}' = array[1,2], array[1,2] || '3', array[1,2] || '{3}', '{3}' || array[1]
select substring('abc', '2'), left('abc', '2'), repeat('a', '3'), round('2.567', '1'), abs('-5'), sqrt('4')
select length('abc'), upper('x'), to_char('5', '999'), sum('5'), avg('5'), max('a'), count('x')
select to_char('2020-01-01', 'YYYY'), extract(year from '2020-01-01')
select date_part('year', '2020-01-01'), date_trunc('month', '2020-01-15')
select age('2020-01-01', '2019-01-01'), age('2020-01-01')
select '1 day' + now() > now(), now() + '1 day' > now(), now() - '1 day' < now(), date '2020-01-01' + '1'
select interval '1 day' * '2', '2' * interval '1 day', 2 * interval '1 day', '10' / 2, 7 % '4'
select $$a$$ like 'a', 'a' ~ 'a', '{"a":1}'::jsonb -> 'a', '{"a":1}'::jsonb ->> 'a', '[1,2]'::jsonb -> '0', '[1,2]'::jsonb @> '1'
select format('%s', 'x'), concat('a', 1, null), concat_ws(',', 'a', 'b'), quote_literal('x'), quote_nullable(null)
select 'a' in ('a', 'b'), 1 in ('1', 2), '1' in (1, 2), null in (1)
select 'now'::text, 'now'::varchar::timestamp is null, cast('now' as text)
select (select 'now')::timestamp <= now(), (select 'x') || 'y'
select * from (select 'a' as x, null as y) s
select x || 'b' from (select 'a' as x) s
select x + 1 from (select '1' as x) s
create table u as select 'a' as x, null as y, 1.5 as z
select * from u
create view vv as select 'a' as x, 'now'::timestamp as y
select x, y <= now() from vv
select lead(x, 1, 'z') over () from (values ('a'), ('b')) v(x)
select string_agg(x, ',') from (values ('a'), ('b')) v(x)
