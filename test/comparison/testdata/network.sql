-- Addresses of networks and of devices: a table with indexes, then forms, operators and functions.
create table nt (i inet primary key, c cidr unique, m macaddr, m8 macaddr8, a inet[])
insert into nt values ('1.2.3.4/24','10/8','08:00:2b:01:02:03','08:00:2b:01:02:03', '{1.2.3.4,::1/64}'), ('::1', '::/8', null, null, null), ('1.2.3.4', null, null,null,null)
insert into nt values ('1.2.3.4/24')
insert into nt (i, c) values ('1.2.3.5/24', '10.0.0.0/8')
insert into nt (i, c) values ('1.2.3.5/24', '10.0.0.1/8')
insert into nt (i, c) select inet '1.2.3.6', inet '10.0.0.1/16'
select * from nt order by i
select i, c from nt where i = '1.2.3.4/24' or i < '1.2.3.4/24' order by c
select i from nt where i in ('::1', '1.2.3.4') order by i desc
select i from nt where i << '1.2.3.0/24' order by i
select typname, typlen, typbyval, typcategory, typispreferred, typalign, typstorage, typinput, typarray from pg_type where typname in ('inet','cidr','macaddr','macaddr8') order by 1
select table_name, column_name, data_type, udt_name from information_schema.columns where table_name = 'nt' order by ordinal_position
create index on nt (m)
select i from nt where m = '08-00-2b-01-02-03'
update nt set c = set_masklen(c, 4) where i = '::1'
select c from nt where i = '::1'
select i, c from nt where c = inet '10.0.0.0/8'
select a.i, b.c from nt a join nt b on a.c >>= b.c order by 1, 2
select count(distinct i), max(i), min(c) from nt
select i::text, host(i), c::text from nt order by masklen(i), i
delete from nt where i && '1.2.3.0/24' returning family(i), netmask(i)

-- One at a time.
select '10.1.2.3'::inet::text, '10/8'::cidr, '1.2.3.4.'::inet

select '192.168.1/24'::cidr, '192.168.1'::cidr, '128.1'::cidr, '224'::cidr, '224.1'::cidr, '0x0a01'::cidr, '0xa1f/24'::cidr, '10.1.2.3/16'::inet

select '::1'::inet, '::ffff:1.2.3.4'::inet, '::1.2.3.4/96'::inet, '2001:db8::/32'::cidr, '1:0:0:2::'::inet, '::2'::inet, '::1:0'::inet, '::'::cidr

select abbrev('10.1.0.0/16'::cidr), abbrev('10.1.0.0/16'::inet), abbrev('0.0.0.0/0'::cidr), abbrev('2001:db8::/32'::cidr), abbrev('::ffff:1.2.0.0/112'::cidr), abbrev('10.128.0.0/9'::cidr), abbrev('::/0'::cidr), abbrev('::1.2.3.0/120'::cidr)

select host('10.1.2.3/8'), text('10.1.2.3'::inet), network('10.1.2.3/8'), netmask('10.1.2.3/11'), hostmask('10.1.2.3/11'), broadcast('10.1.2.3/11'), masklen('10.1.2.3/11'), family('::1'), set_masklen('10.1.2.3/11'::inet, 24), set_masklen('10.1.2.0/24'::cidr, 11), set_masklen('10.1.2.0/24'::inet, -1)

select set_masklen('10.1.2.3/11'::inet, 33)

select inet '10.1.2.3' << '10.1.0.0/16', inet '10.1.2.3' <<= '10.1.2.3', inet '10.0.0.0/8' >> '10.1.0.0/16', inet '10.0.0.0/8' >>= '10.0.0.0/8', inet '10.0.0.0/8' && '10.1.0.0/16', inet '::1' << '10.0.0.0/8'

select ~ inet '10.1.2.3/9', inet '10.1.2.3' & '0.0.0.255', inet '10.1.2.3/8' | '0.0.0.255/16', inet '10.1.2.3' + 256, 5 + inet '::1', inet '10.1.2.3' - 4, inet '10.1.2.3' - inet '10.0.0.0', inet '::5' - inet '::7'

select inet '255.255.255.255' + 1

select inet '0.0.0.0' - 1

select inet '::' - (-9223372036854775808)

select inet '1::' - (-9223372036854775808), inet '1::' + (-9223372036854775808)

select inet '::1' & '1.2.3.4'

select inet '1:::1'

select inet '1.2.3'

select inet '1.2.3/24', inet '1.2/16'

select inet '1.2/24'

select cidr '1.2/24', cidr '10.0.0.1/32'

select inet_same_family('1.2.3.4','::1'), inet_merge('192.168.1.5/24', '192.168.2.5/24'), inet_merge('2001::1','2001::8')

select macaddr '08:00:2b:01:02:03', macaddr '08-00-2b-01-02-03', macaddr '08002b:010203', macaddr '08002b-010203', macaddr '0800.2b01.0203', macaddr '0800-2b01-0203', macaddr '08002b010203', macaddr '8:0:2b:1:2:3'

select macaddr '08:00:2b:01:02:103'

select macaddr '08:00:2b:01:02'

select macaddr8 '08:00:2b:01:02:03:04:05', macaddr8 '08002b:0102030405', macaddr8 '08:00:2b:01:02:03', '08:00:2b:01:02:03'::macaddr::macaddr8, trunc(macaddr8 '08:00:2b:01:02:03:04:05'), macaddr8_set7bit('00:34:56:ab:cd:ef'), ~macaddr '08:00:2b:01:02:03', trunc(macaddr '08:00:2b:01:02:03')

select macaddr8 '08:00:2b:01:02:03:04:05'::macaddr

select macaddr '08:00:2b:01:02:03' & 'ff:ff:00:00:00:00', macaddr '08:00:2b:01:02:03' | 'ff:ff:00:00:00:00'

select max(x), min(x) from (values (inet '1.2.3.4'), ('1.2.3.0/24'), ('::1')) t(x)

select x from (values (inet '1.2.3.4'), ('1.2.3.0/24'), ('::1'), ('1.2.3.0/25'), ('1.2.3.0'), ('1.2.2.255/24')) t(x) order by x

select inet '1.2.3.0/24' = cidr '1.2.3.0/24', pg_typeof(coalesce(cidr '1.2.3.0/24', inet '1.2.3.4'))

select array[inet '1.2.3.4/5', '::1'], array['10/8'::cidr], to_json(inet '1.2.3.4'), array[macaddr '08:00:2b:01:02:03']

select '1.2.3.4/5'::inet::cidr, '10/8'::cidr::inet::text

select '1.2.3.4'::varchar::inet, cast(inet '1.2.3.4' as varchar(5))

select inet '1.2.3.4' = '1.2.3.4'::text

select format_type('inet'::regtype, -1), 'cidr'::regtype::oid, '_macaddr8'::regtype

select 1::inet

select inet '10.0.0.1/33', 3

select inet '300.0.0.1'

select cidr '10/8/8'

select inet ' 10.0.0.1'

select cidr '2001:db8::1/32'

select inet '::1/129'

select inet '::1/064', inet '10.0.0.1/08'

select inet '::ffff:0:1', inet '::0.0.1.1', inet 'fe80::1%eth0'

select macaddr '08:00:2b:01:02:03' = macaddr8 '08:00:2b:01:02:03'

select cidr '10.0.0.0/8' = '10.0.0.1/8', cidr '10.0.0.0/8' < 'x'
