-- Foreign keys, and keys that are checked later.

-- Columns of SET NULL and SET DEFAULT.
create table p (a int, b int, primary key (a, b))
create table c (id int primary key, a int default 9, b int, foreign key (a, b) references p on delete set null (b))
create table d (id int primary key, a int default 2, b int default 2, constraint d_f foreign key (a, b) references p on delete set default (a, b) on update set default)
create table e (a int, b int, foreign key (a, b) references p on delete set null (z))
create table e (a int, b int, z int, foreign key (a, b) references p on delete set null (z))
create table e (a int, b int, foreign key (a, b) references p on update set null (a))
create table e (a int, b int, foreign key (a, b) references p match full on delete set null (a) deferrable initially deferred)
select conname, confdelsetcols, pg_get_constraintdef(oid) from pg_constraint where contype = 'f' and connamespace = 'scratch'::regnamespace order by 1
insert into p values (1, 1), (2, 2), (3, 3)
insert into c values (1, 1, 1), (2, 2, 2)
insert into d values (1, 1, 1), (3, 3, 3)
insert into e values (1, 1)
delete from p where a = 1
begin
delete from p where a = 1
select * from e
update e set b = null
commit
begin
delete from e
delete from p where a = 1
commit
select * from c order by 1
select * from d order by 1
delete from p where a = 2
delete from p where a = 3
select * from d order by 1

-- Actions keep what the table's other constraints say, and generated columns follow.
create table p (id int primary key)
create table c (id int primary key, p int default 3 check (p < 5) references p on update cascade on delete set default, g int generated always as (p * 10) stored, unique (g))
insert into p values (1), (2)
insert into c values (1, 1), (2, 2)
update p set id = 4 where id = 1
select * from c order by 1
update p set id = 5 where id = 4
delete from p where id = 4
insert into p values (3)
delete from p where id = 4
select * from c order by 1
delete from p where id = 2

-- What is done first: the order of PostgreSQL's triggers.
create table p (id int primary key)
create table a (id int primary key references p on delete cascade)
create table b (id int references p, a int references a on delete cascade)
insert into p values (1), (2)
insert into a values (1), (2)
insert into b values (1, 1)
delete from p
delete from b
delete from p
insert into a values (7), (8)
insert into a values (7), (7)

-- Non-deferrable keys are looked at row by row.
create table t (id int primary key, u int unique)
insert into t values (1, 1), (2, 2), (3, 3)
update t set id = id + 1
update t set id = id - 1
update t set id = id + 1
update t set u = 4 - u
update t set u = u - 1, id = id - 1
select * from t order by 1

-- A deferrable primary key.
create table t (id int primary key deferrable, v int)
insert into t values (1, 1), (2, 2), (3, 3)
update t set id = id + 1
update t set id = id - 1
insert into t values (3, 4)
insert into t values (null, 4)
insert into t values (5, 4), (5, 5)
insert into t values (3, 4) on conflict (id) do nothing
insert into t values (3, 4) on conflict do nothing
insert into t values (3, 4) on conflict (id) do update set v = 5
create table r (a int references t)
create table r (a int references t (id))
alter table t add primary key (v)
alter table t alter id drop not null
select conname, contype, condeferrable, condeferred, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass
select indisprimary, indisunique, indimmediate, pg_get_indexdef(indexrelid) from pg_index where indrelid = 't'::regclass
select constraint_name, constraint_type, is_deferrable, initially_deferred from information_schema.table_constraints where table_name = 't' and constraint_type <> 'CHECK'
select column_name from information_schema.key_column_usage where table_name = 't'
begin
set constraints t_pkey deferred
insert into t values (3, 4)
set constraints t_pkey immediate
rollback
begin
set constraints all deferred
insert into t values (3, 4)
savepoint s
update t set id = 4 where v = 4
set constraints all immediate
rollback to s
commit
select * from t order by 1, 2
alter table t drop constraint t_pkey
insert into t values (3, 4)
alter table t add primary key (id) deferrable initially deferred
delete from t where v = 4
alter table t add primary key (id) deferrable initially deferred
insert into t values (3, 4)
select * from t order by 1, 2
create table l (like t including all)
select conname, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'l'::regclass

-- A deferrable key of a table with rows.
create table t (id int primary key, u int, v int)
insert into t values (1, 1, null), (2, 2, null), (3, 2, 1)
alter table t add unique (u) deferrable
alter table t add constraint vv unique (v) deferrable initially deferred
update t set u = 3 where id = 3
alter table t add unique (u) deferrable
update t set u = 4 - u
update t set u = 1
begin
update t set v = 1
insert into t values (4, 4, 4)
commit
select * from t order by 1

-- SET CONSTRAINTS, and savepoints.
create schema scratch2
create table p (id int primary key)
create table c (id int primary key, p int constraint f references p deferrable, q int constraint g references p)
create table scratch2.c (id int primary key, p int constraint f references p deferrable initially deferred)
set constraints f deferred
begin
set constraints g immediate
set constraints g deferred
rollback
begin
set constraints scratch.f deferred
insert into c values (1, 1)
savepoint a
set constraints f immediate
rollback to a
insert into c values (2, 2)
rollback to a
insert into p values (1)
commit
select * from c
begin
savepoint a
set constraints all deferred
insert into c values (3, 3)
rollback to a
insert into c values (4, 4)
rollback
begin
insert into scratch2.c values (1, 5)
set constraints scratch2.f immediate
rollback
begin
savepoint a
insert into scratch2.c values (1, 5)
rollback to a
commit
begin
insert into scratch2.c values (1, 5)
savepoint a
insert into p values (5)
rollback to a
commit
select * from scratch2.c
begin
insert into scratch2.c values (1, 5)
savepoint a
update scratch2.c set p = 1
release a
commit
insert into scratch2.c values (2, 6)
insert into scratch2.c values (2, 6); insert into p values (6)
insert into scratch2.c values (3, 7); insert into p values (8)
select * from scratch2.c order by 1
drop schema scratch2 cascade
