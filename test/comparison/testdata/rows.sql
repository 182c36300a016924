-- The row of a relation is NULL where an outer join has found none, and a row of NULLs where it is one.

create table t1 (a int, b text)
create table t2 (a int, c text)
create table t3 (id int primary key, x int, y text)
insert into t1 values (1, 'x'), (2, 'y'), (3, null)
insert into t2 values (1, 'p'), (2, null), (null, null)
insert into t3 values (1, 1, 'q'), (2, null, null)
select s::text from (SELECT t1.a, count(t2), jsonb_agg(t2), num_nulls(t2), num_nonnulls(t2) FROM t1 LEFT JOIN t2 ON t1.a = t2.a GROUP BY t1.a, t2 ORDER BY 1) s
select s::text from (SELECT t1.a, t2, t2::text, row_to_json(t2), to_json(t2), to_jsonb(t2) FROM t1 LEFT JOIN t2 ON t1.a = t2.a ORDER BY 1) s
select s::text from (SELECT t1.a, t2 IS NULL, t2 IS NOT NULL, t2 IS DISTINCT FROM NULL, t2 IS NOT DISTINCT FROM NULL FROM t1 LEFT JOIN t2 ON t1.a = t2.a ORDER BY 1) s
select s::text from (SELECT t1.a, json_agg(t2), array_agg(t2), count(*), count(t2), count(t2.*) FROM t1 LEFT JOIN t2 ON t1.a = t2.a GROUP BY t1.a ORDER BY 1) s
select s::text from (SELECT count(t2), count(t1), count(t1.*) FROM t1 FULL JOIN t2 ON t1.a = t2.a) s
select s::text from (SELECT count(t2), count(t1) FROM t2 RIGHT JOIN t1 ON t1.a = t2.a) s
select s::text from (SELECT t1.a, q, count(q) FROM t1 LEFT JOIN (SELECT a, c FROM t2) q ON t1.a = q.a GROUP BY 1, 2 ORDER BY 1) s
select s::text from (SELECT t1.a, coalesce(q::text, 'none') FROM t1 LEFT JOIN LATERAL (SELECT c FROM t2 WHERE t2.a = t1.a) q ON true ORDER BY 1) s
select s::text from (SELECT t1.a, coalesce(q, row(7,'z')::t2) FROM t1 LEFT JOIN t2 q ON q.a = t1.a ORDER BY 1) s
select s::text from (SELECT t1.a, f, count(f) FROM t1 LEFT JOIN generate_series(1,2) f ON t1.a = f GROUP BY 1,2 ORDER BY 1) s
select s::text from (WITH q AS (SELECT * FROM t2) SELECT t1.a, q, count(q) FROM t1 LEFT JOIN q ON t1.a = q.a GROUP BY 1,2 ORDER BY 1) s
select s::text from (SELECT x.a, j, y, z FROM t1 x LEFT JOIN (t2 y JOIN t2 z ON y.a = z.a) ON x.a = y.a LEFT JOIN (t1 AS k CROSS JOIN t2 AS kk) AS j ON false ORDER BY 1) s
select s::text from (SELECT (t2).c, (t2).a FROM t1 LEFT JOIN t2 ON t1.a = t2.a ORDER BY t1.a) s
select s::text from (SELECT t1.a FROM t1 LEFT JOIN t2 ON t1.a = t2.a WHERE t2 IS NULL ORDER BY 1) s
select s::text from (SELECT t1.a FROM t1 LEFT JOIN t2 ON t1.a = t2.a WHERE t2 IS NOT NULL ORDER BY 1) s
select s::text from (SELECT t1.a FROM t1 LEFT JOIN t2 ON t1.a = t2.a WHERE NOT (t2 IS NOT NULL) ORDER BY 1) s
select s::text from (SELECT t1.a, (SELECT t2) FROM t1 LEFT JOIN t2 ON t1.a = t2.a ORDER BY 1) s
select s::text from (SELECT t1.a, (SELECT t2::text FROM (SELECT 1) s) , (SELECT count(t2)) FROM t1 LEFT JOIN t2 ON t1.a = t2.a GROUP BY t1.a, t2 ORDER BY 1) s
select s::text from (SELECT t1.a, EXISTS (SELECT 1 WHERE t2 IS NULL) FROM t1 LEFT JOIN t2 ON t1.a = t2.a ORDER BY 1) s
select s::text from (SELECT DISTINCT t2 FROM t1 LEFT JOIN t2 ON t1.a = t2.a ORDER BY t2) s
select s::text from (SELECT t2 FROM t1 LEFT JOIN t2 ON t1.a = t2.a ORDER BY t2 NULLS FIRST) s
select s::text from (SELECT coalesce(json_agg(t2) FILTER (WHERE t2.a IS NOT NULL), '[]') FROM t1 LEFT JOIN t2 ON t1.a = t2.a) s
select s::text from (SELECT json_agg(row_to_json(t2)), json_build_object('c', t2) FROM t1 LEFT JOIN t2 ON t1.a=t2.a GROUP BY t2 ORDER BY t2) s
select s::text from (SELECT row_number() OVER (ORDER BY t1.a), first_value(t2) OVER (ORDER BY t1.a DESC), lag(t2) OVER (ORDER BY t1.a) FROM t1 LEFT JOIN t2 ON t1.a=t2.a ORDER BY 1) s
select s::text from (SELECT s.t2, s.t2 IS NULL, count(s.t2) FROM (SELECT t2 FROM t1 LEFT JOIN t2 ON t1.a=t2.a) s GROUP BY 1 ORDER BY 1) s
select s::text from (SELECT ROW(NULL, ROW(NULL)) IS NULL, ROW(NULL, ROW(NULL)) IS NOT NULL, ROW(1, ROW(NULL)) IS NOT NULL, ROW(1, ROW(1,NULL)) IS NOT NULL, ROW(ROW(NULL,NULL)) IS NULL, ROW() IS NULL, ROW() IS NOT NULL) s
select s::text from (SELECT (NULL, NULL) IS NOT DISTINCT FROM NULL, (NULL, NULL) IS DISTINCT FROM NULL, ROW(1,NULL) IS NOT DISTINCT FROM NULL, NULL IS DISTINCT FROM ROW(NULL), ROW(NULL) IS NOT DISTINCT FROM ROW(NULL)) s
select s::text from (SELECT ROW(NULL, 1) IS DISTINCT FROM NULL::t2, NULL::t2 IS NULL, ROW(NULL,NULL)::t2 IS NOT DISTINCT FROM NULL) s
select s::text from (SELECT x IS NULL FROM (SELECT ROW(NULL, NULL) x) s) s
select s::text from (SELECT x IS NULL, y IS NULL, y IS NOT NULL FROM (SELECT ROW(NULL, ROW(NULL)) x, ROW(1, ROW(NULL)) y) s) s
select s::text from (SELECT num_nulls(ROW(NULL,NULL)), num_nonnulls(ROW(NULL)), num_nulls(NULL::t2), count(ROW(NULL)), count(NULL::t2)) s
select s::text from (SELECT t1.a, t3, count(t3), json_agg(t3) FROM t1 LEFT JOIN t3 ON t3.id = t1.a GROUP BY t1.a, t3.id ORDER BY 1) s
select s::text from (SELECT t1.a, q FROM t1 LEFT JOIN (SELECT 1 AS x, 2 AS y) q ON q.x = t1.a GROUP BY t1.a, q.x, q.y ORDER BY 1) s
select s::text from (SELECT t1.a, q FROM t1 LEFT JOIN (SELECT 1 AS x, NULL::int AS y) q ON q.x = t1.a ORDER BY 1) s
select s::text from (SELECT t1.a, q, (q).x, q.* FROM t1 LEFT JOIN (SELECT 1 AS x, NULL::int AS y) q ON q.x = t1.a ORDER BY 1) s
select s::text from (SELECT t1.a, (t3).*, ROW(t3.*), ROW(t3), ROW(t3.*) IS NULL FROM t1 LEFT JOIN t3 ON t3.id = t1.a ORDER BY 1) s
select s::text from (SELECT x.a, y, z FROM t1 x LEFT JOIN t3 y ON x.a = y.id LEFT JOIN t3 z ON z.id = y.x ORDER BY 1) s
select s::text from (SELECT x.a, y, z FROM t1 x LEFT JOIN (t3 y LEFT JOIN t3 z ON z.id = y.x) ON x.a = y.id ORDER BY 1) s
select s::text from (SELECT x.a, y, z FROM t3 y FULL JOIN t1 x ON x.a = y.id + 1 FULL JOIN (SELECT 7 AS k) z ON z.k = x.a ORDER BY 1, 2) s
select s::text from (SELECT x.a, y, z FROM t1 x LEFT JOIN LATERAL (SELECT id, y FROM t3 WHERE id = x.a) y ON true LEFT JOIN LATERAL (SELECT y.id + 1 AS m WHERE y.id > 1) z ON true ORDER BY 1) s
select s::text from (SELECT x.a, (SELECT count(y) FROM t3 w), (SELECT json_agg(y) FROM t3 w WHERE w.id = 1) FROM t1 x LEFT JOIN t3 y ON x.a = y.id GROUP BY x.a, y ORDER BY 1) s
select s::text from (SELECT x.a FROM t1 x LEFT JOIN t3 y ON x.a = y.id WHERE EXISTS (SELECT y) AND (SELECT y IS NOT DISTINCT FROM NULL) ORDER BY 1) s
select s::text from (SELECT count(y) FILTER (WHERE y IS NOT NULL), count(DISTINCT y), min(x.a) FROM t1 x LEFT JOIN t3 y ON x.a = y.id) s
select s::text from (WITH m AS MATERIALIZED (SELECT id FROM t3) SELECT x.a, m, g FROM t1 x LEFT JOIN m ON m.id = x.a LEFT JOIN generate_series(2, 3) WITH ORDINALITY g(v, o) ON v = x.a ORDER BY 1) s
select s::text from (SELECT x.a, j FROM t1 x LEFT JOIN (t3 y JOIN t3 z USING (id)) j ON j.id = x.a ORDER BY 1) s
select s::text from (SELECT s.r, s.r IS NULL, NOT (s.r IS NULL), NOT (s.r IS NOT NULL), s.r IS DISTINCT FROM NULL FROM (VALUES (ROW(1, NULL)), (ROW(NULL, NULL)), (ROW(1, 2)), (NULL)) s(r)) s
select s::text from (SELECT s.r FROM (SELECT t3 AS r FROM t3) s WHERE NOT (s.r IS NULL) ORDER BY 1) s
select s::text from (SELECT s.r FROM (SELECT t3 AS r FROM t3) s WHERE NOT (s.r IS NOT NULL) ORDER BY 1) s
select s::text from (SELECT t1.a, coalesce(json_agg(t3) FILTER (WHERE t3.id IS NOT NULL), '[]'::json), array_agg(t3), jsonb_agg(to_jsonb(t3) - 'x') FROM t1 LEFT JOIN t3 ON t3.id = t1.a GROUP BY t1.a ORDER BY 1) s
select s::text from (select t1.a, v, v is null, count(v) from t1 left join (values (1, 2)) v(x, y) on t1.a = v.x group by 1, 2 order by 1) s
create view vv as select x.a, y from t1 x left join t3 y on x.a = y.id
select s::text from (select * from vv order by 1) s
select s::text from (select a, (y).y from vv order by 1) s
select s::text from (select x.a, v from t1 x left join vv v on v.a = x.a + 1 order by 1) s
delete from t3 using t1 x left join t3 y on y.id = x.a where t3.id = 1 and x.a = 3 returning t3::text, y::text, y is null
