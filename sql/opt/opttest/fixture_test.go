package opttest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"meridian/encoding"
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/exec"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/rowcode"
	"meridian/sql/scalar"
	"meridian/sql/scalar/system"
	"meridian/sql/types"
	"meridian/txn"
)

// db is a catalogue and a store in memory, enough to bind, optimize and run statements.
type db struct {
	t        testing.TB
	registry *scalar.Registry
	tables   map[string]*catalog.Table
	next     catalog.ID
	stats    map[catalog.ID]*catalog.Statistics
	data     map[string][]byte
	sorted   []string
	stale    bool
	naive    bool
	perturb  func(float64) float64
	joins    int
	off      opt.Rules
	params   []types.Datum
	read     int   // keys that statements looked at
	found    int   // values that GetFound has found
	page     int64 // of scans, if not zero
	scans    int   // pages that were read
	gateway  string
	far      []far
}

func newDB(t testing.TB) *db {
	return &db{t: t, registry: system.NewBuiltins(), tables: map[string]*catalog.Table{}, next: catalog.FirstUserID,
		stats: map[catalog.ID]*catalog.Statistics{}, data: map[string][]byte{}}
}

var database = &catalog.Database{ID: 100, Name: "d", Schemas: map[string]catalog.ID{"public": catalog.PublicSchemaID}}

func (d *db) Database(_ context.Context, name string) (*catalog.Database, error) {
	if name == "d" {
		return database, nil
	}
	return nil, nil
}

func (d *db) Databases(context.Context) ([]*catalog.Database, error) {
	return []*catalog.Database{database}, nil
}

func (d *db) Table(_ context.Context, _, schema, name string) (*catalog.Table, error) {
	if schema != "" && schema != "public" && schema != "pg_catalog" {
		return nil, nil
	}
	return d.tables[name], nil
}

func (d *db) TableByID(_ context.Context, id catalog.ID) (*catalog.Table, error) {
	for _, t := range d.tables {
		if t.ID == id {
			return t, nil
		}
	}
	return nil, nil
}

func (d *db) Tables(context.Context, string) ([]*catalog.Table, error) {
	var out []*catalog.Table
	for _, t := range d.tables {
		out = append(out, t)
	}
	return out, nil
}

func (d *db) Schema(_ context.Context, _, name string) (*catalog.Schema, error) {
	if name == "public" {
		return &catalog.Schema{ID: catalog.PublicSchemaID, Name: name, Database: 100}, nil
	}
	return nil, nil
}

func (d *db) Schemas(ctx context.Context, database string) ([]*catalog.Schema, error) {
	s, _ := d.Schema(ctx, database, "public")
	return []*catalog.Schema{s}, nil
}

func (d *db) Users(context.Context) ([]*catalog.User, error) {
	return []*catalog.User{{Name: "root", Superuser: true}}, nil
}
func (d *db) CurrentDatabase() string { return "d" }
func (d *db) SearchPath() []string    { return []string{"public"} }
func (d *db) CurrentUser() string     { return "root" }

// Type, TypeByID and Types implement catalog.TypeView: there is the enum of regions.
func (d *db) Type(_ context.Context, _, name string) (*catalog.Type, error) {
	if name != regions.Enum.Name {
		return nil, nil
	}
	return &catalog.Type{ID: catalog.ID(regions.Enum.ID), Enum: *regions.Enum}, nil
}

func (d *db) TypeByID(ctx context.Context, id catalog.ID) (*catalog.Type, error) {
	if id != catalog.ID(regions.Enum.ID) {
		return nil, nil
	}
	return d.Type(ctx, "", regions.Enum.Name)
}

func (d *db) Types(ctx context.Context) ([]*catalog.Type, error) {
	t, err := d.Type(ctx, "", regions.Enum.Name)
	return []*catalog.Type{t}, err
}

func (d *db) Access() *catalog.Access {
	return catalog.NewAccess(catalog.NewRoles([]*catalog.User{{Name: "root", Superuser: true}}), nil)
}
func (d *db) Statistics(_ context.Context, id catalog.ID) (*catalog.Statistics, error) {
	return d.stats[id], nil
}

func (d *db) bind(sql string, params ...*types.T) (bind.Statement, error) {
	stmt, err := parse.ParseOne(sql)
	if err != nil {
		return nil, err
	}
	b := &bind.Binder{View: d, Registry: d.registry, ParamTypes: params, Location: time.UTC}
	return b.Bind(context.Background(), stmt)
}

