package bind

import (
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// The table parameter infer_rbr_region_col_using_constraint names a foreign key with the region column in it: a row is homed where the row is to which it
// refers. A statement that does not say the region of a row looks the parent up by the key's other columns, and takes its region. To the planner that is a
// left join with the parent below the change, so it is a lookup, at home first, of all rows of the statement at once. The rows that it finds are those that the foreign key
// wants (opt.Locking.Check).
//
//	INSERT   no parent: the column's default
//	UPDATE   if it assigns one of the key's columns; no parent: the row stays where it is. ON CONFLICT DO UPDATE and UPSERT likewise

// inference says how the region of a table's rows is found.
type inference struct {
	table, parent *catalog.Table
	region, home  int   // the ordinals of the region columns of the table and of the parent
	cols, refs    []int // the ordinals of the key's other columns, in the table and in the parent
	// one: no two rows of the parent have equal values in refs.
	one bool
	// given says that an INSERT has values for the region column. flag, if not zero, is true in the rows of which it wants the DEFAULT.
	given bool
	flag  opt.ColumnID
	// found has the parent's region after the lookup, NULL without a parent; zero: nothing was looked up.
	found opt.ColumnID
}

// inference is nil for a table without the parameter.
func (b *builder) inference(t *catalog.Table) *inference {
	k := t.Inferred()
	if k == nil {
		return nil
	}
	f := &inference{table: t, parent: t, region: t.Ordinal(t.RegionColumn)}
	if k.RefTable != t.ID {
		var err error
		f.parent, err = b.View.TableByID(b.ctx, k.RefTable)
		check(err)
		b.uses(f.parent)
	}
	for i, id := range k.Columns {
		if ref := f.parent.Ordinal(k.RefColumns[i]); id == t.RegionColumn {
			f.home = ref
		} else {
			f.cols, f.refs = append(f.cols, t.Ordinal(id)), append(f.refs, ref)
		}
	}
	for i := range f.parent.Indexes {
		x := &f.parent.Indexes[i]
		key := x.Columns
		if f.parent.Worldwide(x) {
			key = x.UserColumns()
		}
		f.one = f.one || (x.Unique || x.Primary) && x.State == catalog.Public && x.Predicate == "" &&
			!slices.ContainsFunc(key, func(c catalog.IndexColumn) bool { return !slices.Contains(f.refs, f.parent.Ordinal(c.Column)) })
	}
	return f
}

// matches is a scan of the parent with the conditions that a row's values make, and the column with the parent's region.
func (b *builder) matches(f *inference, values []scalar.Expr) (*opt.Scan, []scalar.Expr, *scalar.Column) {
	rel := b.scanned(f.parent)
	column := func(ord int) *scalar.Column {
		c := &f.parent.Columns[ord]
		return &scalar.Column{ID: rel.Cols[ord], T: c.Type, Name: c.Name}
	}
	rel.Locking.Check = true
	on := make([]scalar.Expr, len(f.refs))
	for i, ord := range f.refs {
		on[i] = b.compare(scalar.EQ, column(ord), values[i], nil)
	}
	return rel, on, column(f.home)
}

// scanned is a scan of all public columns of a table that the statement does not name.
func (b *builder) scanned(t *catalog.Table) *opt.Scan {
	b.charge(columnBytes * int64(len(t.Columns)))
	ids := make([]opt.ColumnID, len(t.Columns))
	for i := range t.Columns {
		if c := &t.Columns[i]; c.State == catalog.Public {
			ids[i] = b.meta.Add(opt.ColumnMeta{Name: c.Name, Type: c.Type, Table: t, Column: c.ID, Alias: t.Name, NotNull: c.NotNull})
		}
	}
	return &opt.Scan{Table: t, Cols: ids, Region: b.computedRegion(t, ids)}
}

// parentRegion looks the parents of input's rows up. values are the key's other columns, and pass are the input's columns that leave.
func (b *builder) parentRegion(f *inference, input opt.Rel, values []scalar.Expr, pass []opt.ColumnID) *opt.Project {
	t := f.table.Columns[f.region].Type
	p := &opt.Project{Input: input, Pass: pass}
	f.found = b.meta.Add(opt.ColumnMeta{Name: "parent_region", Type: t})
	var found scalar.Expr
	if f.one {
		scan, on, home := b.matches(f, values)
		p.Input = &opt.Join{Kind: opt.LeftJoin, Left: input, Right: scan, On: on}
		found = home
	} else {
		found = b.anyParent(f, values)
	}
	p.Items = []opt.ProjectItem{{Col: f.found, Expr: b.assign(found, &f.table.Columns[f.region], nil)}}
	return p
}

// anyParent is the region of one of the parents of a row, if the key's other columns are not unique: of a near one if there is one.
func (b *builder) anyParent(f *inference, values []scalar.Expr) scalar.Expr {
	scan, on, home := b.matches(f, values)
	var outer []opt.ColumnID
	for _, v := range values {
		scalar.Columns(v, func(id scalar.ColumnID) { outer = appendID(outer, id) })
	}
	one := &scalar.Const{Value: types.NewInt(1), T: types.Int8}
	return &scalar.Subquery{Kind: scalar.SubqueryScalar, Outer: outer, T: home.T, Col: home.ID, Plan: &opt.Limit{Count: one,
		Input: &opt.Project{Input: filter(scan, &scalar.And{Args: on}), Pass: []opt.ColumnID{home.ID}}}}
}

// orElse is the parent's region, or, if there is none, another expression.
func (f *inference) orElse(e scalar.Expr) scalar.Expr {
	t := f.table.Columns[f.region].Type
	return &scalar.Coalesce{Args: []scalar.Expr{&scalar.Column{ID: f.found, T: t, Name: "parent_region"}, e}, T: t}
}

// column is a column of the table under an identity; NULL if that is zero.
func (f *inference) column(ord int, ids []opt.ColumnID) scalar.Expr {
	c := &f.table.Columns[ord]
	if ids[ord] == 0 {
		return &scalar.Const{Value: types.Null, T: c.Type}
	}
	return &scalar.Column{ID: ids[ord], T: c.Type, Name: c.Name}
}

// lookUp looks the parents of the rows of an INSERT up, unless that was done.
func (b *builder) lookUp(f *inference, ins *opt.Insert) {
	if f.found != 0 {
		return
	}
	var pass []opt.ColumnID
	for _, id := range append(slices.Clone(ins.Source), f.flag) {
		if id != 0 {
			pass = appendID(pass, id)
		}
	}
	values := make([]scalar.Expr, len(f.cols))
	for i, ord := range f.cols {
		values[i] = f.column(ord, ins.Source)
	}
	ins.Input = b.parentRegion(f, ins.Input, values, pass)
}

// inferInsert gives the rows of an INSERT the regions of their parents, where the statement has no other.
func (b *builder) inferInsert(f *inference, ins *opt.Insert) {
	if f.given && f.flag == 0 || slices.ContainsFunc(f.cols, func(ord int) bool { return ins.Source[ord] == 0 }) {
		return // the key has a NULL
	}
	b.lookUp(f, ins)
	c := &f.table.Columns[f.region]
	was := f.column(f.region, ins.Source)
	x := f.orElse(was)
	if f.flag != 0 {
		x = &scalar.Case{Whens: []scalar.When{{Cond: &scalar.Column{ID: f.flag, T: types.Bool}, Result: x}}, Else: was, T: c.Type}
	}
	p := &opt.Project{Input: ins.Input, Pass: []opt.ColumnID{f.found}}
	for i, id := range ins.Source {
		if id != 0 && i != f.region {
			p.Pass = appendID(p.Pass, id)
		}
	}
	id := b.meta.Add(opt.ColumnMeta{Name: c.Name, Type: c.Type})
	p.Items = []opt.ProjectItem{{Col: id, Expr: x}}
	ins.Source[f.region], ins.Input = id, p
}

// assigns reports whether assignments change the key's other columns, and not the region.
func (f *inference) assigns(set []opt.SetItem) bool {
	return assigned(set, f.region) == nil && slices.ContainsFunc(f.cols, func(ord int) bool { return assigned(set, ord) != nil })
}

// assigned is what a column is assigned; nil: nothing.
func assigned(set []opt.SetItem, ord int) scalar.Expr {
	for _, s := range set {
		if s.Ordinal == ord {
			return s.Expr
		}
	}
	return nil
}

// inferConflict adds the region to the assignments of ON CONFLICT DO UPDATE that change the key's other columns.
func (b *builder) inferConflict(f *inference, ins *opt.Insert, c *opt.Conflict) {
	if f == nil || !f.assigns(slices.Concat(c.Set, c.Generated)) {
		return
	}
	// now is the value of a column in the row as assigned.
	now := func(ord int) scalar.Expr {
		if e := assigned(c.Set, ord); e != nil {
			return e
		}
		return f.column(ord, c.Existing)
	}
	values := make([]scalar.Expr, len(f.cols))
	proposed := true // they are those of the row that the statement would insert
	for i, ord := range f.cols {
		values[i] = now(ord)
		if e := assigned(c.Generated, ord); e != nil {
			values[i] = scalar.ReplaceColumns(e, func(x *scalar.Column) scalar.Expr {
				if at := slices.Index(ins.New, x.ID); at >= 0 {
					return now(at)
				}
				return x
			})
		}
		x, ok := values[i].(*scalar.Column)
		proposed = proposed && ok && x.ID == ins.Source[ord]
		if scalar.VolatilityOf(values[i]) == scalar.Volatile {
			raise(sqlstate.New(sqlstate.FeatureNotSupported, "ON CONFLICT DO UPDATE can't find the region of a row by a value that is different each time").
				WithHint("Assign column \"%s\", too.", f.table.Columns[f.region].Name))
		}
	}
	was := f.column(f.region, c.Existing)
	if proposed {
		b.lookUp(f, ins)
		c.Set = append(c.Set, opt.SetItem{Ordinal: f.region, Expr: f.orElse(was)})
		return
	}
	col := &f.table.Columns[f.region]
	found := b.assign(b.anyParent(f, values), col, nil)
	c.Set = append(c.Set, opt.SetItem{Ordinal: f.region, Expr: &scalar.Coalesce{Args: []scalar.Expr{found, was}, T: col.Type}})
}

// inferUpdate looks the parents of updated rows up. fresh are the columns with the new row, and pass are those that leave. It returns the projections that find
// the region, from the lower part.
func (b *builder) inferUpdate(f *inference, u *opt.Update, input *opt.Project, fresh []opt.ColumnID) []*opt.Project {
	pass := slices.Clone(input.Pass)
	for _, it := range input.Items {
		pass = append(pass, it.Col)
	}
	values := make([]scalar.Expr, len(f.cols))
	for i, ord := range f.cols {
		values[i] = f.column(ord, fresh)
	}
	p := b.parentRegion(f, input, values, pass)
	top := &opt.Project{Input: p, Pass: slices.Clone(pass)}
	c := &f.table.Columns[f.region]
	id := b.meta.Add(opt.ColumnMeta{Name: c.Name, Type: c.Type})
	top.Items = []opt.ProjectItem{{Col: id, Expr: f.orElse(f.column(f.region, u.Old))}}
	u.Set = append(u.Set, opt.SetColumn{Ordinal: f.region, Col: id})
	return []*opt.Project{p, top}
}

// askDefault counts the rows of a VALUES list that have DEFAULT in one place.
func askDefault(rows []tree.Exprs, at int) (n int) {
	for _, r := range rows {
		if at < len(r) {
			if _, ok := r[at].(tree.DefaultVal); ok {
				n++
			}
		}
	}
	return n
}
