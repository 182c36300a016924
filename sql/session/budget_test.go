package session_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/sql/memory"
	"meridian/sql/session"
	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
	"meridian/sql/virtual"
)

// operators has, for each node of a plan, a statement that holds much in it, and how EXPLAIN calls the node.
var operators = map[string]struct{ name, text string }{
	"IndexScan":       {"scan t@", "SELECT a, s FROM t"},
	"VirtualNode":     {"virtual table", "SELECT count(*) FROM pg_attribute a"},
	"ValuesNode":      {"values", "SELECT length(x) FROM (VALUES (repeat('x', 300000)), (repeat('y', 300000))) v (x)"},
	"FilterNode":      {"filter", "SELECT max(s) m FROM t GROUP BY a % 100 HAVING max(s) > '0' ORDER BY 1"},
	"ProjectNode":     {"project", "SELECT s || repeat('x', 100000) IS NULL FROM t ORDER BY 1"},
	"ProjectSetNode":  {"project set", "SELECT count(*) FROM (SELECT generate_series(1, a % 10) FROM t) x"},
	"IndexJoin":       {"index join", "SELECT a, s FROM t WHERE b = 7 ORDER BY a"},
	"LookupJoin":      {"lookup join", "SELECT count(y.s) FROM few x JOIN t y ON x.a = y.a"},
	"HashJoin":        {"hash join", "SELECT count(*), max(x.s), max(y.s) FROM $t x JOIN $t y ON x.s = y.s"},
	"MergeJoin":       {"merge join", "SELECT count(*), max(x.s), max(y.s) FROM t x JOIN t y ON x.a = y.a"},
	"InterleavedJoin": {"interleaved join", "SELECT count(*), max(h.s), max(i.s) FROM h JOIN i ON h.a = i.a"},
	"NestedLoop":      {"nested loop", "SELECT count(*) FROM few x JOIN t y ON x.s < y.s"},
	"GroupNode":       {"group", "SELECT s, count(*) FROM $t g GROUP BY s ORDER BY s LIMIT 3"},
	"WindowNode":      {"window", "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY s) r, s FROM $t g) x"},
	"DistinctNode":    {"distinct", "SELECT count(*) FROM (SELECT DISTINCT s FROM $t g) x"},
	"SetOpNode":       {"intersect", "SELECT count(*) FROM (SELECT s FROM $t g INTERSECT SELECT s FROM $t h) x"},
	"SortNode":        {"sort", "SELECT s FROM $t g ORDER BY s DESC OFFSET 1999"},
	"LimitNode":       {"limit", "SELECT a, s FROM t ORDER BY a LIMIT 10"},
	"LockNode":        {"lock rows", "SELECT a, s FROM t WHERE length(s) > 3 ORDER BY s DESC FOR UPDATE"},
	"WithNode":        {"with x", "WITH x AS MATERIALIZED (SELECT s FROM $t g) SELECT count(*) FROM (SELECT s FROM x UNION ALL SELECT s FROM x) y"},
	"WithScanNode":    {"scan of with", "WITH RECURSIVE r (n, x) AS (SELECT 1, 'x' UNION ALL SELECT n + 1, x || x FROM r WHERE n < 15) SELECT max(length(x)) FROM r"},
	"LocalitySearch":  {"local first", "SELECT s FROM w WHERE a IN (1, 5)"},
	"InsertNode":      {"insert", "INSERT INTO u SELECT a, s FROM t"},
	"UpdateNode":      {"update", "UPDATE t SET s = s || 'x'"},
	"DeleteNode":      {"delete", "DELETE FROM t RETURNING a"},
}

// holding are the nodes that hold a megabyte by themselves: no other node of their statement does.
var holding = map[string]bool{"HashJoin": true, "GroupNode": true, "WindowNode": true, "DistinctNode": true, "SetOpNode": true, "SortNode": true, "WithNode": true}