func (d *db) env() opt.Env {
	return opt.Env{Registry: d.registry, Naive: d.naive, Region: d.region(), Perturb: d.perturb, JoinPairs: d.joins, Off: d.off, GatewayRegion: d.gateway,
		Statistics: func(id catalog.ID) *catalog.Statistics { return d.stats[id] }}
}

func (d *db) plan(sql string, params ...*types.T) (*opt.Plan, error) {
	s, err := d.bind(sql, params...)
	if err != nil {
		return nil, err
	}
	q, ok := s.(*bind.Query)
	if !ok {
		return nil, fmt.Errorf("%T has no plan", s)
	}
	return opt.Optimize(q.Query, d.env())
}

// run executes a statement: a query, or CREATE TABLE and CREATE INDEX.
func (d *db) run(sql string) ([]types.Row, error) {
	s, err := d.bind(sql)
	if err != nil {
		return nil, err
	}
	switch s := s.(type) {
	case *bind.CreateTable:
		return nil, d.createTable(s)
	case *bind.CreateIndex:
		return nil, d.createIndex(s)
	case *bind.Query:
		p, err := opt.Optimize(s.Query, d.env())
		if err != nil {
			return nil, err
		}
		return d.execute(p)
	}
	return nil, fmt.Errorf("cannot run %T", s)
}

func (d *db) execute(p *opt.Plan) ([]types.Row, error) {
	ctx := context.Background()
	prog, err := exec.Build(ctx, p, exec.Options{View: d})
	if err != nil {
		return nil, fmt.Errorf("build: %w\n%s", err, strings.Join(opt.Explain(p, opt.ExplainOptions{}), "\n"))
	}
	st := &store{db: d}
	c, err := prog.Start(ctx, &exec.Env{Txn: st, Scalar: &scalar.Context{Context: ctx, Params: d.params, Location: time.UTC, Env: environment{d: d}}})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var out []types.Row
	for {
		row, err := c.Next(ctx)
		if err != nil {
			return nil, err
		}
		if row == nil {
			st.StepStatement()
			return out, nil
		}
		out = append(out, slices.Clone(row))
	}
}

// must runs a statement that does not fail.
func (d *db) must(sql string) []types.Row {
	d.t.Helper()
	rows, err := d.run(sql)
	if err != nil {
		d.t.Fatalf("%s\n%v", sql, err)
	}
	return rows
}

type environment struct {
	system.Environment
	d *db
}

var rowID int64

func (environment) UniqueRowID() int64 { rowID++; return rowID }

func (environment) Random() float64 { rowID++; return float64(rowID) * 1e-9 }

func (d *db) createTable(c *bind.CreateTable) error {
	d.next++
	t := &catalog.Table{ID: d.next, Version: 1, Name: c.Name.Name, Database: 100, Schema: catalog.PublicSchemaID, NextIndex: 1, ImplicitPrimary: c.ImplicitPrimary}
	for i, col := range c.Columns {
		t.Columns = append(t.Columns, catalog.Column{ID: catalog.ColumnID(i + 1), Name: col.Name, Type: col.Type, NotNull: col.NotNull,
			Default: col.Default, Hidden: col.Hidden})
	}
	for pass := range 2 {
		for _, k := range c.Constraints {
			switch {
			case k.Kind == bind.PrimaryKey && pass == 0:
				t.Indexes = append(t.Indexes, d.index(t, bind.IndexDef{Name: k.Name, Unique: true, Primary: true, Columns: k.Columns}))
				for _, ic := range t.Indexes[0].Columns {
					t.Column(ic.Column).NotNull = true
				}
			case k.Kind == bind.Unique && pass == 1:
				t.Indexes = append(t.Indexes, d.index(t, bind.IndexDef{Name: k.Name, Unique: true, Columns: k.Columns}))
			}
		}
	}
	for _, ix := range c.Indexes {
		t.Indexes = append(t.Indexes, d.index(t, ix))
	}
	if c.Parent != nil { // without a foreign key: a row may have no parent
		t.Interleave = &catalog.Interleave{Ancestors: c.Parent.AsAncestors()}
		c.Parent.Shared, c.Parent.Interleaved = true, append(c.Parent.Interleaved, t.ID)
	}
	d.tables[t.Name] = t
	return nil
}

func (d *db) createIndex(c *bind.CreateIndex) error {
	t := *c.Table
	t.Version++
	t.Indexes = append(slices.Clone(t.Indexes), d.index(&t, c.Index))
	d.tables[t.Name] = &t
	return nil
}

