package bind

import (
	"fmt"
	"sort"
	"strings"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
)

// printer writes a logical tree for test expectations.
type printer struct {
	b     strings.Builder
	meta  *opt.Metadata
	depth int
}

func (p *printer) line(format string, args ...any) {
	p.b.WriteString(strings.Repeat("  ", p.depth))
	fmt.Fprintf(&p.b, format, args...)
	p.b.WriteByte('\n')
}

func (p *printer) ids(ids []opt.ColumnID) string {
	var s []string
	for _, id := range ids {
		s = append(s, p.id(id))
	}
	return strings.Join(s, ",")
}

func (p *printer) id(id opt.ColumnID) string {
	if id == 0 {
		return "-"
	}
	return fmt.Sprintf("%s%d", p.meta.Column(id).Name, id)
}

func (p *printer) expr(e scalar.Expr) string {
	if e == nil {
		return "-"
	}
	s := scalar.FormatWith(e, func(c *scalar.Column) string { return p.id(c.ID) })
	return s + ":" + e.Type().String()
}

func (p *printer) exprs(es []scalar.Expr) string {
	var s []string
	for _, e := range es {
		s = append(s, p.expr(e))
	}
	return strings.Join(s, " & ")
}

func (p *printer) subqueries(es ...scalar.Expr) {
	for _, e := range es {
		scalar.Walk(e, func(x scalar.Expr) bool {
			if q, ok := x.(*scalar.Subquery); ok {
				p.depth++
				p.line("subquery col=%s outer=%s", p.id(q.Col), p.ids(q.Outer))
				p.in(q.Plan.(opt.Rel))
				p.depth--
			}
			return true
		})
	}
}

func (p *printer) in(r opt.Rel) { p.depth++; p.rel(r); p.depth-- }

func (p *printer) items(its []opt.ProjectItem) string {
	var s []string
	for _, it := range its {
		s = append(s, p.id(it.Col)+"="+p.expr(it.Expr))
	}
	return strings.Join(s, ", ")
}

func (p *printer) order(os []opt.OrderColumn) string {
	var s []string
	for _, o := range os {
		t := p.id(o.Col)
		if o.Desc {
			t += " desc"
		}
		if o.NullsFirst {
			t += " nulls first"
		}
		s = append(s, t)
	}
	return strings.Join(s, ",")
}