// TestOperatorsKeepToTheirMemory: each node of a plan keeps to its statement's memory: the statement has the same answer as with much
// memory, or fails with 53200 (I9); and all memory is released after the answer, the error, a cancel, and when a portal is closed of which only
// a part was read (memory.ME3).
func TestOperatorsKeepToTheirMemory(t *testing.T) {
	for _, k := range planNodes(t) {
		if _, ok := operators[k]; !ok {
			t.Errorf("no statement for %s", k)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.NewIn(t, 1, []virtual.NodeRow{{ID: 1, Region: "us", Live: true}, {ID: 2, Region: "eu", Live: true}})
		defer cl.Stop()
		n := cl.Nodes[0]
		n.Server.Region = "us"
		root := n.Open(t, "root")
		root.Must("ALTER DATABASE defaultdb PRIMARY REGION us; ALTER DATABASE defaultdb ADD REGION eu")
		root.Must("CREATE TABLE w (a INT PRIMARY KEY, s TEXT) LOCALITY REGIONAL BY ROW; INSERT INTO w VALUES (1, 'x'), (5, 'y')")
		root.Must("CREATE TABLE t (a INT PRIMARY KEY, b INT, s TEXT); CREATE INDEX ON t (b); CREATE TABLE u (a INT PRIMARY KEY, s TEXT)")
		root.Must("CREATE TABLE h (a INT PRIMARY KEY, s TEXT)")
		root.Must("CREATE TABLE i (a INT, b INT, s TEXT, PRIMARY KEY (a, b)) INTERLEAVE IN PARENT h ON DELETE CASCADE")
		root.Must("INSERT INTO h SELECT i, repeat('h', 5000) FROM generate_series(1, 100) i; INSERT INTO i SELECT i % 100 + 1, i, i || repeat('s', 500) FROM generate_series(1, 2000) i")
		root.Must("INSERT INTO t SELECT i, i % 50, i || repeat('s', 500) FROM generate_series(1, 2000) i")
		root.Must("CREATE TABLE few (a INT PRIMARY KEY, s TEXT); INSERT INTO few VALUES (1, 'x'), (5, 'y')")
		time.Sleep(time.Minute) // ANALYZE reads a moment ago
		root.Must("ANALYZE t; ANALYZE few; ANALYZE h; ANALYZE i")
		time.Sleep(time.Minute)
		defer root.Close()
		refused, answered := 0, 0
		for kind, o := range operators {
			// A set-returning function streams a megabyte; a scan would hold pages of it.
			o.text = strings.ReplaceAll(o.text, "$t", "(SELECT i AS a, i || repeat('s', 500) AS s FROM generate_series(1, 2000) i)")
			if plan := root.Must("EXPLAIN " + o.text); !strings.Contains(plan, o.name) {
				t.Errorf("%s: %q is not in the plan of %s:\n%s", kind, o.name, o.text, plan)
			}
			want := ""
			for limit := int64(256 << 20); limit >= 1<<10; limit /= 4 {
				node := memory.NewNode(1 << 30)
				n.Server.Memory, n.Server.MemoryPerStatement = node, limit
				s := n.Open(t, "root")
				check := func(what string) {
					t.Helper()
					s.Exec("ROLLBACK")
					if used := s.Memory().Used(); used > 16<<10 { // its settings
						t.Errorf("%s with %d bytes: %d are left %s", kind, limit, used, what)
					}
				}
				n.Server.MemoryPerStatement = 0
				s.Must("BEGIN")
				n.Server.MemoryPerStatement = limit
				got, err := s.Exec(o.text)
				switch {
				case err == nil && limit == 256<<10 && holding[kind]:
					t.Errorf("%s with %d bytes: a megabyte was not accounted for", kind, limit)
				case err == nil && want == "":
					want, answered = got, answered+1
				case err == nil && got != want:
					t.Errorf("%s with %d bytes: another answer", kind, limit)
				case err == nil:
					answered++
				case !sessiontest.ErrIs(err, sqlstate.OutOfMemory):
					t.Errorf("%s with %d bytes: %s", kind, limit, sessiontest.Describe(err))
				default:
					refused++
				}
				if most := node.Most(); most > limit+64<<10 {
					t.Errorf("%s with %d bytes: held %d", kind, limit, most)
				}
				check("at the end")
				ctx, cancel := context.WithCancel(context.Background())
				cl.Meet(func(*kv.Batch) { cancel() })
				s.ExecContext(ctx, o.text)
				cl.Meet(func(*kv.Batch) {})
				check("after a cancel")
				s.Must("BEGIN")
				if s.Parse(t.Context(), "", o.text, nil) == nil && s.Bind(t.Context(), "p", "", &session.Binding{}) == nil {
					s.Execute(t.Context(), "p", 1, false)
					s.ClosePortal("p")
					s.CloseStatement("")
				}
				check("after a portal was closed")
				s.Close()
				if used := node.Used(); used != 0 {
					t.Errorf("%s with %d bytes: %d are left when the session has ended", kind, limit, used)
				}
			}
			n.Server.Memory, n.Server.MemoryPerStatement = nil, 0
		}
		if refused < 2*len(operators) || answered < 2*len(operators) {
			t.Errorf("%d refused, %d answered", refused, answered)
		}
		t.Log(refused, "refused,", answered, "answered")
	})
}

// planNodes lists the nodes that the compiler of programs handles.
func planNodes(t *testing.T) (all []string) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "exec", "op.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if c, ok := n.(*ast.CaseClause); ok {
			for _, e := range c.List {
				if p, ok := e.(*ast.StarExpr); ok {
					if x, ok := p.X.(*ast.SelectorExpr); ok && x.X.(*ast.Ident).Name == "opt" {
						all = append(all, x.Sel.Name)
					}
				}
			}
		}
		return true
	})
	if len(all) < 20 {
		t.Errorf("%d nodes only", len(all))
	}
	return all
}
