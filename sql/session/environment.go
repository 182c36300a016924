package session

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"meridian/sql/session/parameter"

	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/exec"
	"meridian/sql/scalar"
	"meridian/sql/scalar/system"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/sql/virtual"
)

// environment is the session as scalar functions see it.
type environment struct {
	s        *Session
	lastUsed bool
	lastID   catalog.ID // the sequence of lastval
	currents map[catalog.ID]int64
	before   *sequenceState // the three, before the open transaction's first nextval
	block    block          // of the running statement
	series   *series        // of setseed; nil: none
	// txnNumber is the number of the open transaction that txid_current has returned; zero: it has not been called.
	txnNumber int64
	// mayDraw is a sequence for which the running statement's right to draw numbers was checked.
	mayDraw catalog.ID
	// blocking has the answers of pg_blocking_pids for the running statement; nil until its first call.
	blocking map[int32][]int32
}

func (e *environment) CurrentUser() string     { return e.s.role() }
func (e *environment) SessionUser() string     { return e.s.sessionRole() }
func (e *environment) CurrentDatabase() string { return e.s.client.Database }
func (e *environment) BackendPID() int32       { return e.s.pid }
func (e *environment) NodeID() int32           { return int32(e.s.srv.NodeID()) }

// GatewayRegion implements system.Environment.
func (e *environment) GatewayRegion() string { return e.s.srv.Region }

// DatabaseRegions implements system.Environment.
func (e *environment) DatabaseRegions(ctx context.Context) (string, []string, error) {
	db, err := e.s.view().Database(ctx, e.s.client.Database)
	if err != nil || db == nil {
		return "", nil, err
	}
	return db.PrimaryRegion, db.SettledRegions(), nil
}

// SearchPath implements system.Environment.
func (e *environment) SearchPath(implicit bool) []string {
	var path []string
	for _, name := range e.s.info().SearchPath {
		// Schemas that do not exist are skipped.
		if sc, err := e.s.view().Schema(e.s.srv.Host.Group.Context(), e.s.client.Database, name); err == nil && sc != nil &&
			e.s.view().Access().May(e.s.role(), sc.ID, catalog.Usage) {
			path = append(path, name)
		}
	}
	if implicit {
		path = append([]string{"pg_catalog"}, path...)
		if own := e.s.temp.local.Schema(); own != nil && !slices.Contains(path, own.Name) && !slices.Contains(path, catalog.TemporarySchema) {
			path = append([]string{own.Name}, path...)
		}
	}
	return path
}

// Setting implements system.Environment.
func (e *environment) Setting(name string) (string, bool) {
	name = parameter.Canonical(name)
	if _, ok := e.s.params.Get(name); !ok {
		return "", false
	}
	return e.s.setting(name), true
}

// SetSetting implements system.Environment.
func (e *environment) SetSetting(name, value string, local bool) error {
	return e.s.set(name, value, local)
}

