-- Objects' identities and integers: a negative integer is an OID, a negative bigint is none.
select '-1'::oid, (-1)::oid, -1::int::oid

select (-1)::int::oid

select (-1)::bigint::oid

select 4294967295::oid, 4294967296::bigint::oid

select (-1)::smallint::oid

select (-2147483648)::oid

select '4294967296'::oid

select '-2147483649'::oid

select '-2147483648'::oid

select '99999999999999999999'::oid

select ''::oid

select 'x'::oid

select '1x'::oid

select ' 5 '::oid

select '-'::oid

select '0x10'::oid

select '010'::oid

select (-1)::int::oid = -1

select (-1)::int::oid = 4294967295

select 4294967295::oid::int

select 4294967295::oid::bigint

select 4294967295::oid::text

select 4294967295::oid::regclass

select 4294967295::oid = -1

select 4294967295::oid = '-1'

select 5::oid > -1

select 5::oid > -1::bigint

select 5::oid = 5::smallint, 5::oid = 5, 5::oid = 5::bigint

select 4294967295::oid > (-1)::bigint

select 4294967295::oid = (-1)::bigint

select 4294967295::oid = 4294967295::bigint

select 5::oid = 4294967301::bigint

select 5::oid = (-1)::smallint

select x = y from (values (4294967295::oid, -1)) v(x,y)

select x < y from (values (5::oid, -1)) v(x,y)

select x < y from (values (5::oid, -1::bigint)) v(x,y)

select x in (-1, 5) from (values (4294967295::oid)) v(x)

select x = any(array[-1,5]) from (values (4294967295::oid)) v(x)

select x between -5 and 10 from (values (5::oid)) v(x)

select 5::regclass = 5, 5::regclass = 5::oid, 5::regclass > -1

select (-1)::regclass

select (-1)::regtype

select (-1)::int::regproc

select (-1)::bigint::regclass

select 4294967296::bigint::regtype

select '-1'::regclass

select '-1'::regtype

select '4294967295'::regclass

select '4294967296'::regclass

select '-'::regclass, '-'::regtype, '-'::regproc, 0::regclass, 0::regtype

select '0'::regclass

select '12345678'::regtype, '12345678'::regproc, '12345678'::regrole, '12345678'::regnamespace

select '-1'::regrole

select '-1'::regnamespace

select '-1'::regproc

select '-1'::regoper

select 23::regtype, 23::smallint::regtype, 23::bigint::regtype

select 23::regtype::int, 23::regtype::bigint, 23::regtype::oid

select 23::regtype::smallint

select 23::oid::smallint

select 23.0::oid

select 23::float8::oid

select 23::numeric::regclass

create table ot (o oid primary key, r regtype)
insert into ot values (-1, 23), (5, 25), ('-2', 'int4'), (0, 0)
select * from ot order by o
select * from ot where o = -1
select * from ot where o > -5 order by o
select * from ot where o >= 4294967290 order by 1
select o from ot where o = -2 or o = 5 order by 1
select * from ot where o in (-1,-2) order by 1
select o from ot where o > 3 and o < -1
select o from ot where o between 1 and -2
select o from ot where o = (-1)::bigint
select o from ot where o = 4294967296
select * from ot a join (values (-1),(5)) v(x) on a.o = v.x order by 1
select * from ot a join (values (-1::bigint),(5)) v(x) on a.o = v.x
insert into ot values ((-1)::bigint, 0)
insert into ot values (4294967296,0)
select max(o), min(o), count(distinct o) from ot
select o::int, o::bigint from ot order by 1
select r, r::oid from ot order by 2,1
select oid(5), oid('7'), int8(5::oid), int4(4294967295::oid)
select 1::oid + 1
select 1::oid || 'x'
select -(1::oid)
select abs(1::oid)
select sum(1::oid)
select '-1'::oidvector, '1 4294967295'::oidvector
select '{-1}'::oid[]
select array[-1]::oid[]
select (-1)::text::oid
select to_json((-1)::oid), to_jsonb(5::oid)
select greatest(5::oid, -1)
select coalesce(null, 5::oid, -1)
select case when true then 5::oid else -1 end
select 5::oid union select -1 order by 1
select larger from (select greatest(1::oid, 4294967295::oid) larger) s
select nullif(5::oid, -1)
select array_position(array[4294967295::oid], -1)
prepare oid1(int) as select $1::oid
execute oid1(-1)
deallocate oid1
prepare oid2(oid) as select $1
execute oid2(-1)
execute oid2('-1')
execute oid2(4294967295)
deallocate oid2

-- Numbers of transactions.
select '0'::xid8, '18446744073709551615'::xid8, '0xffffffffffffffff'::xid8, '-1'::xid8, '010'::xid8, ''::xid8, 'asdf'::xid8, '18446744073709551616'::xid8, ' 12 '::xid8, '12x'::xid8
select '1'::xid8 = '1'::xid8, '1'::xid8 <> '2'::xid8, '1'::xid8 <= '2', '9'::xid8 > '10'::xid8, '9223372036854775808'::xid8 > '9223372036854775807'::xid8, '5'::xid8 between '1' and '10', '1'::xid8 in ('1', '2')
select pg_typeof('1'::xid8), pg_typeof(pg_current_xact_id()), pg_typeof(pg_current_xact_id_if_assigned()), pg_typeof(txid_current()), pg_current_xact_id()::text = txid_current()::text
select 1::xid8
select '1'::xid8::int
select '1'::xid8::bigint
select '1'::xid8::text, '1'::text::xid8, array['1', '2']::xid8[], '{1,2}'::xid8[]
select 1::bigint::xid8
select '1'::xid8 = 1
select '1'::xid8 = '1'::text
select '1'::xid8 + 1
select min(x), max(x), count(distinct x), array_agg(x order by x) from (values ('3'::xid8), ('2'), ('18446744073709551615')) v(x)
select x, count(*) from (values ('3'::xid8), ('2'), ('3')) v(x) group by x order by x desc
select to_json('1'::xid8), to_jsonb('18446744073709551615'::xid8), jsonb_build_object('a', '1'::xid8)
select typname, oid, typarray, typlen, typbyval, typcategory, typinput, typsend from pg_type where typname in ('xid8', '_xid8') order by 1
select oprname, oprleft::regtype, oprright::regtype from pg_operator where oprleft = 'xid8'::regtype order by 1
prepare xid81(xid8) as select $1
execute xid81('7')
deallocate xid81
