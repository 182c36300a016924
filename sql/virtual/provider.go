package virtual

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"meridian/clock/truetime"
	"meridian/kv"
	"meridian/placement"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/exec"
	"meridian/sql/job"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/upgrade"
)

// Session is the part of the reading session that relations show.
type Session interface {
	User() string
	Database() string
	Superuser() bool
	// Settings calls f for each setting.
	Settings(f func(Setting))
	// Prepared are the prepared statements that have a name.
	Prepared() []PreparedStatement
	// Cursors are the SQL cursors.
	Cursors() []Cursor
}

// PreparedStatement is one row of pg_prepared_statements.
type PreparedStatement struct {
	Name, Text      string
	At              time.Time
	Types           []uint32
	FromSQL         bool
	Generic, Custom int64
}

// Cursor is one row of pg_cursors.
type Cursor struct {
	Name, Text           string
	Hold, Binary, Scroll bool
	At                   time.Time
}

// Setting is one row of pg_settings.
type Setting struct {
	Name, Setting, Unit, Category, About, Context, Vartype, Source string
	Min, Max                                                       string // of numbers
	Enum                                                           []string
	Boot, Reset                                                    string
}

// Activity is one session as pg_stat_activity shows it.
type Activity struct {
	PID                            int32
	User, Database, Application    string
	Remote, State, Query           string
	Opened, QueryStart, StateSince time.Time
	// WaitEvent is the event for which an active session waits: WaitAdvisory, WaitSleep or an event of Meridian's own; empty:
	// none is known.
	WaitEvent string
	// Node is the session's node, Txn its open transaction, which began at TxnStart; zero if none is open.
	Node     kv.NodeID
	Txn      kv.TxnID
	TxnStart time.Time
	// Advisory are the advisory locks that the session has or waits for, as the transaction Holder.
	Advisory []AdvisoryLock
	Holder   kv.TxnID
}

// AdvisoryLock is an advisory lock of a session, or its wait for one.
type AdvisoryLock struct {
	Database, Class, Object uint32
	Sub                     int16 // 1: the lock of one bigint, 2: of two integers
	Shared, Granted         bool
	Since                   time.Time // of a wait
}

// LockRow is a lock of a row, or the wait for one, as the node Node has it in the lock table of a range.
type LockRow struct {
	Node  kv.NodeID
	Range kv.RangeID
	// Table is the table of the row; zero if the key belongs to none. Row distinguishes the rows of a table, and reveals
	// nothing else of them.
	Table, Row uint32
	Txn        kv.TxnID // zero: a request outside of transactions
	Gateway    kv.NodeID
	Strength   kv.LockStrength // NoLock: a plain read that waits
	Granted    bool
	Advisory   bool // the key is that of an advisory lock, which the holder's session shows
	// Of a wait: the transactions in the way, and since when.
	For   []kv.LockHolder
	Since time.Time
}

// Report is the activity of all nodes' sessions, and their waits. It is collected within some milliseconds, node by
// node.
type Report struct {
	Sessions []Activity
	Locks    []LockRow
	At       time.Time
	// Silent are the nodes that did not answer.
	Silent []kv.NodeID
}

// NodeRow is one node of the cluster.
type NodeRow struct {
	ID                           kv.NodeID
	Address, SQL, HTTP, Locality string
	Region, Zone, Version        string
	Incarnation                  int64
	Live, Draining               bool
	// Gone nodes were decommissioned.
	Gone           bool
	Started        time.Time
	Ranges, Leases int64
	ClockOffset    time.Duration
}

// RangeRow is one range.
type RangeRow struct {
	ID          kv.RangeID
	Start, End  []byte
	Leaseholder kv.NodeID
	Region      string
	Replicas    []kv.NodeID
	Bytes       int64
	// WantedVoters is the number of voters that there should be, LiveVoters that of voters on live nodes. State is "ok",
	// "under-replicated" or "unavailable".
	WantedVoters, LiveVoters int
	State                    string
	// Violation says which constraints of its configuration the range violates; empty: none.
	Violation string
}

