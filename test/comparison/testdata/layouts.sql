-- A table.
create table t (a int, check (a > 0), check (a > 1), constraint t_a_check check (a > 2))
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by 1

-- A table.
create table t (a int, constraint x check (a > 0), constraint x check (a > 1))
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by 1

-- A table.
create table t (a int constraint x unique, b int constraint x unique)
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by 1

-- A table.
create table t (a int constraint x unique, b int constraint x check (b > 0))
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by 1

-- A table.
create table t (a int unique, unique (a), constraint nm unique (a))
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by 1

-- A table.
create table t (a int primary key, unique (a))
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by 1

-- A table.
create table t (a int primary key, constraint u unique (a))
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by 1

-- A table.
create table t (a int unique deferrable, unique (a))
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by 1

-- A table.
create table t (a int, unique (a), unique (a), primary key (a))
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by 1

-- A table.
create table t (a int references t, primary key (a))
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by 1

-- A table.
create table t (b int, c int, foreign key (b, c) references t (x, y), x int, y int, unique (x, y))
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by 1

-- A table.
create table t (a int, b int check (a > b), check (a > b and b > 0), constraint t_check2 check (b > 0), check (1 > 0))
select conname, contype, pg_get_constraintdef(oid) from pg_constraint where conrelid = 't'::regclass order by 1

-- A view.
create table t1 (a int primary key, b text, c numeric(10,2))
create table t2 (a int, x int)
create view v as select * from t1
select pg_get_viewdef('v'::regclass), pg_get_viewdef('v'::regclass, true)

-- A view.
create table t1 (a int primary key, b text, c numeric(10,2))
create table t2 (a int, x int)
create view v as select a, b as x from t1 where a > 1 and b = 'x'
select pg_get_viewdef('v'::regclass), pg_get_viewdef('v'::regclass, true)

-- A view.
create table t1 (a int primary key, b text, c numeric(10,2))
create table t2 (a int, x int)
create view v as select t1.a, x from t1 left join t2 on t1.a = t2.a and x > 1
select pg_get_viewdef('v'::regclass), pg_get_viewdef('v'::regclass, true)

-- A view.
create table t1 (a int primary key, b text, c numeric(10,2))
create table t2 (a int, x int)
create view v as select b, count(*) from t1 group by b having count(*) > 1 order by 2 desc, b limit 5 offset 2
select pg_get_viewdef('v'::regclass), pg_get_viewdef('v'::regclass, true)

-- A view.
create table t1 (a int primary key, b text, c numeric(10,2))
create table t2 (a int, x int)
create view v as select distinct on (b) b, a from t1 order by b, a desc nulls last
select pg_get_viewdef('v'::regclass), pg_get_viewdef('v'::regclass, true)

-- A view.
create table t1 (a int primary key, b text, c numeric(10,2))
create table t2 (a int, x int)
create view v as select case when a > 1 then 'x' else b end as c, a + 1 as n from t1 u
select pg_get_viewdef('v'::regclass), pg_get_viewdef('v'::regclass, true)

-- A view.
create table t1 (a int primary key, b text, c numeric(10,2))
create table t2 (a int, x int)
create view v as select t1.a from t1 join (t2 join t1 z on t2.a = z.a) on t1.a = t2.a
select pg_get_viewdef('v'::regclass), pg_get_viewdef('v'::regclass, true)

-- A view.
create table t1 (a int primary key, b text, c numeric(10,2))
create table t2 (a int, x int)
create view v as select a from t1 where a between 1 and 5 or b like 'x%' and a not in (1, 2)
select pg_get_viewdef('v'::regclass), pg_get_viewdef('v'::regclass, true)

-- A table.
create table t (a text, b varchar, c char(5))
create index x on t (a text_pattern_ops desc, b varchar_pattern_ops, c bpchar_pattern_ops)
select pg_get_indexdef('x'::regclass)
alter table t alter a type int using 1

-- A table.
create table t (a int constraint zz check (a > 1), constraint aa check (a > 2))
insert into t values (0)

-- A statement.
select array[3][1]

-- A statement.
select upper('x')[1]

-- A statement.
select 'a'[1]

-- A statement.
select * from generate_series(1,2) as t(a int)

-- A statement.
select * from generate_series(1,2) as (a int)

-- A statement.
select * from json_to_record('{"a":1}') as (a int)

-- A statement.
select * from json_to_record('{"a":1}') as x(a int, a int)

-- A statement.
select * from json_populate_record(null::record, '{"id":1}') as x(id int)

-- A statement.
select * from json_populate_record(row(1,2), '{"f1":5}') as x(p int, q int)
