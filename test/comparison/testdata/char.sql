-- Blanks of char(n): what sees them, and what does not.

create table c (a char(4), b bpchar, v varchar(5), t text, n int)
insert into c values ('ab', 'ab  ', 'ab ', 'ab', 1), ('ab  ', 'ab', 'ab', 'ab  ', 2), ('abcd', 'abcd', 'abcd', 'abcd', 3), ('', '', '', '', 4), (null, null, null, null, 5)
insert into c values ('ab      ', 'x', 'x', 'x', 6)
insert into c values ('abcde', 'x', 'x', 'x', 7)
select * from c order by n
select n, length(a), octet_length(a), length(b), octet_length(b), bit_length(b), char_length(a) from c order by n
select n, a = b, a = v, a = t, b = t, v = t, a < t, a is distinct from b from c order by n
select n, a || '|', '|' || b || '|', a || b, v || a from c order by n
select n, a like 'ab', a like 'ab  ', a like 'ab%', b like 'ab', a ~ '^ab$', a ~ 'b $', b similar to 'ab', a ilike 'AB  ' from c order by n
select n, a::text || '|', a::varchar || '|', a::name || '|', b::text || '|', a::char(2) || '|', a::char(6), a::"char" from c order by n
select max(a), min(a), max(b), min(b) from c
select a, count(*) from c group by a order by a
select b, count(*) from c group by b order by b
select distinct a from c order by 1
select count(distinct a), count(distinct b), count(distinct t) from c
select x.n, y.n from c x join c y on x.a = y.b order by 1, 2
select x.n, y.n from c x join c y on x.a = y.t order by 1, 2
select x.n, y.n from c x join c y on x.t = y.a::text order by 1, 2
select array_agg(a order by n), array_agg(b order by n) from c
select string_agg(a, ',' order by n), string_agg(b, ',' order by n) from c
select json_agg(a order by n), to_json(b), row_to_json(c) from c group by b, c order by n limit 1
select to_json(a), to_jsonb(b), row(a, b) from c order by n
select concat(a, '|', b, '|'), concat_ws(',', a, b, 'x'), format('%s|%s|%L|', a, b, a) from c order by n
select coalesce(a, 'x'), coalesce(a, t), coalesce(a, b), greatest(a, 'aa'), least(a, t), nullif(a, 'ab'), case when n = 1 then a else t end, case when n = 1 then a else 'zz' end from c order by n
select a from c union select b from c order by 1
select a from c union select t from c order by 1
select a from c union all select 'lit' order by 1
select upper(a) || '|', initcap(a) || '|', substr(a, 2) || '|', reverse(a) || '|', replace(a, 'b', 'B') || '|', left(a, 3) || '|', position('b' in a), trim(a) || '|', lpad(a, 6, '*') || '|', rpad(a, 6, '*') || '|', md5(a) from c order by n
select quote_literal(a), quote_nullable(b), ascii(a), repeat(a, 2) || '|', translate(a, 'b', 'X') || '|', overlay(a placing 'Z' from 1) || '|', strpos(a, 'b'), split_part(a, 'b', 1) from c order by n
select n from c where a = 'ab' order by n
select n from c where a = 'ab   ' order by n
select n from c where a = 'ab'::text order by n
select n from c where a = 'ab  '::text order by n
select n from c where a in ('ab ', 'abcd  ') order by n
select n from c where a = any ('{ab,"abcd "}') order by n
select n from c where a = any (array['ab ', 'abcd']) order by n
select n from c where a between 'aa' and 'ab ' order by n
select n from c where b = 'ab' order by n
update c set a = 'q' where a = 'abcd   '
select n, a from c where a = 'q'
prepare p(char(4)) as select n from c where a = $1 order by n
execute p('ab')
prepare p2(text) as select n from c where a = $1 order by n
execute p2('ab')
execute p2('ab  ')
prepare p3 as select n from c where a = $1 order by n
execute p3('ab ')

create table k (a char(3) primary key, b int)
insert into k values ('a', 1), ('b  ', 2)
insert into k values ('a ', 3)
insert into k values ('a ', 3) on conflict (a) do update set b = 30 returning *
select * from k where a = 'a  '
select a || '|', octet_length(a) from k order by a desc
select * from k where a in ('a', 'b ') order by a
select * from k where a > 'a' order by a
delete from k where a = 'b '

