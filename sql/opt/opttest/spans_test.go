package opttest

import (
	"fmt"
	"math/rand"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"meridian/sql/opt"
	"meridian/sql/types"
)

// TestSpansOfParameters holds the spans of an index to one rule: whether values are literals, parameters or columns of an
// outer row makes no difference to the keys that are read. Random predicates over indexes of one to three columns are run in
// each form, and compared with a naive plan.
func TestSpansOfParameters(t *testing.T) {
	narrow, lookups := 0, 0
	for seed := range int64(14) {
		rng := rand.New(rand.NewSource(seed))
		d := newDB(t)
		d.must("CREATE TABLE t (a INT8 NOT NULL, b INT8, c INT4 NOT NULL, s TEXT, k INT8 PRIMARY KEY)")
		for i, cols := range []string{"a", "b", "s", "a, b", "b DESC, a", "a, c, b", "c DESC, b, a DESC", "s, a"} {
			rest := ""
			for _, c := range []string{"a", "b", "c", "s"} {
				if !strings.Contains(cols, c) {
					rest += ", " + c
				}
			}
			d.must(fmt.Sprintf("CREATE INDEX t%d ON t (%s)%s", i, cols, stored(rest)))
		}
		d.must("CREATE UNIQUE INDEX tu ON t (c, k) STORING (a, b, s)")
		null := func(s string) string {
			if rng.Intn(8) == 0 {
				return "NULL"
			}
			return s
		}
		const rows = 300
		for k := range rows {
			d.must(fmt.Sprintf("INSERT INTO t VALUES (%d, %s, %d, %s, %d)", rng.Intn(domain), null(fmt.Sprint(rng.Intn(domain))), rng.Intn(domain),
				null(fmt.Sprintf("'%c'", 'a'+rng.Intn(domain))), k))
		}
		d.setStats("t", rows, map[string]int64{"a": domain, "b": domain, "c": domain, "s": domain, "k": rows})
		for range 60 {
			p := &predicates{rng: rng}
			where := p.conjunction(1 + rng.Intn(3))
			index := rng.Intn(9)
			from := "t"
			if rng.Intn(3) > 0 {
				from = "t@" + []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "tu"}[index]
			}
			text := fmt.Sprintf("SELECT k FROM %s WHERE %s", from, p.literals(where))
			param := fmt.Sprintf("SELECT k FROM %s WHERE %s", from, p.parameters(where))
			// The values are columns of an outer row.
			outer := fmt.Sprintf("SELECT (SELECT array_agg(k ORDER BY k) FROM %s WHERE %s) FROM (VALUES (%s)) AS o (%s)", from, p.columns(where),
				strings.Join(p.texts(), ", "), strings.Join(p.names(), ", "))
			want, _ := p.run(d, text, nil, true)
			a, readA := p.run(d, text, nil, false)
			b, readB := p.run(d, param, p.values, false)
			if !slices.Equal(a, want) || !slices.Equal(b, want) {
				t.Fatalf("seed %d: a full scan has %v\n%s has %v\n%s\n%s has %v\n%s", seed, want, text, a, p.plans[0], param, b, p.plans[1])
			}
			if readA < rows {
				narrow++
			}
			// Literals that are NULL or repeated simplify the expression around them.
			folded := len(p.values) > domain || slices.ContainsFunc(p.values, func(v value) bool { return v.d.IsNull() })
			if from != "t" && !folded && (readA != readB || shape(p.plans[0]) != shape(p.plans[1])) {
				t.Fatalf("seed %d: values %v\n%s reads %d keys\n%s\n%s reads %d keys\n%s", seed, p.texts(), text, readA, p.plans[0], param, readB, p.plans[1])
			}
			join := fmt.Sprintf("SELECT k FROM (VALUES (%s)) AS o (%s), %s WHERE %s", strings.Join(p.texts(), ", "), strings.Join(p.names(), ", "), from,
				p.columns(where))
			if rng.Intn(2) == 0 {
				d.perturb = func(c float64) float64 { return c * rng.ExpFloat64() * 10 }
			}
			e, _ := p.run(d, join, nil, false)
			d.perturb = nil
			plan := p.plans[len(p.plans)-1]
			if !slices.Equal(e, want) {
				t.Fatalf("seed %d: a full scan has %v\n%s has %v\n%s", seed, want, join, e, plan)
			}
			if strings.Contains(plan, "lookup: [") {
				lookups++
			}
			c, readC := p.run(d, outer, nil, false)
			list := "NULL"
			if len(want) > 0 {
				list = "{" + strings.Join(byNumber(want), ",") + "}"
			}
			if len(c) != 1 || c[0] != list {
				t.Fatalf("seed %d: %s has %v, a full scan %s\n%s", seed, outer, c, list, p.plans[3])
			}
			if from != "t" && !folded && strings.Contains(p.plans[3], "correlated subquery") && readC != readA {
				t.Fatalf("seed %d: values %v\n%s reads %d keys\n%s\n%s reads %d keys\n%s", seed, p.texts(), text, readA, p.plans[0], outer, readC, p.plans[3])
			}
		}
	}
	if lookups < 100 {
		t.Errorf("only %d lookup joins", lookups)
	}
	if narrow < 500 {
		t.Errorf("only %d predicates made spans", narrow)
	}
}

