package parse

import (
	"slices"
	"testing"
)

// TestLayout: the queries of views in PostgreSQL's layout, without and with pretty; queries with other parts stay as they are.
func TestLayout(t *testing.T) {
	relation := func(path []string) (string, []string, []string, bool) {
		switch path[len(path)-1] {
		case "t1":
			return "t1", []string{"a", "b", "M x"}, []string{"b"}, true
		case "t2":
			return "t2", []string{"a", "x"}, nil, true
		case "far":
			return "o.far", []string{"z"}, nil, true
		case "times":
			return "times", []string{"year", "d"}, nil, true
		}
		return "", nil, nil, false
	}
	for _, v := range []struct{ text, columns, plain, pretty string }{
		{"SELECT 1", "?column?", `SELECT 1 AS "?column?"`, `SELECT 1 AS "?column?"`},
		{"SELECT a, b AS x FROM public.t1 WHERE (a > 1) AND (b = 'x')", "a x", "SELECT t1.a,\n    t1.b AS x\n   FROM t1\n  WHERE ((t1.a > 1) AND (t1.b = 'x'::text))",
			"SELECT t1.a,\n    t1.b AS x\n   FROM t1\n  WHERE t1.a > 1 AND t1.b = 'x'::text"},
		{`SELECT (a * 2) + 3 AS s, "M x" FROM public.t1 AS u`, "s M x", "SELECT ((u.a * 2) + 3) AS s,\n    u.\"M x\"\n   FROM t1 u", "SELECT u.a * 2 + 3 AS s,\n    u.\"M x\"\n   FROM t1 u"},
		{"SELECT t1.a, x FROM public.t1 LEFT JOIN public.t2 ON (t1.a = t2.a) AND (x > 1) CROSS JOIN o.far", "a x",
			"SELECT t1.a,\n    t2.x\n   FROM ((t1\n     LEFT JOIN t2 ON (((t1.a = t2.a) AND (t2.x > 1))))\n     CROSS JOIN o.far)",
			"SELECT t1.a,\n    t2.x\n   FROM t1\n     LEFT JOIN t2 ON t1.a = t2.a AND t2.x > 1\n     CROSS JOIN o.far"},
		{"SELECT t1.a FROM public.t1 JOIN (public.t2 JOIN o.far ON t2.a = z) USING (a), o.far AS g", "a",
			"SELECT t1.a\n   FROM (t1\n     JOIN (t2\n     JOIN o.far ON ((t2.a = z))) USING (a)),\n    o.far g",
			"SELECT t1.a\n   FROM t1\n     JOIN (t2\n     JOIN o.far ON t2.a = z) USING (a),\n    o.far g"},
		{"SELECT t1.a FROM public.t1 JOIN public.t2 ON left(b, 1) = 'x' JOIN (public.t2 AS v JOIN o.far ON v.a = z) ON t1.a = z", "a",
			"SELECT t1.a\n   FROM ((t1\n     JOIN t2 ON ((left(t1.b, 1) = 'x')))\n     JOIN (t2 v\n     JOIN o.far ON ((v.a = far.z))) ON ((t1.a = far.z)))",
			"SELECT t1.a\n   FROM t1\n     JOIN t2 ON left(t1.b, 1) = 'x'\n     JOIN (t2 v\n     JOIN o.far ON v.a = far.z) ON t1.a = far.z"},
		{"SELECT b, count(*) FROM public.t1 GROUP BY b HAVING count(*) > 1 ORDER BY 2 DESC, b LIMIT 5 OFFSET 2", "b count",
			"SELECT t1.b,\n    count(*) AS count\n   FROM t1\n  GROUP BY t1.b\n HAVING (count(*) > 1)\n  ORDER BY (count(*)) DESC, t1.b\n OFFSET 2\n LIMIT 5",
			"SELECT t1.b,\n    count(*) AS count\n   FROM t1\n  GROUP BY t1.b\n HAVING count(*) > 1\n  ORDER BY (count(*)) DESC, t1.b\n OFFSET 2\n LIMIT 5"},
		{"SELECT DISTINCT ON (b) b, a AS n FROM public.t1 ORDER BY b ASC, n DESC NULLS LAST", "b n",
			"SELECT DISTINCT ON (t1.b) t1.b,\n    t1.a AS n\n   FROM t1\n  ORDER BY t1.b, t1.a DESC NULLS LAST", "SELECT DISTINCT ON (t1.b) t1.b,\n    t1.a AS n\n   FROM t1\n  ORDER BY t1.b, t1.a DESC NULLS LAST"},
		{"SELECT a IS DISTINCT FROM 3 AS d, CASE WHEN a BETWEEN 1 AND 5 THEN 'x' ELSE b END AS c FROM public.t1", "d c",
			"SELECT (t1.a IS DISTINCT FROM 3) AS d,\n        CASE\n            WHEN ((t1.a >= 1) AND (t1.a <= 5)) THEN 'x'::text\n            ELSE t1.b\n        END AS c\n   FROM t1",
			"SELECT t1.a IS DISTINCT FROM 3 AS d,\n        CASE\n            WHEN t1.a >= 1 AND t1.a <= 5 THEN 'x'::text\n            ELSE t1.b\n        END AS c\n   FROM t1"},
		{"SELECT EXTRACT(year FROM d) AS y FROM public.times", "y", "", ""}, {"SELECT a FROM public.t1 UNION SELECT a FROM public.t2", "a", "", ""}, {"SELECT a FROM unknown", "a", "", ""},
		{"SELECT a FROM public.t1 WHERE a IN (SELECT a FROM public.t2)", "a", "", ""}, {"WITH w AS (SELECT 1) SELECT a FROM public.t1", "a", "", ""}, {"SELECT s FROM ROWS FROM (f(1)) AS s", "s", "", ""},
		{"SELECT sum(a) OVER () AS s FROM public.t1", "s", "", ""}, {"SELECT t2.a FROM public.t2 NATURAL JOIN public.t1", "a", "", ""}, {"SELECT a, b FROM public.t1", "a", "", ""},
	} {
		columns := []string{}
		for i, c := range []byte(v.columns) {
			if i == 0 || c == ' ' && v.columns[i-1] != 'M' {
				columns = append(columns, "")
			}
			if c != ' ' || v.columns[i-1] == 'M' {
				columns[len(columns)-1] += string(c)
			}
		}
		textual := func(i int) bool { return slices.Contains([]string{"b", "c", "x"}, columns[i]) }
		for _, pretty := range []bool{false, true} {
			want := v.plain
			if pretty {
				want = v.pretty
			}
			if want == "" {
				want = v.text
			}
			got := Layout(v.text, pretty, columns, textual, relation)
			if got != want {
				t.Errorf("%s\n got %s\nwant %s", v.text, got, want)
			}
			if again := Layout(got, pretty, columns, textual, relation); again != got && !pretty {
				t.Errorf("%s\nagain: %s", got, again)
			}
			if _, err := ParseOne(got); err != nil {
				t.Errorf("%s: %v", got, err)
			}
		}
	}
}
