-- What is in the stores that are kept. A statement ends with a semicolon at the end of a line.
create role owner_of_all createdb;
create role reader password 'secret';
create role member in role reader;
alter role reader set statement_timeout = '1h';
alter role reader in database defaultdb set work_mem = '8MB';
alter database defaultdb set application_name = 'kept';
set cluster setting server.time_until_store_dead = '10m';
set cluster setting replicas.nonvoters = 0;

create schema s2;
create type mood as enum ('sad', 'ok', 'happy');
alter type mood add value 'calm' before 'ok';

create table types (
  id int primary key, i2 smallint, i4 int, i8 bigint, n numeric, n2 numeric(10,2), f4 real, f8 double precision, b boolean, t text, v varchar(20),
  c char(5), nm name, by bytea, d date, tm time, tz timetz, ts timestamp, tstz timestamptz, iv interval, u uuid, j json, jb jsonb, ia int[], ta text[],
  net inet, ci cidr, m mood, ma mood[], o oid);
insert into types values
  (1, 1, 2, 3, 1234567890.123456789, 12.34, 1.5, 2.5, true, 'text', 'varchar', 'ab', 'name', '\x00ff', '2024-02-29', '12:34:56.789', '12:34:56+02',
   '2024-02-29 12:34:56', '2024-02-29 12:34:56+00', '1 year 2 days 03:04:05', '00000000-0000-0000-0000-000000000001', '{"a": 1}', '{"b": [1, 2]}', '{1,2,NULL}', '{a,"b c"}',
   '192.168.0.1/24', '10.0.0.0/8', 'happy', '{sad,calm}', 4294967295),
  (2, -32768, -2147483648, -9223372036854775808, 'NaN', -0.01, '-Infinity', 'Infinity', false, '', 'é', '', '', '', 'infinity', '00:00', '23:59:59-12',
   '-infinity', 'infinity', '-1 month', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'null', 'null', '{}', '{{x,y},{z,NULL}}', '::1', '::/0', 'sad', '{}', 0);
insert into types (id) values (3);
create index types_t on types (t desc, n);
create index types_v on types (v) include (b, n);
create index types_m on types (m);
create unique index types_u on types (u);

create table parent (id serial primary key, name varchar(20) not null default 'x', n numeric(10,2) check (n >= 0), m mood default 'ok');
create table child (id int generated always as identity primary key, parent_id int references parent(id) on delete cascade on update cascade, val text unique,
  twice int generated always as (length(val) * 2) stored, constraint not_empty check (val <> ''));
create index child_parent on child (parent_id) include (val);
alter table child add constraint ordered unique (parent_id, val) deferrable initially deferred;
insert into parent (name, n) select 'n' || g, g from generate_series(1, 20) g;
insert into child (parent_id, val) select 1 + g % 20, 'v' || g from generate_series(1, 50) g;
create table s2."Odd Name" (a int, "B c" text, primary key (a, "B c"));
insert into s2."Odd Name" values (1, 'x'), (2, E'tab\there');
create table keyless (a int, b text);
insert into keyless values (1, 'one'), (1, 'one'), (null, null);

create table changed (id int primary key, gone text, kept int, old int not null default 7);
insert into changed select g, 'gone', g * 10 from generate_series(1, 10) g;
alter table changed drop column gone;
alter table changed add column added text not null default 'since';
alter table changed rename column old to renamed;
alter table changed alter column kept type bigint;
insert into changed (id, kept) values (11, 110);
create index changed_kept on changed (kept);
create table dropped (id int primary key, v text);
insert into dropped values (1, 'x');
drop table dropped;
create table truncated (id int primary key);
insert into truncated values (1);
truncate truncated;
insert into truncated values (2);

create table removed_later (id int primary key, v text);
insert into removed_later values (1, 'x');

create sequence s2.sq increment by 5 start 10 minvalue 1 maxvalue 1000 cycle;
create sequence s2.cached as smallint cache 3;
select nextval('s2.sq'), nextval('s2.sq'), nextval('s2.cached');
create view names as select id, name from parent where n > 1;
create view s2.counts as select p.id, count(*) as children from parent p join child c on p.id = c.parent_id group by p.id;
create view moods as select id from types where m = 'happy';

comment on table parent is 'the table';
comment on column parent.name is 'its name';
comment on view names is 'a view';
comment on schema s2 is 'a schema';
comment on index types_t is 'an index';
grant select on parent to reader;
grant usage on schema s2 to reader;
grant select, insert on child to reader with grant option;
grant select on types to member;
grant all on sequence s2.sq to reader;
alter table keyless owner to owner_of_all;

create table pair_a (id int primary key, v int);
create table pair_b (id int primary key, v int);
alter table pair_b split at values (0);
create table folded (id int primary key, v int);
insert into folded select g, g from generate_series(1, 5) g;
alter table parent split at values (10);
create table merged (id int primary key);
insert into merged select generate_series(1, 9);
alter table merged split at values (5);
alter table merged unsplit at values (5);
update parent set n = n + 1 where id <= 10;
delete from child where id % 10 = 0;
analyze;