func stored(list string) string {
	if list == "" {
		return ""
	}
	return " STORING (" + list[2:] + ")"
}

// shape is a plan without its attributes. Lookups of the combinations of several arrays are called a scan.
func shape(plan string) string {
	var out []string
	for _, line := range strings.Split(plan, "\n") {
		if !attribute.MatchString(line) {
			out = append(out, strings.Replace(line, "point lookup", "scan", 1))
		}
	}
	return strings.Join(out, "\n")
}

var attribute = regexp.MustCompile(`^[│ ]+[a-z ]+: `)

func byNumber(list []string) []string {
	out := slices.Clone(list)
	sort.Slice(out, func(i, j int) bool {
		if len(out[i]) != len(out[j]) {
			return len(out[i]) < len(out[j])
		}
		return out[i] < out[j]
	})
	return out
}

// predicates makes conditions in which values stand as marks, to be printed in several forms.
type predicates struct {
	rng    *rand.Rand
	values []value
	unused []int
	plans  []string
}

type value struct {
	text string
	d    types.Datum
	t    *types.T
}

// domain is how many values a column has.
const domain = 20

// next draws values without repetition as long as there are any: equal literals are recognized as such, and conditions
// that several branches of a disjunction share are taken out of it.
func (p *predicates) next() int {
	if len(p.values)%domain == 0 {
		p.unused = p.rng.Perm(domain)
	}
	return p.unused[len(p.values)%domain]
}

// mark adds a value for a column.
func (p *predicates) mark(column string) string {
	var v value
	switch n := p.next(); {
	case p.rng.Intn(25) == 0:
		v = value{"NULL", types.Null, types.Int8}
		if column == "s" {
			v.t = types.Text
		}
	case column == "s":
		s := string(rune('a' + n%domain))
		v = value{"'" + s + "'", types.NewString(s), types.Text}
	default:
		v = value{fmt.Sprint(n % domain), types.NewInt(int64(n % domain)), types.Int8}
	}
	if v.d.IsNull() {
		v.text = "NULL::" + v.t.String()
	} else if column == "s" {
		v.text += "::text"
	} else {
		v.text += "::int8"
	}
	p.values = append(p.values, v)
	return fmt.Sprintf("{%d}", len(p.values)-1)
}

var marks = regexp.MustCompile(`\{(\d+)\}`)

func (p *predicates) print(s string, f func(int) string) string {
	return marks.ReplaceAllStringFunc(s, func(m string) string {
		var n int
		fmt.Sscanf(m, "{%d}", &n)
		return f(n)
	})
}

func (p *predicates) literals(s string) string {
	return p.print(s, func(n int) string { return p.values[n].text })
}

