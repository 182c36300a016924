-- A key that is equal and looks different: each action of ON UPDATE.
create table p (a numeric primary key)
create table c1 (a numeric references p on update restrict)
create table c2 (a numeric references p on update set null)
create table c3 (a numeric references p on update cascade)
create table c4 (a numeric references p on update no action)
create table c5 (a numeric default 7 references p on update set default)
insert into p values (1.0),(2.0),(3.0),(4.0),(5.0),(7)
insert into c1 values (1.0)
insert into c2 values (2.00)
insert into c3 values (3.00)
insert into c4 values (4.00)
insert into c5 values (5.0)
update p set a = 1.00 where a = 1
update p set a = 2.000 where a = 2
update p set a = 3.000 where a = 3
update p set a = 4.000 where a = 4
update p set a = 5.000 where a = 5
select * from c1, c2, c3, c4, c5
update p set a = 3.000 where a = 3
update c3 set a = 3.0
select * from c3

-- The same with zeros of both signs.
create table p (a float8 primary key)
create table c (a float8 references p on update cascade)
insert into p values (0)
insert into c values (0)
update p set a = '-0'
select * from c

-- MATCH FULL: when the key is added, validated, and passed on.
create table p (a int, b int, primary key (a, b))
create table c (a int, b int)
insert into p values (1, 1)
insert into c values (null, null), (1, null)
alter table c add constraint f1 foreign key (a, b) references p match full
delete from c where a = 1
insert into c values (1, 1)
alter table c add constraint f1 foreign key (a, b) references p match full
insert into c values (1, null)
alter table c drop constraint f1
insert into c values (null, 2)
alter table c add constraint f1 foreign key (a, b) references p match full not valid
alter table c validate constraint f1
update c set a = 1 where b = 2
update c set a = 1, b = 1 where b = 2
select * from c order by a, b

-- MATCH FULL and ON UPDATE CASCADE of a key that becomes NULL in part.
create table p (a int primary key, b int, unique (a, b))
create table c (a int, b int, foreign key (a, b) references p (a, b) match full on update cascade on delete set null)
insert into p values (1, 1)
insert into c values (1, 1)
update p set b = null
select * from c
update p set b = 5
select * from c
delete from p
select * from c

-- Objects that others depend on: sequences of views and defaults, the primary key by which a view groups.
create sequence sq
create view vs as select nextval('sq') as n
drop sequence sq
create table td (a int default nextval('sq'), b int)
drop sequence sq
alter sequence sq rename to sr
select n from vs
create table pkv (id int primary key, n int, m text)
create view vpk as select id, n, m from pkv group by id
create view vid as select id from pkv group by id
alter table pkv drop constraint pkv_pkey
drop view vpk
alter table pkv drop constraint pkv_pkey
select * from vid

-- The same with CASCADE.
create sequence sq
create view vs as select nextval('sq') as n
create table td (a int default nextval('sq'), b int)
drop sequence sq cascade
insert into td values (default, 1)
select * from td
select n from vs
create table pkv (id int primary key, n int)
create view vpk as select id, n from pkv group by id
alter table pkv drop constraint pkv_pkey cascade
select * from vpk

-- A view keeps the types of its columns, modifiers included.
create table nv (x numeric(5,2), y varchar(3), z char(2))
create view vn as select x, y, z from nv
create or replace view vn as select x::numeric(6,3), y, z from nv
create or replace view vn as select x::numeric, y, z from nv
create or replace view vn as select x, y::varchar(4), z from nv
create or replace view vn as select x, y::text, z from nv
create or replace view vn as select x, y, z from nv where x > 1

-- Generated columns over others, and columns with several sources of values.
create table g1 (a int, b int generated always as (a + 1) stored)
alter table g1 add column c int generated always as (b + 1) stored
alter table g1 add column c int generated always as (a + 1) stored, add column d int generated always as (c) stored
create table g2 (a int generated always as (b) stored, b int generated always as (1) stored)
create table g3 (a int generated always as (a) stored)
create table g4 (a serial generated always as identity)

-- What COPY reads.
create view v as select 1 as a
copy v to stdout
create materialized view m as select 1 as a
copy m to stdout
create sequence s
copy s to stdout
copy (select * from v) to stdout

-- Keys of temporary tables.
create temp table t1 (a int primary key) on commit delete rows
create temp table t2 (a int references t1) on commit preserve rows
create temp table t3 (a int references t1) on commit delete rows
create temp table t4 (a int primary key) on commit preserve rows
create temp table t5 (a int references t4) on commit delete rows
drop table t3, t1, t5, t4
