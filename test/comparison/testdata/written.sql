-- ORDER BY, GROUP BY and DISTINCT ON with expressions of the select list: subqueries, windows, volatile functions; keys of aggregates with DISTINCT.
create table d1(a int, b int, s varchar, t text, arr int[])
insert into d1 values (1,2,'x','p','{1,2}'),(1,3,'y','q','{3}'),(2,2,'x','p','{2}'),(3,null,null,null,null)
select distinct on ((select 1)) a from d1 order by (select 1), a
select distinct on ((select max(b) from d1 x where x.a = d1.a)) a from d1 order by (select max(b) from d1 x where x.a = d1.a), a
select distinct on (a = any(arr)) a, a = any(arr) from d1 order by a = any(arr), a
select a = any(arr), count(*) from d1 group by a = any(arr) order by a = any(arr)
select (select max(b) from d1 x where x.a = d1.a), count(*) from d1 group by (select max(b) from d1 x where x.a = d1.a) order by (select max(b) from d1 x where x.a = d1.a)
select distinct (select 1), a from d1 order by (select 1), a
select distinct (select max(b) from d1 x where x.a=d1.a) from d1 order by (select max(b) from d1 x where x.a=d1.a)
select a in (1,2), count(*) from d1 group by a in (1,2) order by a in (1,2)
select a in (select b from d1), count(*) from d1 group by a in (select b from d1) order by a in (select b from d1)
select exists(select 1 from d1 x where x.b = d1.a), count(*) from d1 group by exists(select 1 from d1 x where x.b = d1.a) order by exists(select 1 from d1 x where x.b = d1.a)
select array(select 1), count(*) from d1 group by array(select 1)
select a > all(arr), count(*) from d1 group by a > all(arr) order by 1
select distinct on (a in (select b from d1)) a from d1 order by a in (select b from d1), a desc
select string_agg(distinct s, ',' order by s) from d1
select string_agg(distinct s, ',' order by s, s) from d1
select string_agg(distinct s::text, ',' order by s) from d1
select string_agg(distinct s, ',' order by s::text) from d1
select string_agg(distinct t, ',' order by t, t desc) from d1
select array_agg(distinct a order by a, a desc) from d1
select array_agg(distinct a order by a+0) from d1
select array_agg(distinct (a+1) order by a+1) from d1
select array_agg(distinct a order by 1) from d1
select count(distinct (a,b)) from d1
select string_agg(distinct s, t order by s, t) from d1
select string_agg(distinct s, t order by t, s) from d1
select string_agg(distinct s, t order by t) from d1
select json_agg(distinct s order by s) from d1
select jsonb_agg(distinct s order by s) from d1
select jsonb_agg(distinct s order by s desc nulls last) from d1
select string_agg(distinct a::text, ',' order by a::text) from d1
select string_agg(distinct a::text, ',' order by a) from d1
with recursive r as (select a from d1 order by a limit 2), q(n) as (select 1 union all select n+1 from q where n < 3) select * from r, q order by 1,2
with recursive r as (select a from d1 order by a limit 2) select * from r
with recursive q(n) as ((select 1 order by 1) union all select n+1 from q where n < 3) select * from q
with recursive q(n) as (select 1 union all (select n+1 from q where n < 3 order by 1)) select * from q
with recursive q(n) as (select 1 union all select n+1 from q where n < 3 order by 1) select * from q
with recursive q(n) as (select 1 union all select n+1 from q where n < 3 limit 2) select * from q
with recursive q(n) as (select 1 union all select n+1 from (select n from q order by n) z where n < 3) select * from q
with recursive q(n) as ((select a from d1 order by a limit 1) union all select n+1 from q where n < 3) select * from q
with recursive q(n) as ((values (1),(2) order by 1 limit 1) union all select n+1 from q where n < 3) select * from q
with recursive r as (select 1 as x union select 2 order by 1), q(n) as (select x from r union all select n+1 from q where n < 3) select * from q order by 1
with recursive q(n) as (select 1 union all select n+1 from q where n < 3), r as (select * from q order by n desc limit 1) select * from r
with recursive q(n) as (select 1 union all (select n+1 from q where n < 3 limit 1)) select * from q
with recursive q(n) as (select 1 union all (select n+1 from q where n < 3 for update)) select * from q
with recursive q(n) as (select 1 union all select n+1 from q where n < 3 for update) select * from q
with recursive q(n) as (select 1 union all select n+1 from q where n < 3 offset 1) select * from q
with recursive q(n) as (select 1 union all (values (1) order by 1)) select * from q
with recursive r(n) as (select 1), q(n) as (select n from r union all select n+1 from q where n < 3) select * from q order by n desc limit 2
select a, (select 1) from d1 group by a, (select 1) having (select 1) = 1 order by a
select (select d1.a), count(*) from d1 group by (select d1.a) order by (select d1.a)
select (select d1.a + 1), count(*) from d1 group by a order by (select d1.a + 1)
select distinct on (s) s, t from d1 order by s, t
select distinct on (s::text) s from d1 order by s::text
select distinct on (lower(s)) s from d1 order by lower(s), s
select distinct on (1) a from d1 order by a
select distinct on (a, b) a from d1 order by b, a
select distinct on (a, b) a from d1 order by b, t, a
select distinct on (a) a from d1 order by b
select distinct on (a+b) a from d1 order by a+b, a
select distinct a+b from d1 order by a+b
select distinct a from d1 order by b
select distinct s from d1 order by s::text
select distinct case when a = any(arr) then 1 else 2 end from d1 order by case when a = any(arr) then 1 else 2 end
select distinct row(a,b) from d1 order by row(a,b)
select distinct arr[1] from d1 order by arr[1]
select distinct array[a,b] from d1 order by array[a,b]
select distinct coalesce(a,(select 1)) from d1 order by coalesce(a,(select 1))
select distinct a is null, s like 'x%', t ~ 'p' from d1 order by a is null, s like 'x%', t ~ 'p'
select distinct a between 1 and 2, a not in (1,2), not (a = 1) from d1 order by a between 1 and 2, a not in (1,2), not (a = 1)
select a between 1 and 2, count(*) from d1 group by a between 1 and 2 order by 1
select s similar to 'x', count(*) from d1 group by s similar to 'x' order by s similar to 'x'
select extract(year from now()) > 0, count(*) from d1 group by extract(year from now()) > 0
select distinct row_number() over (order by a, b) from d1 order by row_number() over (order by a, b)
select distinct on (row_number() over (order by a,b)) a from d1 order by row_number() over (order by a,b)
select distinct on (sum(a)) sum(a) from d1 group by b order by sum(a)
select count(distinct x) from (select random() as x from generate_series(1, 5) order by random()) q
select x = lag(x) over () or x > lag(x) over () from (select random() as x from generate_series(1, 5) order by random()) q
select distinct random() < 2 from d1 order by random() < 2
select random() < 2, count(*) from d1 group by random() < 2
select (select max(b) from d1 x where x.a = d1.a) + 1, count(*) from d1 group by (select max(b) from d1 x where x.a = d1.a) order by 1
select (select max(b) from d1 x where x.a = d1.a) from d1 group by (select max(b) from d1 y where y.a = d1.a)
select (select max(b) from d1 x where x.a = d1.a) from d1 group by a order by (select max(b) from d1 x where x.a = d1.a) desc
select count(*) from d1 group by exists (select 1 from d1 x where x.b = d1.a) having exists (select 1 from d1 x where x.b = d1.a) order by 1
select (select count(*) from (select (select 1) from d1 group by (select 1)) q), (select 1) from d1 group by (select 1)
select sum(a) over w, sum(a) over w + 1, row_number() over w from d1 window w as (order by a, b) order by sum(a) over w desc, row_number() over w
select sum(a) over (order by a rows 1 preceding), sum(a) over (order by a rows 2 preceding), sum(a) over (order by a desc) from d1 order by 1, 2, 3
select distinct on (a) a, b from d1 order by a, b, a
select distinct on (b, a) a, b from d1 order by a, t, b
select string_agg(distinct s, ',' order by s, s) over () from d1
select string_agg(distinct s, ',' order by s, s) filter (where a = 1) from d1
select lower(s), string_agg(distinct t, '' order by t, lower(t)) from d1 group by lower(s)
create view d1v as select string_agg(distinct s, ',' order by s, s desc) as x, count(distinct a) from d1
select * from d1v
