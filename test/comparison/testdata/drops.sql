-- DROP of what does not exist, and of what is built in: schemas, types and access methods in names, operators, casts, operator classes.
drop operator @#@ (int, int)

drop operator if exists @#@ (int, int), +#+ (none, text)

drop operator @#@ (none, int)

drop operator @#@ (int, none)

drop operator @#@ (int)

drop operator @#@ ()

drop operator @#@

drop operator @#@ (nosuch, int)

drop operator if exists @#@ (int, nosuch)

drop operator if exists nosuch.@#@ (int, int)

drop operator nosuch.@#@ (int, int)

drop operator if exists @#@ (nosuch.t, int)

drop cast (text as text)

drop cast if exists (text as text)

drop cast (text as nosuch)

drop cast if exists (nosuch as text)

drop cast if exists (nosuch.a as text)

drop cast (int as bigint)

drop cast (date as int)

drop cast (text)

drop operator class noclass using btree

drop operator class if exists noclass using btree

drop operator class if exists noclass using noam

drop operator class if exists nosuch.noclass using btree

drop operator family nofamily using hash

drop operator family if exists nofamily using gist

drop operator class int4_ops using btree

drop operator class noclass

drop table nosuch.t

drop table if exists nosuch.t, nosuch2

drop view if exists nosuch.v

drop sequence nosuch.s

drop index if exists nosuch.i

drop index nosuch.i

drop materialized view if exists nosuch.m

drop trigger if exists x on nosuch.t

drop trigger x on nosuch.t

drop rule if exists x on nosuch.t

drop policy x on nosuch.t

drop function nosuch.f()

drop function if exists nosuch.f(int)

drop function if exists f(nosuch), g(int, text, int[], character varying, nosuch.t)

drop function f(nosuch)

drop function if exists f(out a int, inout text)

drop aggregate f(nosuch)

drop aggregate if exists f(*), f(int)

drop aggregate f(*)

drop aggregate f

drop procedure if exists nosuch.p

drop collation if exists nocollation

drop collation nocollation

drop collation if exists nosuch.c

drop domain if exists nosuch.d

drop conversion nosuch.c

drop text search parser if exists nosuch.p

drop foreign table if exists nosuch.f

drop type if exists nosuch.t

drop cast (numeric(1,2) as varchar(3))

drop cast (double precision as int)

drop cast if exists (int[] as text) cascade

drop operator if exists + (int, int) cascade

drop operator = (text, text)

drop operator + (int, text)

drop operator || (text, text)

drop cast (bool as text)

drop cast (text as regclass)