create table kb (b bpchar primary key, n int)
insert into kb values ('a  ', 1), ('b', 2)
insert into kb values ('a', 3)
select b || '|', octet_length(b), n from kb order by b
select octet_length(b), b from kb where b = 'a    '

create table kv (b bpchar unique, c char(2)[])
insert into kv values ('x  ', '{a,"b "}'), ('y', null)
insert into kv values ('x', null)
select b, octet_length(b), c, c[1] = 'a', c[2] = 'b', 'b' = any (c), c @> '{b}' from kv order by b
select array_to_string(c, '|'), c::text, unnest(c) from kv

create table ka (c char(3)[] primary key)
insert into ka values ('{a,b}')
insert into ka values (array['a ', 'b  '])
select c, c = '{a,b}', octet_length(c[1]) from ka

create table p1 (id char(5) primary key)
create table p2 (id char(3) references p1, t text)
insert into p1 values ('ab')
insert into p2 values ('ab', 'ab')
insert into p2 values ('zz', 'zz')
select * from p2 join p1 using (id)
select * from p1 join p2 on p1.id = p2.t
delete from p1

select 'ab  '::char(4) = 'ab'::text, 'ab  '::char(4) = 'ab  '::text, 'ab  '::char(4) = 'ab  '::varchar, 'ab'::char(4) = 'ab  '

select 'ab'::char(4)::text || '|', cast('ab' as char(4)) || '|', 'abcdef'::char(3), char 'abc', character(2) 'abc', 'a'::char, 'abc'::character varying(2)

select pg_typeof(max(x)), pg_typeof(coalesce(x, 'a')), pg_typeof(x || x) from (values ('a'::char(3))) v(x) group by x

select 'a '::bpchar in (select 'a'::char(3)), 'a '::char(2) in (select 'a'::text)

select x, count(*) from (values ('a'::bpchar), ('a '), ('b')) v(x) group by x order by x

select x from (values ('b'::char(3)), ('a'), ('a ')) v(x) order by x desc

select distinct x from (values ('a '::bpchar), ('a'), ('b')) v(x) order by 1

select 'a'::char(3) <> 'a  '::bpchar, 'a'::char(3) < 'a b'::bpchar, row('a'::char(3)) = row('a '::bpchar), array['a'::char(3)] = array['a '::bpchar]

select json_build_object('a'::char(3), 'b'::char(3)), json_build_array('b'::char(3)), jsonb_build_object('k', 'b'::char(3))

select '1 '::char(3)::int, '2020-01-01'::char(12)::date, ' t '::char(4)::bool, '{1,2}'::char(8)::int[]

select cast(12 as char(4)) || '|', true::char(6), 1.5::char(5), 'x'::char(3)::bytea, now()::char(3) is not null, '[1]'::json::char(5)

select 'a'::char(3) || 1, 1 || 'a'::char(3), 'a'::char(3) || array['b'::char(3)], array['b'::char(3)] || 'a'::char(3), array_append(array['b'::char(3)], 'a'), array_position(array['b'::char(3)], 'b ')

select substring('abc'::char(5) from 2) || '|', substring('abc'::char(5) from 'b.*') || '|', regexp_replace('abc'::char(5), 'c *$', 'X') || '|', 'abc'::char(5) ~ ' $', starts_with('abc'::char(5), 'ab')

select to_char(1, '9'::char(3)) || '|', date_part('day'::char(5), date '2020-02-03'), 'UTC'::char(5)::text

create view w as select 'a'::char(3) c, 'b'::bpchar b
select *, octet_length(c) from w

create table d (a char(3) default 'x', b char, c character varying)
insert into d values (default, 'y', 'z ')
select *, octet_length(a), octet_length(b), c || '|' from d
insert into d (b) values ('yy')
alter table d add column e char(4) default 'q'
select *, octet_length(e) from d
alter table d alter column a type char(5)
select a || '|', octet_length(a) from d
alter table d alter column a type text
select a || '|', octet_length(a) from d
alter table d alter column c type char(4)
select c || '|', octet_length(c) from d
create index on d (c)
select octet_length(c) from d where c = 'z'
