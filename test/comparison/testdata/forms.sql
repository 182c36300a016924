-- Forms of statements that the grammar library does not have: U&'', ORDER BY ... USING, ROW in an assignment, ONLY (t), the form of normalize.
select U&'d\0061t\+000061', U&'d!0061t!+000061' uescape '!', u&'a\\b''c', U&'\D83D\DE00'

select u&'\0027', U&'\005c', u&'\0061' = 'a', 'a' like u&'\0061' escape u&'\005c'

select u&'\006'

select u&'\ZZZZ'

select u&'\+00000'

select u&'\d83d'

select u&'\d83dx'

select u&'\0000'

select u&'x' uescape '+'

select U&"d\0061ta", u&"d!0061ta" uescape '!' from (values (1)) v(data)

select u&"a\0022" from (select 1 as "a""") x

select u & 1, u&1, u & u from (select 3 as u) q

select a from (values (1), (2), (null)) v(a) order by a using >

select a from (values (1), (2), (null)) v(a) order by a using < nulls first

select a from (values (1), (2)) v(a) order by a using operator(pg_catalog.>), 1

select array_agg(a order by a using >), string_agg(a::text, ',' order by a using <) from (values (1), (2)) v(a)

select a, rank() over (order by a using >) from (values (1), (2)) v(a) order by 1

select a from (values ('x'), ('y')) v(a) order by a using ~>~

select a from (values (1), (2)) v(a) order by a using =

select (row(1, 'a'::text)).f2, (row(1, 2)).f1

select (row(1, 2)).f3

select normalize('a', nfkd), normalize(U&'\0061\0308bc', NFC) = U&'\00E4bc', normalize('a')

create table ft (a int, b int)
insert into ft values (1, 2)
update ft set (a, b) = row(b, a)
select * from only (ft)
select * from only (ft) x where x.a = 2
select * from ft where (a, b) = row(2, 1)
update only (ft) set a = 7 where b = 1
insert into ft values (3, 4) on conflict do nothing
delete from only (ft) where a = 3
select * from ft

select timestamptz('2000-01-01 00:00:00+00'), timetz('12:00:00+01')

select timestamptz(0) '2000-01-01 00:00:00.7+00', cast('2000-01-01 00:00:00.7+00' as timestamptz(0))

select 1 -|- 2

select 1 @@ 2

select @ true

select ! 1

select xmax from (select 1 as a) q

select E'\u0061\U00000062\ud83d\ude00', E'\\u061', E'a\\\u0062'

select E'wrong: \u061'

select E'wrong: \U0061'

select E'wrong: \udb99'

select E'wrong: \udb99xy'

select E'wrong: \udb99\\'

select E'wrong: \udb99\u0061'

select E'wrong: \U0000db99\U00000061'

select E'wrong: \U002FFFFF'

select E'wrong: \udc00'

select E'wrong: \u0000', 1

select E'a' 'b', e'\u00e9'

select 'a%c'::bytea like 'a#%c'::bytea escape '#'::bytea, 'abc'::bytea like 'a#%c'::bytea escape '#', 'a\c'::bytea like 'a\c'::bytea escape ''::bytea

select 'abc'::bytea like 'a'::bytea escape 'xy'::bytea

select 'a' ~ '$()|^\1', 'ab' ~ '$()|^\1'

create table fu (a int, b text)
insert into fu values (1, 'x')
alter table fu alter a type bigint using -a, alter b type text using 'a' || b
select * from fu order by a using >