func (d *db) index(t *catalog.Table, def bind.IndexDef) catalog.Index {
	ix := catalog.Index{ID: t.NextIndex, Name: def.Name, Unique: def.Unique, Primary: def.Primary, Predicate: def.Predicate}
	t.NextIndex++
	if t.ByRow() {
		ix.Columns, ix.Implicit = append(ix.Columns, catalog.IndexColumn{Column: t.RegionColumn}), 1
	}
	for _, c := range def.Columns {
		ix.Columns = append(ix.Columns, catalog.IndexColumn{Column: t.ColumnByName(c.Name).ID, Desc: c.Desc})
	}
	for _, c := range def.Storing {
		ix.Stored = append(ix.Stored, t.ColumnByName(c).ID)
	}
	return ix
}

// setStats sets the numbers of a table's rows and of its columns' distinct values.
func (d *db) setStats(table string, rows int64, distinct map[string]int64) {
	t := d.tables[table]
	s := &catalog.Statistics{Rows: rows, Columns: map[catalog.ColumnID]catalog.ColumnStatistics{}}
	for name, n := range distinct {
		s.Columns[t.ColumnByName(name).ID] = catalog.ColumnStatistics{Distinct: n}
	}
	d.stats[t.ID] = s
}

// analyze counts a table's rows and values, and makes histograms of ten parts.
func (d *db) analyze(table string) {
	d.t.Helper()
	t := d.tables[table]
	s := &catalog.Statistics{Columns: map[catalog.ColumnID]catalog.ColumnStatistics{}}
	rows := d.must("SELECT * FROM " + table)
	s.Rows = int64(len(rows))
	for i := range t.Columns {
		var values [][]byte
		distinct := map[string]bool{}
		for _, r := range rows {
			if r[i].IsNull() {
				continue
			}
			key, err := rowcode.AppendKeyDatum(nil, r[i], encoding.Ascending)
			if err != nil {
				d.t.Fatal(err)
			}
			distinct[string(key)] = true
			values = append(values, key[:min(len(key), catalog.HistogramValueBytes)])
		}
		nulls := len(rows) - len(values)
		s.Columns[t.Columns[i].ID] = catalog.ColumnStatistics{Distinct: int64(len(distinct)), NullCount: int64(nulls),
			Histogram: catalog.NewHistogram(values, nulls, true, 10)}
	}
	d.stats[t.ID] = s
}