// Cluster is the part of the cluster that relations show; the server implements it. Any method may return nil.
type Cluster interface {
	// Report asks all nodes for their sessions, and also for locks and waits if so asked.
	Report(ctx context.Context, locks bool) Report
	Nodes(ctx context.Context) ([]NodeRow, error)
	// Ranges lists the ranges that overlap a span.
	Ranges(ctx context.Context, start, end []byte) ([]RangeRow, error)
	// Universe lists the zones of the cluster.
	Universe(ctx context.Context) ([]ZoneRow, error)
	// Fit compares the ranges of a span with their configurations.
	Fit(ctx context.Context, start, end []byte) (Fit, error)
	// Violations are the constraints that ranges do not meet.
	Violations(ctx context.Context) ([]Violation, error)
	// Statements counts the statements that this node ran, by kind.
	Statements() map[string]int64
	// Clocks are the other nodes' clocks as this node has measured them, and its own.
	Clocks() []ClockRow
	// TimeSources are the time masters of this node.
	TimeSources() []truetime.Master
	// Versions are the versions of the cluster and of its nodes.
	Versions(ctx context.Context) (upgrade.View, error)
	// Retries counts the retries on this node.
	Retries() []RetryRow
}

// ZoneRow is one zone: the nodes of one region and zone of their localities.
type ZoneRow struct {
	Region, Zone string
	Nodes        []kv.NodeID
	// Live, Suspect, Dead and Draining count them by their states; State is that of the zone.
	Live, Suspect, Dead, Draining int
	State                         string
	Leaders, Replicas, Bytes      int64
	// Arriving and Leaving are replicas that moves under way bring and take away.
	Arriving, Leaving int64
	// Epsilon bounds how far the clock of any of the nodes may be from true time.
	Epsilon time.Duration
}

// Fit is how far the replicas of a span's ranges are where their configurations want them.
type Fit struct {
	Ranges int
	Bytes  int64
	// Replicas says where they are: voters by region, non-voters in parentheses, and the regions of the leases.
	Replicas string
	// Reason is what the first of those ranges lacks that are not in place; empty: all are. Stuck says that it can't be helped as long as the nodes are as they are.
	Reason string
	Stuck  bool
}

// Violation is a range that violates constraints: replicas are on Forbidden nodes, and too few are where the Missing constraints want some.
type Violation struct {
	Range     kv.RangeID
	Start     []byte
	Forbidden []kv.NodeID
	Missing   []string
	// Protocol is the commit protocol that the range is to have and has not; empty: it has it.
	Protocol string
}

// ClockRow is one node's clock: Offset is how far it is ahead of the answering node's, with an error of at most Error.
type ClockRow struct {
	Node               kv.NodeID
	Offset, Error, Max time.Duration
	Measured           time.Time // zero: never
	State              string
	// Source is where the node has its time from, and Epsilon how uncertain that was when it was measured; empty and zero: not known.
	Source  string
	Epsilon time.Duration
}

// RetryRow counts one kind of retry.
type RetryRow struct {
	Kind  string
	Count int64
	About string
}

// Options are the options of a Provider. All but Catalog may be zero.
type Options struct {
	Catalog   *Catalog
	Registry  *scalar.Registry
	Leases    *lease.Manager
	Sequences *lease.Sequences
	Jobs      *job.Registry
	Cluster   Cluster
	NodeID    func() kv.NodeID
	// Zone is the configuration of ranges that the cluster's settings and the node's options give; nil: placement.DefaultZone.
	Zone func() placement.Zone
	// Version is the version in pg_settings and meridian_internal.
	Version string
}

// Provider computes relations. It has no state but counters.
type Provider struct {
	o    Options
	rows map[*catalog.Table]generator
	cols map[*catalog.Table]map[string]int
	work Work
}

// generator writes a relation's rows.
type generator func(r *reading) error

// New makes a provider.
func New(o Options) *Provider {
	p := &Provider{o: o, rows: map[*catalog.Table]generator{}, cols: map[*catalog.Table]map[string]int{}}
	for _, t := range o.Catalog.Tables() {
		m := make(map[string]int, len(t.Columns))
		for i := range t.Columns {
			m[t.Columns[i].Name] = i
		}
		p.cols[t] = m
	}
	for name, g := range generators() {
		t := o.Catalog.tables[name]
		if t == nil {
			panic("virtual: no columns for " + name)
		}
		p.rows[t] = g
	}
	return p
}

// Tables computes relations for a session, over its view.
func (p *Provider) Tables(view catalog.View, s Session) exec.VirtualTables {
	return &tables{p, view, s}
}

type tables struct {
	p    *Provider
	view catalog.View
	s    Session
}

