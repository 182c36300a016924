package session_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"meridian/sql/session/sessiontest"
)

// TestExplainJSON: what EXPLAIN (FORMAT JSON) answers is JSON with PostgreSQL's names, for every kind of node; each node has a type, a
// cost and, with ANALYZE, what happened.
func TestExplainJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := sessiontest.New(t, 1)
		defer cluster.Stop()
		a := cluster.Nodes[0].Open(t, "root")
		defer a.Close()
		answer := func(sql string) string {
			out := strings.TrimPrefix(a.Must(sql), "QUERY PLAN\n")
			return out[:strings.LastIndex(out, "\n")]
		}
		a.Must("create table a (i int primary key, j int, s text); create index on a (j); create table b (i int primary key, a int references a)")
		a.Must("insert into a select g, g % 3, 'x' || g from generate_series(1, 50) g; insert into b select g, g from generate_series(1, 50) g")
		for _, c := range []struct{ options, query, want string }{
			{"", "select * from a where i = 3", "Index Scan"},
			{"", "select * from a where s = 'x'", "Seq Scan"},
			{"analyze, ", "select a.j, count(*) from a join b on b.a = a.i group by 1 order by 2 limit 3", "Aggregate"},
			{"analyze, verbose, settings, ", "select (select max(i) from b), x from generate_series(1, 3) x", "ProjectSet"},
			{"costs off, ", "with w as materialized (select * from a) select * from w union select * from w", "CTE Scan"},
			{"analyze, timing off, summary off, ", "update a set j = j + 1 where i < 4", "ModifyTable"},
			{"analyze, buffers, ", "delete from b where i = 1 returning i", "ModifyTable"},
			{"", "insert into a values (100, 1, 'y') on conflict (i) do nothing", "ModifyTable"},
			{"", `select '"' || s from a where s <> '<"\' order by j + 1`, "Sort"},
		} {
			text := answer("explain (" + c.options + "format json) " + c.query)
			var plans []struct{ Plan map[string]any }
			if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 {
				t.Errorf("%s: %v\n%s", c.query, err, text)
				continue
			}
			types := map[string]bool{}
			var walk func(map[string]any)
			walk = func(n map[string]any) {
				name, _ := n["Node Type"].(string)
				if types[name] = true; name == "" {
					t.Errorf("%s: a node without a type: %v", c.query, n)
				}
				has := func(key string, want bool) {
					if _, ok := n[key]; ok != want {
						t.Errorf("%s: %s: %q is there: %v", c.query, name, key, ok)
					}
				}
				has("Total Cost", !strings.Contains(c.options, "costs off"))
				has("Plan Rows", !strings.Contains(c.options, "costs off"))
				has("Actual Rows", strings.Contains(c.options, "analyze"))
				has("Actual Total Time", strings.Contains(c.options, "analyze") && !strings.Contains(c.options, "timing off"))
				if !strings.Contains(c.options, "verbose") {
					has("Output", false) // of a node without columns there is none
				}
				plans, _ := n["Plans"].([]any)
				for _, p := range plans {
					walk(p.(map[string]any))
				}
			}
			walk(plans[0].Plan)
			for name := range types {
				if strings.Contains(c.want, name) {
					c.want = ""
				}
			}
			if c.want != "" {
				t.Errorf("%s: no %s in\n%s", c.query, c.want, text)
			}
			if yaml := answer("explain (" + c.options + "format yaml) " + c.query); !strings.HasPrefix(yaml, "- Plan: ") || !strings.Contains(yaml, "Node Type: \"") {
				t.Errorf("%s: YAML\n%s", c.query, yaml)
			}
		}
	})
}