// parameters leaves some values as literals.
func (p *predicates) parameters(s string) string {
	all := p.rng.Intn(2) == 0
	if strings.Count(s, "ANY") == 1 && p.rng.Intn(2) == 0 { // an array whose length is not known
		s = arrays.ReplaceAllString(s, "ANY (array_remove(ARRAY[$1], NULL))")
	}
	return p.print(s, func(n int) string {
		switch {
		case all || p.rng.Intn(3) > 0:
			return fmt.Sprintf("$%d", n+1)
		case p.values[n].t == types.Int8 && p.rng.Intn(2) == 0:
			return fmt.Sprintf("($%d::text)::int8", n+1)
		}
		return p.values[n].text
	})
}

var arrays = regexp.MustCompile(`ANY \(ARRAY\[([^\]]*)\]\)`)

func (p *predicates) columns(s string) string {
	return p.print(s, func(n int) string { return fmt.Sprintf("o.p%d", n) })
}

func (p *predicates) texts() []string {
	out := []string{"0"}
	for _, v := range p.values {
		out = append(out, v.text)
	}
	return out
}

func (p *predicates) names() []string {
	out := []string{"p"}
	for i := range p.values {
		out = append(out, fmt.Sprintf("p%d", i))
	}
	return out
}

func (p *predicates) pick(xs ...string) string { return xs[p.rng.Intn(len(xs))] }

func (p *predicates) conjunction(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = p.condition(0)
	}
	return strings.Join(parts, " AND ")
}

// condition is one over columns a, b, c and s.
func (p *predicates) condition(depth int) string {
	col := p.pick("a", "a", "b", "c", "s")
	cols := [][]string{{"a", "b"}, {"b", "a"}, {"a", "c", "b"}, {"c", "b"}, {"c", "b", "a"}, {"s", "a"}, {"c", "k"}}[p.rng.Intn(7)]
	row := func() string {
		out := make([]string, len(cols))
		for i, c := range cols {
			out[i] = p.mark(c)
		}
		return "(" + strings.Join(out, ", ") + ")"
	}
	list := func(item func() string) string {
		out := make([]string, 1+p.rng.Intn(4))
		for i := range out {
			out[i] = item()
		}
		return strings.Join(out, ", ")
	}
	tuple := "(" + strings.Join(cols, ", ") + ")"
	switch n := p.rng.Intn(14); {
	case n < 3:
		return col + " " + p.pick("=", "=", "<", "<=", ">", ">=") + " " + p.mark(col)
	case n < 4:
		return col + " BETWEEN " + p.mark(col) + " AND " + p.mark(col)
	case n < 5:
		return col + " IN (" + list(func() string { return p.mark(col) }) + ")"
	case n < 6:
		return col + " = ANY (ARRAY[" + list(func() string { return p.mark(col) }) + "])"
	case n < 8:
		return tuple + " IN (" + list(row) + ")"
	case n < 10:
		return tuple + " " + p.pick("=", "<", "<=", ">", ">=") + " " + row()
	case n < 11:
		return p.mark(col) + " " + p.pick("=", "<", ">=") + " " + col
	case n < 12 && depth < 2:
		parts := make([]string, 2+p.rng.Intn(2))
		for i := range parts {
			parts[i] = "(" + p.condition(depth+1) + " AND " + p.condition(depth+1) + ")"
		}
		return "(" + strings.Join(parts, " OR ") + ")"
	case depth < 2:
		return "(" + p.condition(depth+1) + " OR " + p.condition(depth+1) + ")"
	}
	return col + " = " + p.mark(col)
}

// run executes a query and counts the keys that it read.
func (p *predicates) run(d *db, sql string, params []value, naive bool) ([]string, int) {
	d.t.Helper()
	d.params = nil
	var ts []*types.T
	for _, v := range params {
		d.params, ts = append(d.params, v.d), append(ts, v.t)
	}
	if naive {
		d.naive = true
		sql = strings.Replace(sql, "t@t", "t --", 1)
		if i := strings.Index(sql, "--"); i >= 0 {
			sql = sql[:i] + sql[i+strings.Index(sql[i:], " WHERE"):]
		}
	}
	plan, err := d.plan(sql, ts...)
	d.naive = false
	if err != nil {
		d.t.Fatalf("%s\n%v", sql, err)
	}
	if !naive {
		p.plans = append(p.plans, strings.Join(opt.Explain(plan, opt.ExplainOptions{}), "\n"))
	}
	d.read = 0
	rows, err := d.execute(plan)
	if err != nil {
		d.t.Fatalf("%s\n%v", sql, err)
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = rowText(r, []*types.T{plan.Output[0].Type})
	}
	sort.Strings(out)
	return out, d.read
}