// Rows implements exec.VirtualTables.
func (t *tables) Rows(ctx context.Context, read exec.VirtualRead) ([]types.Row, error) {
	if read.Table.Kind == catalog.KindSequence {
		return t.sequence(ctx, read)
	}
	g := t.p.rows[read.Table]
	if g == nil {
		return nil, nil
	}
	r := &reading{ctx: ctx, p: t.p, view: t.view, s: t.s, table: read.Table, cols: t.p.cols[read.Table], keys: read.Keys}
	for _, k := range read.Keys {
		if len(k.Values) == 0 {
			return nil, nil
		}
	}
	r.slots, r.zero = make([]int, len(read.Table.Columns)), make(types.Row, len(read.Ordinals))
	for i := range r.slots {
		r.slots[i] = -1
	}
	// A counter that Meridian does not keep is unknown, not zero.
	unknown := strings.HasPrefix(read.Table.Name, "pg_stat")
	for slot, ord := range read.Ordinals {
		r.slots[ord] = slot
		if unknown {
			continue
		}
		switch read.Table.Columns[ord].Type.Kind {
		case types.KindBool:
			r.zero[slot] = types.NewBool(false)
		case types.KindInt2, types.KindInt4, types.KindInt8, types.KindOID:
			r.zero[slot] = types.NewInt(0)
		case types.KindFloat4, types.KindFloat8:
			r.zero[slot] = types.NewFloat(0)
		case types.KindRegProc, types.KindRegType, types.KindRegClass:
			r.zero[slot] = types.NewReg(0, "-")
		case types.KindChar:
			r.zero[slot] = types.NewString("")
		}
	}
	if len(read.Table.Lookups) > 0 {
		r.identities = r.values(read.Table.Columns[read.Table.Ordinal(read.Table.Lookups[0])].Name)
	}
	err := g(r)
	t.p.work.Rows.Add(int64(len(r.out)))
	if err != nil {
		return nil, err
	}
	return r.out, nil
}

// localOf has the session's temporary relations; nil if there are none.
func localOf(v catalog.View) *lease.Local {
	if l, ok := v.(*lease.View); ok {
		return l.Txn().Local()
	}
	return nil
}

// sequence is the one row of a sequence. Its log_cnt, the count of numbers that PostgreSQL has logged ahead, is always
// 0.
func (t *tables) sequence(ctx context.Context, read exec.VirtualRead) ([]types.Row, error) {
	if t.p.o.Sequences == nil {
		return nil, nil
	}
	last, called, err := t.p.o.Sequences.LastFor(ctx, localOf(t.view), read.Table)
	if err != nil {
		return nil, err
	}
	all := types.Row{types.NewInt(last), types.NewInt(0), types.NewBool(called)}
	row := make(types.Row, len(read.Ordinals))
	for i, ord := range read.Ordinals {
		row[i] = all[ord]
	}
	return []types.Row{row}, nil
}

// Work counts the work of computed relations since the node started.
type Work struct {
	// Relations are descriptors that were read for rows, Rows the rows that were made from them.
	Relations, Rows atomic.Int64
}

// Work is the provider's work since the node started.
func (p *Provider) Work() *Work { return &p.work }

// reading is one computation of a relation.
type reading struct {
	ctx   context.Context
	p     *Provider
	view  catalog.View
	s     Session
	table *catalog.Table
	cols  map[string]int
	keys  []exec.VirtualKey
	// identities are the values of the relation's first lookup column for which rows are needed; nil: all.
	identities []types.Datum
	// slots has the position in a row of each of the relation's columns, -1 for those that are not needed.
	slots []int
	zero  types.Row
	slab  types.Row
	out   []types.Row
	fn    *Functions
	// memo has the columns of the last call of add: a generator gives the same names for each row.
	memo []named
}

type named struct {
	name string
	slot int
	t    *types.T
}

// values are the values to which a column is limited; nil if it is not.
func (r *reading) values(column string) []types.Datum {
	for _, k := range r.keys {
		if r.table.Columns[k.Ordinal].Name == column {
			return k.Values
		}
	}
	return nil
}

// skip reports that rows of an identity are not needed.
func (r *reading) skip(id uint32) bool {
	if r.identities == nil {
		return false
	}
	for _, d := range r.identities {
		if d.Phys() == types.PhysInt && uint32(d.Int()) == id {
			return false
		}
	}
	return true
}

// wants reports that a column is needed.
func (r *reading) wants(column string) bool { return r.slots[r.cols[column]] >= 0 }

// slabRows bounds how many rows are allocated at once.
const slabRows = 64