func (d *db) tableByID(id catalog.ID) *catalog.Table {
	for _, t := range d.tables {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// far is the distance of an index's rows that begin with a prefix.
type far struct {
	table   catalog.ID
	index   catalog.IndexID
	prefix  []byte
	d       opt.Distance
	masters opt.Masters
	// majority is how far a majority of the replicas is, in microseconds; zero: all are near.
	majority float64
}

// setDistances reads the lines of the script's command.
func (d *db) setDistances(text string) {
	d.t.Helper()
	d.far = nil
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		name, value, partial := strings.Cut(f[0], "/")
		var at far
		for _, t := range d.tables {
			for i := range t.Indexes {
				if t.Indexes[i].Name == name {
					at.table, at.index = t.ID, t.Indexes[i].ID
				}
			}
		}
		ms, err := strconv.ParseFloat(f[2], 64)
		if at.table == 0 || err != nil {
			d.t.Fatalf("distances: %q, %v", line, err)
		}
		if partial {
			at.prefix = encoding.AppendString(nil, value, encoding.Ascending)
			if v, ok := regions.Enum.Find(value); ok && d.tableByID(at.table).ByRow() {
				at.prefix, _ = rowcode.AppendKeyDatum(nil, types.NewInt(v.Place), encoding.Ascending)
			}
		}
		at.d = opt.Distance{Leaseholder: ms * 1000, Sum: ms * 1000, Ranges: 1, Nearest: ms * 1000, Regions: []string{f[1]}}
		if ms < 5 {
			at.d.Sum, at.d.Ranges, at.d.Regions = 0, 0, nil
		}
		if len(f) > 3 {
			of, text, _ := strings.Cut(f[3], "=")
			q, err := strconv.ParseFloat(text, 64)
			if err != nil {
				d.t.Fatal(err)
			}
			if of == "commit" { // in one round, or in so many
				at.d.Commit, at.d.CommitRounds, at.d.CommitRegions = q*1000, 1, []string{"quorum"}
				for _, more := range f[4:] {
					switch of, text, _ := strings.Cut(more, "="); of {
					case "majority":
						at.majority, _ = strconv.ParseFloat(text, 64)
						at.majority *= 1000
					case "rounds":
						at.d.CommitRounds, _ = strconv.Atoi(text)
					case "classic": // by masters: milliseconds, rounds, and the masters' region
						part := strings.Split(text, "/")
						ms, _ := strconv.ParseFloat(part[0], 64)
						at.masters.Micros, at.masters.Regions = ms*1000, part[2:]
						if at.masters.Rounds, _ = strconv.Atoi(part[1]); at.masters.Rounds > 1 {
							at.masters.Far = part[2:]
						}
					}
				}
			} else {
				at.d.Quorum, at.d.WideQuorum = q*1000, true
			}
		}
		d.far = append(d.far, at)
	}
}

func (d *db) region() opt.Region {
	if d.far == nil {
		return opt.Region{}
	}
	return opt.Region{Masters: func(p opt.Place) (out opt.Masters) {
		for _, f := range d.far {
			if f.table == p.Table && f.index == p.Index {
				out = f.masters
			}
		}
		return out
	}, Distance: func(p opt.Place) (out opt.Distance) {
		for _, f := range d.far {
			if f.table == p.Table && (p.Index == 0 || f.index == p.Index) &&
				(len(p.Prefix) == 0 || bytes.HasPrefix(p.Prefix, f.prefix)) {
				if p.Majority && f.majority > 0 {
					f.d.Leaseholder, f.d.Sum, f.d.Ranges, f.d.Regions = f.majority, f.majority, 1, []string{"majority"}
				}
				out.Leaseholder, out.Nearest, out.Quorum = max(out.Leaseholder, f.d.Leaseholder), max(out.Nearest, f.d.Nearest), max(out.Quorum, f.d.Quorum)
				out.Sum, out.Ranges, out.WideQuorum = out.Sum+f.d.Sum, out.Ranges+f.d.Ranges, out.WideQuorum || f.d.WideQuorum
				out.Regions = append(out.Regions, f.d.Regions...)
				out.Commit, out.CommitRounds = max(out.Commit, f.d.Commit), max(out.CommitRounds, f.d.CommitRounds)
				out.CommitRegions = append(out.CommitRegions, f.d.CommitRegions...)
			}
		}
		return out
	}}
}

// store is a transaction over the map of a db. A statement does not see its own writes.
type store struct {
	db      *db
	pending map[string][]byte // nil values are deletions
}

func (s *store) StepStatement() {
	for k, v := range s.pending {
		if v == nil {
			delete(s.db.data, k)
		} else {
			s.db.data[k] = v
		}
	}
	clear(s.pending)
	s.db.stale = true
}

func (s *store) keys() []string {
	if s.db.stale {
		s.db.sorted = s.db.sorted[:0]
		for k := range s.db.data {
			s.db.sorted = append(s.db.sorted, k)
		}
		sort.Strings(s.db.sorted)
		s.db.stale = false
	}
	return s.db.sorted
}

func (s *store) Get(_ context.Context, k keys.Key, _ kv.LockStrength, _ kv.WaitPolicy) ([]byte, error) {
	s.db.read++
	return s.db.data[string(k)], nil
}

// GetFound reads keys from the last one on, and fails if more of them have values than the caller said.
func (s *store) GetFound(_ context.Context, ks []keys.Key, enough int, _ kv.LockStrength, _ kv.WaitPolicy) ([][]byte, error) {
	out := make([][]byte, len(ks))
	found := 0
	for i := len(ks) - 1; i >= 0; i-- {
		v := s.db.data[string(ks[i])]
		if v == nil {
			continue
		}
		if found++; found > enough {
			return nil, fmt.Errorf("exec: of %d keys more than %d have values", len(ks), enough)
		}
		out[i] = v
		s.db.read++
	}
	s.db.found += found
	return out, nil
}

func (s *store) GetMany(_ context.Context, ks []keys.Key, _ kv.LockStrength, _ kv.WaitPolicy) ([][]byte, error) {
	s.db.read += len(ks)
	out := make([][]byte, len(ks))
	for i, k := range ks {
		out[i] = s.db.data[string(k)]
	}
	return out, nil
}

// Scan drops the rows that a filter does not want, and passes over parts without any.
func (s *store) Scan(_ context.Context, o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	if n := s.db.page; n > 0 && (o.MaxRows == 0 || o.MaxRows > n) {
		o.MaxRows = n
	}
	rows, rest, err := s.scan(o)
	if o.Filter == nil || len(rows) == 0 || err != nil {
		return rows, rest, err
	}
	if last := rows[len(rows)-1].Key; rest != nil && !o.Filter.Owns(last) {
		if after := o.Filter.After(last); !o.Reverse && rest.Start.Less(after) {
			rest.Start = after
		}
		if before := o.Filter.Before(last); o.Reverse && before.Less(rest.End) {
			rest.End = before
		}
		if !rest.Start.Less(rest.End) {
			rest = nil
		}
	}
	rows = slices.DeleteFunc(rows, func(p kv.KeyValue) bool { return !o.Filter.Owns(p.Key) })
	return rows, rest, nil
}

func (s *store) scan(o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	s.db.scans++
	all := s.keys()
	from, to := sort.SearchStrings(all, string(o.Span.Start)), sort.SearchStrings(all, string(o.Span.Stop()))
	var rows []kv.KeyValue
	for i := range all[from:to] {
		k := all[from+i]
		if o.Reverse {
			k = all[to-1-i]
		}
		if o.MaxRows > 0 && int64(len(rows)) == o.MaxRows {
			last := rows[len(rows)-1].Key
			if o.Reverse {
				return rows, &keys.Span{Start: o.Span.Start, End: last}, nil
			}
			return rows, &keys.Span{Start: last.Next(), End: o.Span.Stop()}, nil
		}
		s.db.read++
		rows = append(rows, kv.KeyValue{Key: keys.Key(k), Value: s.db.data[k]})
	}
	return rows, nil, nil
}

func (s *store) ScanMany(ctx context.Context, spans []keys.Span, o txn.ScanOptions) ([][]kv.KeyValue, error) {
	out := make([][]kv.KeyValue, len(spans))
	for i, sp := range spans {
		o.MaxRows = 0
		for rest := &sp; rest != nil; {
			var rows []kv.KeyValue
			o.Span = *rest
			rows, rest, _ = s.Scan(ctx, o)
			out[i] = append(out[i], rows...)
		}
	}
	return out, nil
}

func (s *store) Write(_ context.Context, b *txn.WriteBatch) error {
	for w := range b.Writes() {
		old, written := s.pending[string(w.Key)]
		if !written {
			old = s.db.data[string(w.Key)]
		}
		if w.Kind == txn.WritePutNew && old != nil {
			return &kv.ConditionFailedError{Key: w.Key, Actual: old}
		}
	}
	if s.pending == nil {
		s.pending = map[string][]byte{}
	}
	for w := range b.Writes() {
		k, v := string(w.Key), w.Value
		switch w.Kind {
		case txn.WritePutNew, txn.WritePut:
			s.pending[k] = v
		case txn.WriteDelete:
			s.pending[k] = nil
		default:
			return fmt.Errorf("store: write of kind %d", w.Kind)
		}
	}
	return nil
}

func (s *store) CommitBatch(ctx context.Context, b *txn.WriteBatch) error {
	return s.Write(ctx, b)
}

func rowText(r types.Row, ts []*types.T) string {
	parts := make([]string, len(r))
	for i, d := range r {
		if d.IsNull() {
			parts[i] = "NULL"
			continue
		}
		parts[i] = string(types.AppendText(nil, d, ts[i], nil))
	}
	return strings.Join(parts, "|")
}

// regions is the enum of a database's regions.
var regions = types.EnumOf(&types.Enum{ID: 90, Array: 91, Schema: "public", Name: catalog.RegionEnumName, Values: []types.EnumValue{
	{Label: "ap", Place: types.EnumGap}, {Label: "eu", Place: 2 * types.EnumGap}, {Label: "us", Place: 3 * types.EnumGap}}})

// byRow makes an empty table REGIONAL BY ROW; new rows are homed in us if they do not say otherwise.
func (d *db) byRow(name string) {
	t := *d.tables[name]
	t.RegionColumn = catalog.ColumnID(len(t.Columns) + 1)
	t.Columns = append(slices.Clone(t.Columns), catalog.Column{ID: t.RegionColumn, Name: catalog.RegionColumn, Type: regions, NotNull: true, Default: "'us'", Hidden: true})
	t.Indexes = slices.Clone(t.Indexes)
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if x.Columns[0].Column != t.RegionColumn {
			x.Columns, x.Implicit = append([]catalog.IndexColumn{{Column: t.RegionColumn}}, x.Columns...), 1
		}
	}
	d.tables[name] = &t
}

// computed makes the region of a table's rows a generated column.
func (d *db) computed(name, expr string) {
	t := *d.tables[name]
	t.Columns = slices.Clone(t.Columns)
	c := t.Column(t.RegionColumn)
	c.Default, c.Generated = "", expr
	d.tables[name] = &t
}

// home sets the region of the rows that follow.
func (d *db) home(name, region string) {
	t := *d.tables[name]
	t.Columns = slices.Clone(t.Columns)
	t.Column(t.RegionColumn).Default = "'" + region + "'"
	d.tables[name] = &t
}