// Arrays that are parameters: NULL elements match nothing, repeated ones once, and where there are too many combinations of two
// arrays the first alone limits what is read. IS NOT DISTINCT FROM finds NULL too.
func TestSpansOfArrays(t *testing.T) {
	d := newDB(t)
	d.must("CREATE TABLE t (a INT8, b INT8, k INT8 PRIMARY KEY)")
	d.must("CREATE INDEX ab ON t (a, b) STORING (k)")
	for k := range 400 {
		a := fmt.Sprint(k % 20)
		if k%20 == 7 {
			a = "NULL"
		}
		d.must(fmt.Sprintf("INSERT INTO t VALUES (%s, %d, %d)", a, k/20, k))
	}
	d.setStats("t", 100_000, map[string]int64{"a": 20, "b": 20, "k": 100_000})
	array := func(from, to int, more ...types.Datum) value {
		a := &types.Array{Elem: types.Int8, Elems: more}
		for i := from; i < to; i++ {
			a.Elems = append(a.Elems, types.NewInt(int64(i)))
		}
		return value{d: types.NewArray(a), t: types.ArrayOf(types.Int8)}
	}
	null := value{d: types.Null, t: types.ArrayOf(types.Int8)}
	one := value{d: types.NewInt(3), t: types.Int8}
	for _, c := range []struct {
		where  string
		values []value
		rows   int
		read   int
	}{
		{"a = ANY ($1)", []value{array(0, 3)}, 60, 60},
		{"a = ANY ($1)", []value{array(2, 4, types.Null, types.NewInt(2))}, 40, 40},
		{"a = ANY ($1)", []value{array(0, 0)}, 0, 0},
		{"a = ANY ($1)", []value{null}, 0, 0},
		{"a = ANY ($1) AND b = ANY ($2)", []value{array(0, 3), array(5, 7)}, 6, 6},
		{"a = ANY ($1) AND b = ANY ($2)", []value{array(0, 3), array(0, 10_000)}, 60, 60},
		{"a = ANY ($1) AND b = ANY ($2)", []value{array(0, 3), array(10, 20_000)}, 30, 60},
		{"a = ANY ($1) AND b >= $2", []value{array(0, 2), one}, 34, 34},
		{"a = ANY ($1) AND (b < $2 OR b = 9)", []value{array(0, 2), one}, 8, 8},
		{"k = ANY ($1)", []value{array(390, 5000)}, 10, 4610},
		{"a IS NOT DISTINCT FROM $1 AND b = 3", []value{one}, 1, 1},
		{"a IS NOT DISTINCT FROM $1 AND b = 3", []value{{d: types.Null, t: types.Int8}}, 1, 1},
		{"b = 2 AND k = ANY ($1) AND k > $2", []value{array(0, 100), one}, 20, 100},
		{"a > $1 AND a > $2 AND a <= $3", []value{one, {d: types.NewInt(9), t: types.Int8}, {d: types.NewInt(10), t: types.Int8}}, 20, 20},
	} {
		p := &predicates{}
		sql := "SELECT k FROM t WHERE " + c.where
		got, read := p.run(d, sql, c.values, false)
		want, _ := p.run(d, sql, c.values, true)
		if !slices.Equal(got, want) || len(got) != c.rows {
			t.Errorf("%s: %d rows, a full scan has %d, wanted %d\n%s", sql, len(got), len(want), c.rows, p.plans[0])
		}
		if read != c.read {
			t.Errorf("%s: read %d keys instead of %d\n%s", sql, read, c.read, p.plans[0])
		}
	}
}