// row makes a row of the columns' zero values. Rows share allocations, which grow with their number.
func (r *reading) row() types.Row {
	n := len(r.zero)
	if n == 0 {
		return types.Row{} // count(*) needs no column; nil would be no row
	}
	if len(r.slab) < n {
		r.slab = make(types.Row, n*min(slabRows, len(r.out)+1))
	}
	row := r.slab[:n:n]
	r.slab = r.slab[n:]
	copy(row, r.zero)
	return row
}

// add writes a row: names and values in turn. A value is a Datum or a Go value that the column's type has.
func (r *reading) add(pairs ...any) {
	row := r.row()
	r.out = append(r.out, row)
	r.put(row, pairs)
}

// set changes columns of the row that was added last.
func (r *reading) set(pairs ...any) { r.put(r.out[len(r.out)-1], pairs) }

func (r *reading) put(row types.Row, pairs []any) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if c := r.column(i/2, pairs[i].(string)); c.slot >= 0 {
			d := datum(pairs[i+1], c.t)
			if name, ok := pairs[i+1].(string); ok && c.t.Kind == types.KindRegProc {
				d = types.NewReg(r.p.o.Catalog.procs[name], name)
			}
			row[c.slot] = d
		}
	}
}

// column finds a column by name; at is how many came before it in the row.
func (r *reading) column(at int, name string) named {
	if at < len(r.memo) && r.memo[at].name == name {
		return r.memo[at]
	}
	ord, ok := r.cols[name]
	if !ok {
		panic("virtual: " + r.table.Name + " has no column " + name)
	}
	c := named{name, r.slots[ord], r.table.Columns[ord].Type}
	if r.memo == nil {
		r.memo = make([]named, 0, len(r.cols))
	}
	for len(r.memo) <= at {
		r.memo = append(r.memo, named{})
	}
	r.memo[at] = c
	return c
}

// datum is a Go value as a column's value.
func datum(v any, t *types.T) types.Datum {
	switch v := v.(type) {
	case nil:
		return types.Null
	case types.Datum:
		return v
	case string:
		if t.Kind == types.KindRegProc {
			return types.NewReg(0, v)
		}
		return types.NewString(v)
	case byte:
		return types.NewString(string(rune(v)))
	case bool:
		if t.IsString() {
			return types.NewString(yesNo(v))
		}
		return types.NewBool(v)
	case int:
		return number(int64(v), t)
	case int16:
		return number(int64(v), t)
	case int32:
		return number(int64(v), t)
	case int64:
		return number(v, t)
	case uint32:
		return number(int64(v), t)
	case catalog.ID:
		return number(int64(v), t)
	case kv.NodeID:
		return number(int64(v), t)
	case float64:
		return types.NewFloat(v)
	case time.Time:
		if v.IsZero() {
			return types.Null
		}
		return types.NewTimestamp(timestampMicros(v))
	case time.Duration:
		return types.NewInterval(0, 0, v.Microseconds())
	case []string:
		if v == nil {
			return types.Null
		}
		return textArray(v, t)
	case []int16:
		return int2Array(v, t)
	case []uint32:
		return oidArray(v, t)
	case []int64:
		return int8Array(v)
	}
	panic("virtual: no such value")
}

func number(v int64, t *types.T) types.Datum {
	switch t.Kind {
	case types.KindRegProc, types.KindRegType, types.KindRegClass, types.KindRegNamespace, types.KindRegRole, types.KindRegProcedure:
		return types.NewReg(uint32(v), "")
	case types.KindFloat4, types.KindFloat8:
		return types.NewFloat(float64(v))
	}
	return types.NewInt(v)
}

func yesNo(b bool) string {
	if b {
		return "YES"
	}
	return "NO"
}

// timestampMicros is a time as timestamps count: microseconds since 2000.
func timestampMicros(t time.Time) int64 { return types.MicrosFromTime(t) }

// relations are the stored relations that the reader sees, in the order of their identities, without dropped ones. If
// the statement needs only some identities or names, they are the relations that may have such rows.
func (r *reading) relations() ([]*catalog.Table, error) {
	all, narrowed, err := r.narrowed()
	if !narrowed && err == nil {
		all, err = r.view.Tables(r.ctx, r.view.CurrentDatabase())
	}
	r.p.work.Relations.Add(int64(len(all)))
	return all, err
}

