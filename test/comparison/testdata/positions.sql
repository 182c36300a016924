-- Errors with their positions.
create table t (a int, b text, c int, "Mixed" int)
create table u (a int, d text, Id int)
select A, b, zz from t
select a, ZZ from t where ZZ > 1
select Zz from t
select "Zz" from t
select a + 1, b + c from t
select a+1+2, a+2+b from t
select * from t where a = 1 and b = 2
select * from t where a = 1 and b = c
select * from t where 1 = a and c = 2 and c = b
select * from t where a = 'x'
select 'a', 'a'::int
select 'a' || 'b', int 'a'
select '1'::int, 'b'::int, 'c'::text
insert into t values (1,'a',2),(3,'b','q')
insert into t(a, b, zz) values (1,2,3)
insert into t(a, a) values (1,2)
insert into t(a) values (1,2)
insert into t(a,b) values (1)
update t set zz = 1
update t set a = 'x'
update t set a = 1, b = 2, c = zz
update t set a = b
update t set c = 1, a = b
delete from t where zz = 1
select nofunc(1), 2
select Nofunc(1), 2
select lower(1), upper(a) from t
select length(b), length(a) from t
select count(*), a from t
select a, count(*) from t group by b
select b, A from t group by b
select a from t group by a having c > 1
select a from t where count(*) > 1
select a from t order by zz
select a from t order by a, Zz
select t.a, t.zz from t
select x.a from t
select a, x.* from t
select t.a from t x
select a from t, u
select t.a from t, u where t.a = u.zz
select * from t join u using (zz)
select * from t join u using (b)
select * from t join u on t.b = u.a
select * from nosuch
select * from t, Nosuch
select * from "t", public.nosuch
select case when a then 1 end from t
select case a when 1 then 2 else 'x' end from t
select case when a = 1 then 1 else b end from t
select coalesce(1, a, b) from t
select coalesce(a, 'x') from t
select nullif(a, b) from t
select greatest(a, b) from t
select a in (1, 2, b) from t
select a in (1, 'x') from t
select a in (select b from t) from t
select a = any (select b from t) from t
select a = any (b) from t
select a = all ('{1,x}') from t
select (select a, b from t)
select a from t where a
select a from t where not a
select a from t where a and true
select a from t where true or b
select not b from t
select -b from t
select - 'x' from t
select a::date from t
select cast(a as date) from t
select a::nosuch from t
select cast (a as nosuch) from t
select a is null, b is true from t
select a is true from t
select a between 1 and b from t
select a between 'x' and 3 from t
select b like a from t
select a like 'x' from t
select array[1, 'x']
select array[1, b] from t
select a[1] from t
select (a).x from t
select row(1,2) = row(1)
select row(1,2) = row(1,'x')
select (1,b) = (2,3) from t
select (1, a) < (b, 2) from t
select a from t union select b from t
select a from t union select a, b from t
select a, c from t union select a, b from t
select sum(b) from t
select sum(sum(a)) from t
select rank() from t
select rank() over (order by zz) from t
select sum(a) over w from t
select a from t where rank() over () > 1
select a from t limit 'x'
select a from t limit a
select a from t limit 1 offset 'y'
select distinct on (zz) a from t
select distinct on (a) a, b from t order by b
select distinct a from t order by b
select a from t order by 3
select a from t group by 3
with w as (select zz from t) select * from w
with w(x, y, z) as (select a from t) select * from w
select * from (select a from t) q(x, y)
select q.zz from (select a from t) q
values (1, 2), (3)
values (1, 2), (3, 'x')
select * from t where exists (select zz from u)
select generate_series(1, 'x')
select a from t where generate_series(1,2) = 1
select * from generate_series(1, b), t
select * from t, lateral (select zz) q
select t.* as x from t
select interval 'abc'
select date '2020-13-01'
select timestamp 'x', 1
select '{1,2'::int[]
select E'a\'b'::int
select 'a''b'::int
select $$abc$$::int
select 1 = true
select true + 1
select null + 'a' + true
select 1 + null + true
select 1 @@@ 2
select a ~~~ b from t
select substring(a from 1) from t
select extract(foo from now())
select extract(year from 'x')
select position(1 in 'abc')
select overlay('abc' placing 1 from 2)
select trim(1)
select 1::varchar(0)
