-- Constant parts that fail, and those that AND, OR, CASE and COALESCE leave out, by a protocol that takes literals out of the text.
create table ce (x int, y bigint, s text)
insert into ce values (1,1,'a'),(2,2,'b')
create view cv as select x, y, s from ce
select 2147483647 + 1 from ce where x > 5
select 2147483647 + 1 from cv where x > 5
select 2147483647 + 1
select 2147483647 + 1 from ce where false
select 1/0 from ce where x > 5
select 1/0 from cv where x > 5
select 2147483647 + 1 + x from ce where x > 5
select x + 2147483647 + 1 from ce where x > 5
select x from ce where x > 5 and 2147483647 + 1 > 0
select x from ce where 2147483647 + 1 > x
select 2147483647 * 2 from ce where x > 5
select -2147483648 - 1 from ce where x > 5
select 32767::int2 + 1::int2 from ce where x > 5
select 9223372036854775807 + 1 from ce where x > 5
select abs(-2147483648) from ce where x > 5
select 2147483648::int from ce where x > 5
select 'x'::int from ce where x > 5
select 1e308::float8 * 10 from ce where x > 5
select sqrt(-1) from ce where x > 5
select ln(0) from ce where x > 5
select 10 % 0 from ce where x > 5
select date '2000-01-01' + 2147483647 from ce where x > 5
select interval '178000000 years' * 2 from ce where x > 5
select substring('a' from 1 for -1) from ce where x > 5
select chr(-1) from ce where x > 5
select repeat('a', 3) || 1/0 from ce where x > 5
select '{1'::int[] from ce where x > 5
select (array[1,2])[1/0] from ce where x > 5
select array[1, 1/0] from ce where x > 5
select row(1, 1/0) from ce where x > 5
select case when x > 3 then 1/0 else 0 end from ce where x > 5
select coalesce(x, 1/0) from ce where x > 5
select coalesce(null, 1/0) from ce where x > 5
select nullif(1/0, 1) from ce where x > 5
select greatest(1, 1/0) from ce where x > 5
select 1/0 = any(array[1]) from ce where x > 5
select x in (1, 1/0) from ce where x > 5
select sum(1/0) from ce where x > 5
select count(1/0) from ce where x > 5
select sum(2147483647 + 1) from ce where x > 5
select x from ce where x > 5 order by 1/0
select x from ce where x > 5 group by x, 1/0
select x from ce where x > 5 group by x having 1/0 > 1
select x from ce where x > 5 limit 1/0
select x from ce where x > 5 limit 2147483647 + 1
select x from ce where x > 5 offset 1/0
select (select 1/0 from ce where x > 5) from ce where x > 6
select x from ce where exists (select 1 from ce where 1/0 > x) and x > 5
select * from (select 2147483647 + 1 as q from ce where x > 5) s
update ce set x = 2147483647 + 1 where x > 5
update ce set x = 1/0 where x > 5
insert into ce select 2147483647 + 1 from ce where x > 5
delete from ce where x > 5 and 2147483647 + 1 > 0
select x from ce where x > 5 and y > 2147483647 + 1
select row_number() over (order by 1/0) from ce where x > 5
select lag(2147483647 + 1) over (order by x) from ce where x > 5
select x from ce where x > 5 union all select 2147483647 + 1
select x, 2147483647 + 1 from ce where x > 5 union all select 1, 1
select 'a' || (1/0)::text from ce where x > 5
select x::text || (2147483647 + 1) from ce where x > 5
select cast(300 as "char") from ce where x > 5
select 100000::int2 from ce where x > 5
select 1.5e40::float4 from ce where x > 5
select '2000-13-01'::date from ce where x > 5
select 123456::numeric(3) from ce where x > 5
select 'abc'::varchar(2)::int from ce where x > 5
select now() + interval '1 day' * 1e300 from ce where x > 5
select random() + 1/0 from ce where x > 5
select x + 1/0 from ce where x > 5
select x / 0 from ce where x > 5
select x / (1-1) from ce where x > 5
select y from ce where s = 'zz' and 2147483647 + 1 = 1
select 2147483647 + 1 as z from ce where x > 5 and s like 'q%' order by 1
select distinct 2147483647 + 1 from ce where x > 5
select a.x from ce a join ce b on a.x = b.x and 2147483647 + 1 = 1 where a.x > 5
select a.x from ce a left join ce b on 1/0 = 1 where a.x > 5
select max(2147483647 + 1) over () from ce where x > 5
values (2147483647 + 1), (1)
select 1 where 2147483647 + 1 > 1
select x from ce where x > 5 and (false or 2147483647 + 1 > 1)
select x from ce where x > 5 and (true or 2147483647 + 1 > 1)
select x from ce where false and 2147483647 + 1 > 1
select 5 from ce where x = 2147483647 + 1
select to_char(1/0, '9') from ce where x > 5
select 2147483647 + 1 from ce limit 0
select x from ce where 1 = 1 or 1/0 = 1 order by x
select x from ce where 1 = 2 and 1/0 = 1
select x from ce where 1 = 2 or 1/0 = 1
select x from ce where x = 7 or 1/0 = 1
select x from ce where x = 7 and 1/0 = 1
select x from ce where 'a' = 'a' or 1/0 = 1 order by x
select x from ce where 'a' = 'b' and 1/0 = 1
select x from ce where (1) = 1 or 1/0 = 1 order by x
select x from ce where lower('A') = 'a' or 1/0 = 1 order by x
select x from ce where length('abc') > 2 or 1/0 = 1 order by x
select x from ce where 1 + 1 = 2 or 1/0 = 1 order by x
select x from ce where 5 - 3 = 2 or 1/0 = 1 order by x
select x from ce where true = true or 1/0 = 1 order by x
select x from ce where int '5' = 5 or 1/0 = 1 order by x
select x from ce where '5'::int = 5 or 1/0 = 1 order by x
select x from ce where case when true then 1 end = 1 or 1/0 = 1 order by x
select x from ce where date '2000-01-01' = '2000-01-01' or 1/0 = 1 order by x
select x from ce where '1'::double precision = 1 or 1/0 = 1 order by x
select case when 1 = 1 then 5 else 1/0 end from ce
select case when 1 = 2 then 1/0 else 5 end from ce
select case 1 when 1 then 5 else 1/0 end from ce
select x + 1 = 2 from ce
select x from ce where x + 1 = 2
select x from ce where y = 1 and x - 1 = 0
select count(*) from ce having count(*) > 1
select count(*) + 1 from ce
select max(x) - 1 from ce
select x from ce where s = 'a' or s = 'b' order by x
select x from ce where (x) = 1
select x from ce where ce.x = 1
select x from ce where public.ce.x = 1
select x from ce where "x" = 1
select x from ce where coalesce(x, 0) = 1
update ce set x = x + 1 where x = 1
update ce set y = y - 1, x = x - 1 where s = 'a' returning *
select x from ce where x % 2 = 1
select x from ce where not x = 1 or x > 3
select x + 2147483647 from ce where x = 9
select x + 2147483647 from ce
select current_date - 1 < current_date, 1 from ce where x = 1
select x from ce where x between 1 and 1 + 1 order by x
select x, 3 - 1 from ce order by 2 - 1, x
select 'x' = 'x', 'a' || 'b' = 'ab'
insert into ce values (3 + 1, 4 - 1, 'c') returning *
insert into ce values (2147483647 + 1)
insert into ce select 2147483647 + 1 where 1 = 2
insert into ce select 2147483647 + 1 where false
delete from ce where x = 4 and y = 3 returning s
select 1/0 from ce where 1 = 2
select 1/0 where false
select x from ce where x = 1 and 1 = 2 and 1/0 = 1
select x from ce where x = 2147483647 - -1
select x from ce where x < 2147483647 - -1