// narrowed finds the relations by the keys of the reading, if one of them leads to relations.
func (r *reading) narrowed() (out []*catalog.Table, ok bool, err error) {
	v, peeks := r.view.(peeker)
	if !peeks {
		return nil, false, nil
	}
	db, err := r.view.Database(r.ctx, r.view.CurrentDatabase())
	if db == nil || err != nil {
		return nil, false, err
	}
	add := func(t *catalog.Table) {
		if t != nil && t.Kind != catalog.KindVirtual && t.Database == db.ID && !t.Dropped && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	for _, k := range r.keys {
		if len(k.Values) > mostLookups {
			continue
		}
		switch by := lookups[r.qualifiedName()][r.table.Columns[k.Ordinal].Name]; by {
		case byIdentity:
			for _, d := range k.Values {
				if d.Phys() != types.PhysInt {
					return nil, false, nil
				}
				id := catalog.ID(uint32(d.Int()))
				if id >= derivedOIDs {
					id = (id &^ derivedOIDs) >> derivedShift
					add(v.Peek(catalog.FirstLocalID | id)) // whose highest bits are not in the OID
				}
				add(v.Peek(id))
				add(v.PeekPart(id))
			}
		case byType:
			for _, d := range k.Values {
				if d.Phys() != types.PhysInt {
					return nil, false, nil
				}
				add(v.Peek(catalog.RowTypeOf(uint32(d.Int()))))
			}
		case byName, byTypeName:
			schemas, err := r.view.Schemas(r.ctx, r.view.CurrentDatabase())
			if err != nil {
				return nil, false, err
			}
			for _, d := range k.Values {
				if d.Phys() != types.PhysString {
					return nil, false, nil
				}
				for _, s := range schemas {
					add(v.PeekName(s.ID, d.Str()))
				}
				if name, array := strings.CutPrefix(d.Str(), "_"); array && by == byTypeName {
					if len(d.Str()) >= 63 {
						return nil, false, nil // the name may be a part of the relation's
					}
					for _, s := range schemas {
						add(v.PeekName(s.ID, name))
					}
				}
			}
		default:
			continue
		}
		slices.SortFunc(out, func(a, b *catalog.Table) int { return cmp.Compare(a.ID, b.ID) })
		return out, true, nil
	}
	return nil, false, nil
}

// mostLookups bounds the values by which relations are looked up one by one; for more values all relations are read.
const mostLookups = 256

// computed are the computed relations, or those that the statement may need.
func (r *reading) computed() []*catalog.Table {
	all := r.p.o.Catalog.Tables()
	for _, k := range r.keys {
		if len(k.Values) > mostLookups {
			continue
		}
		out := []*catalog.Table{}
		switch lookups[r.qualifiedName()][r.table.Columns[k.Ordinal].Name] {
		case byIdentity:
			for _, d := range k.Values {
				if t := r.p.o.Catalog.ByID(catalog.ID(uint32(d.Int()))); t != nil && !slices.Contains(out, t) {
					out = append(out, t)
				}
			}
		case byType:
			for _, d := range k.Values {
				if t := r.p.o.Catalog.ByID(catalog.RowTypeOf(uint32(d.Int()))); t != nil && !slices.Contains(out, t) {
					out = append(out, t)
				}
			}
		case byName, byTypeName:
			for _, t := range all {
				if slices.ContainsFunc(k.Values, func(d types.Datum) bool { return d.Phys() == types.PhysString && d.Str() == t.Name }) {
					out = append(out, t)
				}
			}
		default:
			continue
		}
		return out
	}
	return all
}

func (r *reading) qualifiedName() string {
	if r.table.Schema == catalog.InformationSchemaID {
		return "information_schema." + r.table.Name
	}
	if r.table.Schema == InternalSchemaID {
		return "meridian_internal." + r.table.Name
	}
	return r.table.Name
}

func (r *reading) schemaNames() (map[catalog.ID]*catalog.Schema, error) {
	list, err := r.view.Schemas(r.ctx, r.view.CurrentDatabase())
	if err != nil {
		return nil, err
	}
	m := make(map[catalog.ID]*catalog.Schema, len(list))
	for _, s := range list {
		m[s.ID] = s
	}
	return m, nil
}

func (r *reading) userIDs() (map[string]catalog.ID, error) {
	list, err := r.view.Users(r.ctx)
	if err != nil {
		return nil, err
	}
	m := make(map[string]catalog.ID, len(list))
	for _, u := range list {
		m[u.Name] = u.ID
	}
	return m, nil
}

// mustBeSuperuser guards relations that show the data of other roles.
func (r *reading) mustBeSuperuser() error {
	if r.s != nil && !r.s.Superuser() {
		return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied for relation %s", r.table.Name)
	}
	return nil
}