// RandomUUID implements system.Environment: version 4.
func (e *environment) RandomUUID() [16]byte {
	var u [16]byte
	e.s.srv.Host.Dice.Read(u[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u
}

// UniqueRowID implements system.Environment: wall time in units of ten microseconds, then the node's number, so that the ids of
// one node grow and those of two nodes differ. If several are drawn within one unit, rowIDs gives each the next free unit.
func (e *environment) UniqueRowID() int64 {
	const nodeBits = 15
	ts := e.s.srv.Clock.Now()
	tick := (ts.Wall/10_000)<<nodeBits | int64(e.s.srv.NodeID())&(1<<nodeBits-1)
	id, _ := e.s.draw(0, func() (int64, error) { return e.s.srv.rowIDs.next(tick, 1<<nodeBits), nil })
	return id
}

// TransactionNumber implements system.Environment.
func (e *environment) TransactionNumber(assign bool) int64 {
	if e.txnNumber == 0 && assign {
		e.s.ensureTxn()
		e.txnNumber = e.UniqueRowID()
	}
	return e.txnNumber
}

// NextVal implements system.Environment.
func (e *environment) NextVal(ctx context.Context, name string) (int64, error) {
	seq, err := e.sequence(ctx, name)
	if err != nil {
		return 0, err
	}
	if e.mayDraw != seq.ID { // checked once for each statement
		if err := e.s.rights().oneOf(seq.ID, catalog.Usage, catalog.Update); err != nil {
			return 0, err
		}
		e.mayDraw = seq.ID
	}
	return e.nextVal(ctx, seq)
}

// staysHome refuses to draw from a sequence, or to set it, if that leaves the gateway's region and the statement must not (session.S11). Numbers that the
// statement or the node has in stock are drawn anywhere.
func (e *environment) staysHome(ctx context.Context, seq *catalog.Table) error {
	h, ok := e.s.execEnv.Home.(*home)
	if !ok || seq.Temporary() || e.block.id == seq.ID && e.block.next < e.block.taken.Count || e.s.srv.Seqs.InStock(seq) {
		return nil
	}
	return h.changes(ctx, keys.TableSpan(seq.ID))
}

// NextIdentity implements system.Environment.
func (e *environment) NextIdentity(ctx context.Context, name string) (int64, error) {
	seq, err := e.sequence(ctx, name)
	if err != nil {
		return 0, err
	}
	return e.nextVal(ctx, seq)
}

func (e *environment) nextVal(ctx context.Context, seq *catalog.Table) (int64, error) {
	if e.s.state.Modes().ReadOnly && !seq.Temporary() {
		return 0, sqlstate.New(sqlstate.ReadOnlyTransaction, "cannot execute nextval() in a read-only transaction")
	}
	v, err := e.s.draw(seq.ID, func() (int64, error) {
		if err := e.staysHome(ctx, seq); err != nil {
			return 0, err
		}
		return e.take(ctx, seq)
	})
	if err != nil {
		return 0, err
	}
	e.remember(seq, v)
	return v, nil
}

// block is a block of a sequence's numbers, which one statement has reserved together.
type block struct {
	id    catalog.ID
	seq   *catalog.Table
	taken lease.Taken
	next  int64 // index of the next unused number in the block
	size  int64
}

// maxBlock bounds the numbers that a statement reserves together, and so the gap that it leaves if it fails.
const maxBlock = 256

// minBlocked is the length of the shortest sequence of which blocks are reserved.
const minBlocked = 1 << 20

// take returns the next number. A statement that draws repeatedly reserves twice as many numbers each time, so that an INSERT of
// many rows does not make a round trip for each row to the leaseholder of the sequence; giveBack returns the unused ones. The first
// number of a statement is always drawn alone.
func (e *environment) take(ctx context.Context, seq *catalog.Table) (int64, error) {
	if seq.Temporary() {
		return e.s.temp.local.NextVal(seq)
	}
	b := &e.block
	if b.id == seq.ID && b.next < b.taken.Count {
		b.next++
		return b.taken.First + (b.next-1)*seq.Sequence.Increment, nil
	}
	// A short sequence is not wasted on gaps.
	if b.id != seq.ID || seq.Sequence.Cache > 1 || seq.Sequence.Max-seq.Sequence.Min < minBlocked {
		e.giveBack(ctx)
		*b = block{id: seq.ID, size: 1}
		return e.s.srv.Seqs.Next(ctx, seq)
	}
	b.size = min(2*b.size, maxBlock)
	t, err := e.s.srv.Seqs.Take(ctx, seq, b.size)
	if err != nil {
		return 0, err
	}
	b.seq, b.taken, b.next = seq, t, 1
	return t.First, nil
}

// giveBack returns the numbers that the statement reserved and did not use, so that the next statement draws them: a single session
// sees no gap. If another session has drawn later numbers since, there is a gap, like that of a PostgreSQL transaction that rolls back.
func (e *environment) giveBack(ctx context.Context) {
	b := &e.block
	if b.next < b.taken.Count {
		// An error leaves a gap.
		_ = e.s.srv.Seqs.GiveBack(ctx, b.seq, b.taken, b.taken.Count-b.next)
	}
	*b = block{}
}

func (e *environment) remember(seq *catalog.Table, v int64) {
	e.rememberLast(seq, v)
	e.lastUsed, e.lastID = true, seq.ID
}

// sequenceState is the state of currval and lastval.
type sequenceState struct {
	currents map[catalog.ID]int64
	lastID   catalog.ID
	lastUsed bool
}

// restart takes currval and lastval back to the beginning of the open transaction, which is run again.
func (e *environment) restart() {
	if q := e.before; q != nil {
		e.currents, e.lastID, e.lastUsed = maps.Clone(q.currents), q.lastID, q.lastUsed
	}
}

// forget is DISCARD SEQUENCES: currval and lastval have no value.
func (e *environment) forget() { e.currents, e.lastUsed, e.lastID = nil, false, 0 }

// rememberLast keeps a number for currval, and for lastval if that is of the same sequence.
func (e *environment) rememberLast(seq *catalog.Table, v int64) {
	if e.before == nil && e.s.state.Open() {
		e.before = &sequenceState{maps.Clone(e.currents), e.lastID, e.lastUsed}
	}
	if e.currents == nil {
		e.currents = map[catalog.ID]int64{}
	}
	e.currents[seq.ID] = v
}

func (e *environment) sequence(ctx context.Context, name string) (*catalog.Table, error) {
	id, err := strconv.ParseUint(name, 10, 32)
	oid := uint32(id)
	if err != nil {
		if oid, err = e.functions().ResolveReg(types.KindRegClass, name); err != nil {
			return nil, err
		}
	}
	t, err := e.s.view().TableByID(ctx, catalog.ID(oid))
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, sqlstate.New(sqlstate.UndefinedTable, "relation %q does not exist", name)
	}
	if t.Kind != catalog.KindSequence {
		return nil, sqlstate.New(sqlstate.WrongObjectType, "%q is not a sequence", t.Name)
	}
	return t, nil
}

// CurrVal implements system.Environment.
func (e *environment) CurrVal(ctx context.Context, name string) (int64, error) {
	seq, err := e.sequence(ctx, name)
	if err != nil {
		return 0, err
	}
	if err := e.s.rights().oneOf(seq.ID, catalog.Select, catalog.Usage); err != nil {
		return 0, err
	}
	v, ok := e.currents[seq.ID]
	if !ok {
		return 0, sqlstate.New(sqlstate.ObjectNotInPrerequisite, "currval of sequence %q is not yet defined in this session", seq.Name)
	}
	return v, nil
}

// SetVal implements system.Environment.
func (e *environment) SetVal(ctx context.Context, name string, value int64, called bool) error {
	seq, err := e.sequence(ctx, name)
	if err != nil {
		return err
	}
	if err := e.s.view().Access().Check(e.s.role(), seq.ID, catalog.Update); err != nil {
		return err
	}
	if def := seq.Sequence; value < def.Min || value > def.Max {
		return sqlstate.New(sqlstate.NumericOutOfRange, "setval: value %d is out of bounds for sequence %q (%d..%d)",
			value, seq.Name, def.Min, def.Max)
	}
	if e.s.state.Modes().ReadOnly && !seq.Temporary() {
		return sqlstate.New(sqlstate.ReadOnlyTransaction, "cannot execute setval() in a read-only transaction")
	}
	if h, ok := e.s.execEnv.Home.(*home); ok && !seq.Temporary() {
		if err := h.changes(ctx, keys.TableSpan(seq.ID)); err != nil {
			return err
		}
	}
	e.s.replay.TurnOff("setval() can't be undone")
	if seq.Temporary() {
		e.s.temp.local.SetVal(seq, value, called)
	} else if err := e.s.srv.Seqs.Set(ctx, seq, value, called); err != nil {
		return err
	}
	if called {
		e.rememberLast(seq, value)
	}
	return nil
}

// LastVal implements system.Environment.
func (e *environment) LastVal(ctx context.Context) (int64, error) {
	if !e.lastUsed {
		return 0, sqlstate.New(sqlstate.ObjectNotInPrerequisite, "lastval is not yet defined in this session")
	}
	// The sequence may have been dropped since.
	seq, err := e.s.view().TableByID(ctx, e.lastID)
	if err != nil {
		return 0, err
	}
	if seq == nil || seq.Dropped {
		return 0, sqlstate.New(sqlstate.ObjectNotInPrerequisite, "lastval is not yet defined in this session")
	}
	if err := e.s.rights().oneOf(e.lastID, catalog.Select, catalog.Usage); err != nil {
		return 0, err
	}
	return e.currents[e.lastID], nil
}

// SerialSequence implements system.Environment.
func (e *environment) SerialSequence(table, column string) (string, error) {
	return e.functions().SerialSequence(table, column)
}

// SequenceLast implements system.Environment.
func (e *environment) SequenceLast(ctx context.Context, name string) (int64, bool, error) {
	seq, err := e.sequence(ctx, name)
	if err != nil {
		return 0, false, err
	}
	if err := e.s.rights().oneOf(seq.ID, catalog.Select, catalog.Usage); err != nil {
		return 0, false, err
	}
	return e.s.srv.Seqs.LastFor(ctx, e.s.temp.local, seq)
}

// SequenceParameters implements system.Environment.
func (e *environment) SequenceParameters(ctx context.Context, oid uint32) (types.Row, error) {
	seq, err := e.s.view().TableByID(ctx, catalog.ID(oid))
	switch {
	case err != nil:
		return nil, err
	case seq == nil || seq.Dropped:
		return nil, sqlstate.New(sqlstate.UndefinedTable, "relation with OID %d does not exist", oid)
	case seq.Kind != catalog.KindSequence:
		return nil, sqlstate.New(sqlstate.WrongObjectType, "\"%s\" is not a sequence", seq.Name)
	}
	if err := e.s.rights().oneOf(seq.ID, catalog.Update, catalog.Select, catalog.Usage); err != nil {
		return nil, err
	}
	d := seq.Sequence
	return types.Row{types.NewInt(d.Start), types.NewInt(d.Min), types.NewInt(d.Max), types.NewInt(d.Increment), types.NewBool(d.Cycle),
		types.NewInt(d.Cache), types.NewInt(int64(d.Type.OID()))}, nil
}

// BlockingPIDs implements system.Environment. A statement requests the lock tables of all nodes once, whatever the number of sessions.
func (e *environment) BlockingPIDs(ctx context.Context, pid int32) ([]int32, error) {
	if e.blocking == nil {
		e.blocking = e.s.srv.Virtual.Blocking(ctx)
	}
	return e.blocking[pid], ctx.Err()
}

// CancelBackend implements system.Environment.
func (e *environment) CancelBackend(ctx context.Context, pid int32, terminate bool) (bool, error) {
	e.s.replay.TurnOff("it cancelled or ended a session, which can't be undone")
	found, err := e.s.signal(ctx, pid, terminate)
	var silent *SilentNodeError
	switch {
	case errors.As(err, &silent):
		e.s.out.Notice(&sqlstate.Error{Code: sqlstate.Warning, Message: "PID " + itoa(int64(pid)) + " is on a node that does not answer", Detail: silent.Error()})
		return false, nil
	case err != nil:
		return false, err
	case !found:
		e.s.out.Notice(&sqlstate.Error{Code: sqlstate.Warning, Message: "PID " + itoa(int64(pid)) + " is not a PostgreSQL backend process"})
	}
	return found, nil
}

// awaitPause is the time between two checks of AwaitBackend.
const awaitPause = 20 * time.Millisecond

// AwaitBackend implements system.Environment.
func (e *environment) AwaitBackend(ctx context.Context, pid int32, ms int64) (bool, error) {
	clk := e.s.srv.Host.Clock
	end := clk.Monotonic() + time.Duration(ms)*time.Millisecond
	for {
		owner, err := e.s.send(ctx, pid, "", SignalNone)
		var silent *SilentNodeError
		switch left := end - clk.Monotonic(); {
		case err != nil && !errors.As(err, &silent):
			return false, err
		case err == nil && owner == "":
			return true, nil
		case left <= 0:
			unit := "milliseconds"
			if ms == 1 {
				unit = "millisecond"
			}
			e.s.out.Notice(&sqlstate.Error{Code: sqlstate.Warning,
				Message: "backend with PID " + itoa(int64(pid)) + " did not terminate within " + itoa(ms) + " " + unit})
			return false, nil
		default:
			if err := e.Sleep(ctx, min(left, awaitPause)); err != nil {
				return false, err
			}
		}
	}
}

// ClusterTimestamp implements system.Environment.
func (e *environment) ClusterTimestamp() string {
	if e.s.tx != nil {
		return e.s.tx.ReadTimestamp().String()
	}
	return e.s.srv.Clock.Now().String()
}

// Sleep implements system.Environment.
func (e *environment) Sleep(ctx context.Context, d time.Duration) error {
	if e.s.replay.Replaying() {
		return ctx.Err() // it slept in the first run
	}
	e.s.setWaitEvent(virtual.WaitSleep)
	defer e.s.setWaitEvent("")
	return e.s.srv.Host.Clock.Sleep(ctx, d)
}

// functions returns the catalogue's functions, over the session's present view.
func (e *environment) functions() *virtual.Functions {
	return e.s.srv.Virtual.Functions(e.s.srv.Host.Group.Context(), e.s.view())
}

func (e *environment) ResolveReg(kind types.Kind, name string) (uint32, error) {
	return e.functions().ResolveReg(kind, name)
}

// ParseReg implements types.Names.
func (e *environment) ParseReg(t *types.T, s string) (types.Datum, error) {
	return scalar.ParseReg(e, t, s)
}
func (e *environment) RegName(kind types.Kind, oid uint32) string {
	return e.functions().RegName(kind, oid)
}
func (e *environment) TableIsVisible(oid uint32) bool { return e.functions().TableIsVisible(oid) }
func (e *environment) IndexDef(oid uint32, column int) string {
	return e.functions().IndexDef(oid, column)
}
func (e *environment) ConstraintDef(oid uint32, pretty bool) string {
	return e.functions().ConstraintDef(oid, pretty)
}

// PrettyExpr implements system.Environment.
func (e *environment) PrettyExpr(text string) string { return e.functions().PrettyExpr(text) }

func (e *environment) ViewDef(oid uint32, pretty bool) string {
	return e.functions().ViewDef(oid, pretty)
}

// Description implements system.Environment.
func (e *environment) Description(class string, oid uint32, column int) string {
	return e.functions().Description(class, oid, column)
}
func (e *environment) HasPrivilege(q system.PrivilegeQuestion) (types.Datum, error) {
	return e.functions().HasPrivilege(q)
}

// lazyTables makes the view for virtual relations when the first of them is read.
type lazyTables struct{ s *Session }

// Rows implements exec.VirtualTables.
func (l lazyTables) Rows(ctx context.Context, read exec.VirtualRead) ([]types.Row, error) {
	return l.s.srv.Virtual.Tables(l.s.view(), l.s).Rows(ctx, read)
}

var _ exec.VirtualTables = lazyTables{}
var _ system.Environment = (*environment)(nil)

// User, Database, Superuser, Info and Server describe the session to virtual relations.
func (s *Session) User() string      { return s.role() }
func (s *identity) Database() string { return s.client.Database }
func (s *Session) Superuser() bool   { return s.access().Superuser(s.role()) }
func (s *Session) Info() Info        { return s.info() }
func (s *Session) Server() *Server   { return s.srv }

// Settings calls f for each setting.
func (s *settings) Settings(f func(virtual.Setting)) {
	for i := range parameter.All {
		d := &parameter.All[i]
		first, began := s.params.Fallback(d.Name)
		x := virtual.Setting{Name: parameter.DisplayName(d.Name), Setting: s.setting(d.Name), Category: d.Category, About: d.About, Context: d.Context, Vartype: "string",
			Source: "default", Boot: d.Default, Reset: first.Value}
		if began {
			x.Source = first.Source
		}
		if x.Category == "" {
			x.Category = "Customized Options"
		}
		if x.Context == "" {
			x.Context = "user"
		}
		if s.params.IsSet(d.Name) {
			x.Source = "session"
		}
		if m := d.Domain; m != nil {
			x.Vartype, x.Unit, x.Min, x.Max, x.Enum = m.Type, m.Unit, m.Low, m.High, m.Enum
			if m.Bare != nil {
				x.Setting, x.Boot, x.Reset = m.Bare(x.Setting), m.Bare(x.Boot), m.Bare(x.Reset)
			}
		}
		f(x)
	}
}

// Prepared lists the session's prepared statements.
func (s *Session) Prepared() (out []virtual.PreparedStatement) {
	for _, p := range s.statements.Named() {
		v := virtual.PreparedStatement{Name: p.Name, Text: p.Source, At: p.Created, FromSQL: p.Source != "", Generic: p.Generic, Custom: p.Custom}
		if !v.FromSQL {
			v.Text = p.Stmt.Text()
		}
		if p.Plan != nil {
			for _, t := range p.Plan.Params {
				v.Types = append(v.Types, t.OID())
			}
		}
		out = append(out, v)
	}
	return out
}

// Cursors lists the session's SQL cursors.
func (s *Session) Cursors() (out []virtual.Cursor) {
	ds, names := s.portals.Cursors()
	for i, d := range ds {
		out = append(out, virtual.Cursor{Name: names[i], Text: d.Source, Hold: d.Hold, Binary: d.Binary, Scroll: d.Scroll, At: d.Created})
	}
	return out
}

// CurrentQuery implements system.Environment.
func (e *environment) CurrentQuery() string {
	return e.s.wholeQuery()
}

// Client implements system.Environment.
func (e *environment) Client() (string, int) {
	a, err := netip.ParseAddrPort(e.s.client.Remote)
	if err != nil {
		return "", 0
	}
	return a.Addr().Unmap().WithZone("").String(), int(a.Port())
}

// TypeIsVisible implements system.Environment.
func (e *environment) TypeIsVisible(oid uint32) bool { return e.functions().TypeIsVisible(oid) }