-- UNKNOWN is a truth value, and functions of windows need a type.
select null is unknown, true is not unknown, (1 = null) is unknown, not (1 = 1) is unknown
select 5 is unknown
select 'x' is unknown
select 5 is not unknown
select 5 is true
select 5 is not true
select 5 is not false
select 't' is unknown, null::bool is not unknown
create table ub (b bool, i int)
insert into ub values (true,1),(false,2),(null,3)
select i from ub where b is unknown
select i from ub where b is not unknown order by i
select i from ub where (i > 2) is unknown
select i from ub where b is unknown = true
select i from ub where b is unknown and i > 1
select i from ub where b is unknown is false order by 1
create view uv as select b is unknown as u, b is not unknown as n from ub
select * from uv
create table uc (b bool check (b is not unknown), g bool generated always as (b is unknown) stored)
insert into uc values (null)
insert into uc values (true) returning *
select i from ub where ub is unknown
select 1 as unknown
select unknown from (select 1 as unknown) s
select null::unknown is unknown
select case when b is unknown then 1 else 2 end from ub order by i
select lag('a') over ()
select first_value(null) over ()
select lag('a'::text) over (), lag('a', 1, 'b') over ()
select nth_value('a', 1) over ()
prepare unknown1 as select $1 is unknown, $2 is not unknown
select parameter_types from pg_prepared_statements where name = 'unknown1'
execute unknown1(null, null)
execute unknown1(1, true)
deallocate unknown1
prepare unknown2 as select lag($1) over ()
prepare unknown2 as select lag($1, 1, 5) over (), first_value($2::int) over ()
select parameter_types from pg_prepared_statements where name = 'unknown2'
deallocate unknown2

-- A statement with a part that fails can be prepared.
create table ce (x int)
prepare fails1 as select 1/0 as q, x from ce where x > $1
select parameter_types from pg_prepared_statements where name = 'fails1'
execute fails1(1)
execute fails1(1, 2)
execute fails1('x')
explain execute fails1(1)
alter table ce add column y int
execute fails1(1)
deallocate fails1
prepare fails2 as insert into ce values (2147483647 + 1)
execute fails2
deallocate fails2
begin
declare c cursor for select 1/0
rollback
explain select 1/0 from ce

-- A definition that runs a query fails with the error of its part.
create table vw (a int)
create table x1 as select 1 + 2147483647 as "Q" from vw
create materialized view x2 as select date '2020-01-01' - 2147483647
copy (select 1 + 2147483647 from vw) to stdout
create view x3 as select 1 + 2147483647 as "Q" from vw
select * from x3
insert into vw select 1 + 2147483647 from vw
