-- Cursors, prepared statements and parameters of sessions.
create table t (a int primary key, b text, c int)
insert into t values (1,'x',1),(2,'y',0)
begin
declare c cursor for select 1/c from t order by a
savepoint s
fetch 1 from c
fetch 1 from c
rollback to s
fetch 1 from c
rollback to s
move 1 from c
rollback to s
fetch 0 from c
rollback to s
close c
rollback
begin
savepoint s
declare c cursor for select 1/c from t order by a
release s
savepoint s2
fetch all from c
rollback to s2
fetch c
rollback to s2
select name from pg_cursors
commit
begin; declare c1 cursor for select * from t; select name, is_holdable, is_binary, is_scrollable from pg_cursors
declare c2 scroll cursor for select 1
declare c3 no scroll cursor for select * from t
declare c4 binary cursor with hold for select * from t order by a
declare c5 cursor for select * from t for update
select name, statement, is_holdable, is_binary, is_scrollable, creation_time = statement_timestamp() from pg_cursors order by 1
close c1
commit
select name, is_holdable from pg_cursors
close c4
select count(*) from pg_cursors

deallocate all
prepare p(int, text) as select $1, $2
execute p(1, 'a')
execute p(1, 'a')
execute p('x', 1)
execute p(nope)
select name, statement, parameter_types, from_sql, generic_plans, custom_plans from pg_prepared_statements
deallocate p
prepare q as select 1
execute q
execute q
select name, generic_plans, custom_plans from pg_prepared_statements
prepare r(int) as select $1
execute r(1)
execute r(1)
execute r(1)
execute r(1)
execute r(1)
execute r(1)
select name, generic_plans, custom_plans from pg_prepared_statements order by 1
set plan_cache_mode = force_custom_plan
execute q
execute r(1)
select name, generic_plans, custom_plans from pg_prepared_statements order by 1
set plan_cache_mode = force_generic_plan
execute r(1)
select name, generic_plans, custom_plans from pg_prepared_statements order by 1
prepare w(nosuch) as select 1
prepare w(int, nosuch[]) as select 1
deallocate all
select count(*) from pg_prepared_statements

select $1
select 1, $2
select 1 + $1 where $2
explain select $1
explain (costs off) select 'a', $3