func (p *printer) rel(r opt.Rel) {
	switch r := r.(type) {
	case *opt.Scan:
		s := ""
		if r.Locking.Strength != 0 {
			s = fmt.Sprintf(" lock=%d wait=%d", r.Locking.Strength, r.Locking.Wait)
		}
		if r.ForceIndex != 0 {
			s += fmt.Sprintf(" index=%d", r.ForceIndex)
		}
		p.line("scan %s(%s)%s", r.Table.Name, p.ids(r.Cols), s)
	case *opt.VirtualScan:
		p.line("virtual %s", r.Table.Name)
	case *opt.Values:
		p.line("values %s", p.ids(r.Cols))
		for _, row := range r.Rows {
			if len(row) > 0 {
				p.line("  (%s)", p.exprs(row))
			}
		}
	case *opt.Select:
		p.line("select %s", p.exprs(r.Filter))
		p.subqueries(r.Filter...)
		p.in(r.Input)
	case *opt.Project:
		p.line("project %s pass=%s", p.items(r.Items), p.ids(r.Pass))
		for _, it := range r.Items {
			p.subqueries(it.Expr)
		}
		p.in(r.Input)
	case *opt.ProjectSet:
		var s []string
		for _, f := range r.Funcs {
			t := fmt.Sprintf("%s(%s)->%s", f.Func.Name, p.exprs(f.Args), p.ids(f.Cols))
			if f.Ordinality != 0 {
				t += " ord " + p.id(f.Ordinality)
			}
			s = append(s, t)
		}
		p.line("projectset %s", strings.Join(s, ", "))
		p.in(r.Input)
	case *opt.Join:
		l := ""
		if r.Lateral {
			l = " lateral"
		}
		p.line("%s join%s on %s", r.Kind, l, p.exprs(r.On))
		p.subqueries(r.On...)
		p.in(r.Left)
		p.in(r.Right)
	case *opt.GroupBy:
		var s []string
		for _, a := range r.Aggs {
			s = append(s, p.id(a.Col)+"="+p.expr(a.Agg))
		}
		sc := ""
		if r.Scalar {
			sc = " scalar"
		}
		p.line("group%s by %s aggs %s", sc, p.ids(r.Group), strings.Join(s, ", "))
		p.in(r.Input)
	case *opt.Window:
		for _, it := range r.Items {
			f := it.Func + "(" + p.exprs(it.Args) + ")"
			if it.Agg != nil {
				f = p.expr(it.Agg)
			}
			fr := ""
			if it.Frame != nil {
				fr = fmt.Sprintf(" frame rows=%v %d..%d", it.Frame.Rows, it.Frame.Start, it.Frame.End)
			}
			p.line("window %s=%s partition %s order %s%s", p.id(it.Col), f, p.ids(it.PartitionBy), p.order(it.OrderBy), fr)
		}
		p.in(r.Input)
	case *opt.Distinct:
		p.line("distinct %s order %s", p.ids(r.On), p.order(r.OrderBy))
		p.in(r.Input)
	case *opt.SetOp:
		p.line("setop %d all=%v %s | %s -> %s", r.Kind, r.All, p.ids(r.LeftCols), p.ids(r.RightCols), p.ids(r.Out))
		p.in(r.Left)
		p.in(r.Right)
	case *opt.Sort:
		p.line("sort %s", p.order(r.By))
		p.in(r.Input)
	case *opt.Limit:
		p.line("limit %s offset %s", p.expr(r.Count), p.expr(r.Offset))
		p.in(r.Input)
	case *opt.Lock:
		p.line("lock")
		p.in(r.Input)
	case *opt.With:
		p.line("with %d %s(%s)", r.ID, r.Name, p.ids(r.Cols))
		p.in(r.Binding)
		if r.Recursive != nil {
			p.line("recursive %s all=%v", p.ids(r.RecursiveCols), r.RecursiveAll)
			p.in(r.Recursive)
		}
		p.in(r.Main)
	case *opt.WithScan:
		p.line("withscan %d(%s)", r.ID, p.ids(r.Cols))
	case *opt.Insert:
		p.line("insert %s source=%s upsert=%v", r.Table.Name, p.ids(r.Source), r.Upsert)
		if len(r.Checks) > 0 || len(r.Returning) > 0 || r.Conflict != nil && len(r.Conflict.Generated) > 0 {
			p.line("  new=%s", p.ids(r.New))
		}
		for _, c := range r.Checks {
			p.line("  check %s %s", c.Name, p.expr(c.Expr))
		}
		if c := r.Conflict; c != nil {
			p.line("  conflict %v update=%v existing=%s where %s", c.Arbiters, c.DoUpdate, p.ids(c.Existing), p.exprs(c.Where))
			for _, s := range c.Set {
				p.line("    set %s = %s", r.Table.Columns[s.Ordinal].Name, p.expr(s.Expr))
			}
			for _, s := range c.Generated {
				p.line("    then %s = %s", r.Table.Columns[s.Ordinal].Name, p.expr(s.Expr))
			}
		}
		if len(r.Returning) > 0 {
			p.line("  returning %s", p.items(r.Returning))
		}
		p.in(r.Input)
	case *opt.Update:
		p.line("update %s old=%s", r.Table.Name, p.ids(r.Old))
		for _, s := range r.Set {
			p.line("  set %s = %s", r.Table.Columns[s.Ordinal].Name, p.id(s.Col))
		}
		for _, c := range r.Checks {
			p.line("  check %s %s", c.Name, p.expr(c.Expr))
		}
		if len(r.Returning) > 0 {
			p.line("  new=%s returning %s", p.ids(r.New), p.items(r.Returning))
		}
		p.in(r.Input)
	case *opt.Delete:
		p.line("delete %s old=%s", r.Table.Name, p.ids(r.Old))
		if len(r.Returning) > 0 {
			p.line("  returning %s", p.items(r.Returning))
		}
		p.in(r.Input)
	default:
		p.line("%T", r)
	}
}

func printQuery(q *Query) string {
	p := &printer{meta: q.Meta}
	var out []string
	for _, o := range q.Output {
		out = append(out, fmt.Sprintf("%s=%s:%s", o.Name, p.id(o.Col), o.Type))
	}
	p.line("%s output %s", q.Tag, strings.Join(out, ", "))
	if len(q.ParamTypes) > 0 {
		var s []string
		for _, t := range q.ParamTypes {
			s = append(s, t.String())
		}
		p.line("params %s", strings.Join(s, ", "))
	}
	var acc []string
	for _, a := range q.Access {
		a.Privileges.Each(func(one catalog.Privileges) { acc = append(acc, one.Name()+" "+a.Table.Name) })
	}
	sort.Strings(acc)
	if len(acc) > 0 {
		p.line("needs %s", strings.Join(acc, ", "))
	}
	if q.AsOf != nil {
		p.line("as of %s", p.expr(q.AsOf))
	}
	p.rel(q.Root)
	return p.b.String()
}
