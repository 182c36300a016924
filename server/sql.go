package server

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock/truetime"
	"meridian/cluster"
	"meridian/console"
	"meridian/host"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/catalog/region"
	"meridian/sql/job"
	"meridian/sql/memory"
	"meridian/sql/pgwire"
	"meridian/sql/scalar/system"
	"meridian/sql/schemachange"
	"meridian/sql/session"
	"meridian/sql/virtual"
	"meridian/transport"
	"meridian/upgrade"
)

// methodCatalog carries changes of the catalogue to the other nodes.
const methodCatalog = "sql.catalog"

// sqlLayer is the node's SQL side. Its parts exist once the node belongs to a cluster; the listener before, so that a
// taken address is known at the start.
type sqlLayer struct {
	listener net.Listener
	parts    atomic.Pointer[sqlParts]
}

type sqlParts struct {
	leases   *lease.Manager
	sessions *session.Server
	wire     *pgwire.Server
	jobs     *job.Registry
	upgrade  *upgrade.Finalizer
}

func (s *sqlLayer) addr() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

func (n *Node) listenSQL() (err error) {
	if n.sql.listener, err = n.o.ClientNetwork.Listen(n.o.SQLAddr); err != nil {
		return &ListenError{"SQL", n.o.SQLAddr, err}
	}
	return nil
}

// startSQL makes the SQL layer and accepts clients.
func (n *Node) startSQL(ctx context.Context, id identity) error {
	computed := virtual.NewCatalog()
	leases := lease.New(lease.Options{DB: n.db, Clock: n.clock, Host: n.host, NodeID: n.NodeID, Version: n.version, Relations: computed, Notifier: broadcaster{n}})
	n.transport.Handle(methodCatalog, func(ctx context.Context, _ kv.NodeID, req []byte) ([]byte, error) {
		return leases.HandleChange(ctx, req)
	})
	n.transport.Handle(methodReport, n.handleReport)
	n.transport.Handle(methodConsole, n.handleConsole)
	n.transport.Handle(methodPlace, n.handlePlace)
	n.transport.Handle(methodSignal, n.handleSignal)
	notes := n.newHub()
	n.followSettings(leases)
	if err := n.openCatalog(ctx, id, leases); err != nil {
		return err
	}
	registry := system.Builtins()
	seqs := lease.NewSequences(n.db)
	budget := memory.NewNode(n.o.SQLBytes)
	jobs := job.New(job.Options{DB: n.db, Clock: n.clock, Host: n.host, NodeID: n.NodeID, Version: n.version})
	schema := schemachange.New(schemachange.Options{DB: n.db, Clock: n.clock, Host: n.host, Leases: leases, Jobs: jobs, Sequences: seqs,
		Registry: registry, Verifier: n.newVerifier, EmptyPassword: pgwire.EmptyPassword, RemoveAfter: n.o.RemoveAfter,
		Pressed: n.pressed, Regions: n.regions, Misplaced: n.misplaced, Zone: n.zones.whole, Satisfied: n.satisfied, Nodes: n.placementNodes, Yield: n.gate.Yield, Memory: budget, Settings: n.settings,
		CountsOnly: func(t *catalog.Table) bool { return region.Confined(leases.Snapshot().DatabaseByID(t.Database), t) }})
	facts := &clusterFacts{n: n}
	provider := virtual.New(virtual.Options{Catalog: computed, Registry: registry, Leases: leases, Sequences: seqs, Jobs: jobs,
		Cluster: facts, NodeID: n.NodeID, Zone: n.zones.whole, Version: n.o.Version})
	sessions := session.NewServer(session.Services{
		Host: n.host, Clock: n.clock, DB: n.db, NodeID: n.NodeID, Catalog: leases, Schema: schema, Virtual: provider, Seqs: seqs, Jobs: jobs,
		Ranges: ranges{n}, Registry: registry, Memory: budget, MemoryPerStatement: n.o.StatementBytes, Gate: n.gate, Peers: peers{n}, Notify: notes,
		TLS: n.o.SQLTLS != nil, Region: n.o.Locality.Region(),
	})
	facts.sessions = sessions
	wire := pgwire.NewServer(pgwire.Options{Host: n.host, Sessions: sessions, TLS: n.o.SQLTLS, Insecure: n.o.Insecure,
		Secret: func() []byte {
			if secret := leases.Secret(); len(secret) > 0 {
				return secret
			}
			return id.cluster[:] // for a cluster without a secret: clients do not learn its name either
		}})
	finalizer := n.newFinalizer(jobs)
	jobs.Start()
	finalizer.Automatic(n.NodeID, n.automatic)
	schema.StartStatistics()
	n.sql.parts.Store(&sqlParts{leases, sessions, wire, jobs, finalizer})
	n.host.Group.Go(func(context.Context) {
		if err := wire.Serve(n.sql.listener); err != nil {
			n.fail(err)
		}
	})
	return nil
}

// pressed reports whether the disk of some live node is nearly full.
func (n *Node) pressed() bool {
	if n.engine.Pressed() {
		return true
	}
	for _, e := range n.cluster.Nodes() {
		if e.Full && n.cluster.Live(e.Node) {
			return true
		}
	}
	return false
}

// Catalog is the node's snapshot of the catalogue; nil until it has been read.
func (n *Node) Catalog() *lease.Manager {
	if p := n.sql.parts.Load(); p != nil {
		return p.leases
	}
	return nil
}

// openCatalog reads the catalogue, and tries again as long as that fails: the ranges may not be available yet. The
// first node of a cluster writes the catalogue.
func (n *Node) openCatalog(ctx context.Context, id identity, leases *lease.Manager) error {
	warned := false
	for {
		err := error(nil)
		if id.node == 1 {
			err = lease.Bootstrap(ctx, n.db, lease.BootstrapOptions{Secret: n.newSecret()})
		}
		if err == nil {
			err = leases.Start(ctx)
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !warned {
			warned = true
			n.host.Log.Warn("the catalogue can't be read yet", "error", err)
		}
		if n.host.Clock.Sleep(ctx, 100*time.Millisecond) != nil {
			return ctx.Err()
		}
	}
}

// newSecret draws the secret that the nodes of a new cluster share.
func (n *Node) newSecret() []byte {
	secret := make([]byte, 32)
	n.host.Dice.Read(secret)
	return secret
}

// broadcaster implements lease.Notifier over transport.
type broadcaster struct{ n *Node }

// Broadcast implements lease.Notifier.
func (b broadcaster) Broadcast(ctx context.Context, payload []byte, done func(kv.NodeID, []byte)) {
	var all sync.WaitGroup
	for _, e := range b.n.cluster.Nodes() {
		if e.Node == b.n.NodeID() || !b.n.cluster.Live(e.Node) {
			continue
		}
		all.Add(1)
		ok := b.n.host.Group.Go(func(context.Context) {
			defer all.Done()
			if answer, err := b.n.transport.CallClass(ctx, transport.ClassSystem, e.Node, methodCatalog, payload); err == nil {
				done(e.Node, answer)
			}
		})
		if !ok {
			all.Done()
		}
	}
	all.Wait()
}

// newVerifier makes a SCRAM verifier with salt from the node's dice.
func (n *Node) newVerifier(password string) (string, error) {
	var salt [16]byte
	n.host.Dice.Read(salt[:])
	return pgwire.NewVerifier(password, salt[:])
}

// setPassword makes a user who may log in, or gives one a new password.
func (n *Node) setPassword(ctx context.Context, user, password string) error {
	p := n.sql.parts.Load()
	if p == nil {
		return fmt.Errorf("the node belongs to no cluster yet")
	}
	if password == "" {
		return fmt.Errorf("an empty password lets nobody in")
	}
	verifier, err := n.newVerifier(password)
	if err != nil {
		return err
	}
	quoted := `"` + strings.ReplaceAll(user, `"`, `""`) + `"`
	u, err := p.leases.User(ctx, user)
	if err != nil {
		return err
	}
	verb := "ALTER USER "
	if u == nil {
		verb = "CREATE USER "
	}
	return p.sessions.Run(ctx, "root", "defaultdb", verb+quoted+" WITH PASSWORD '"+verifier+"'")
}

func (s *sqlLayer) close() {
	if p := s.parts.Load(); p != nil {
		p.wire.Close()
	}
	if s.listener != nil {
		s.listener.Close()
	}
}

// drain ends the clients' sessions, and returns how many were cut off when ctx ended.
func (s *sqlLayer) drain(ctx context.Context, c host.Clock) (cut int) {
	if s.listener != nil {
		s.listener.Close()
	}
	if p := s.parts.Load(); p != nil {
		cut = p.wire.Drain(ctx)
		// Schema changes of other nodes then need not wait for this one; if resigning fails, the tenure expires.
		limit, cancel := c.WithTimeout(context.WithoutCancel(ctx), time.Second)
		p.leases.Resign(limit)
		cancel()
	}
	return cut
}

func (s *sqlLayer) counters() console.SQL {
	p := s.parts.Load()
	if p == nil {
		return console.SQL{}
	}
	m := p.sessions.Metrics()
	return console.SQL{Connections: p.wire.Metrics().Connections.Load(), Selects: m.Selects.Load(), Inserts: m.Inserts.Load(),
		Updates: m.Updates.Load(), Deletes: m.Deletes.Load(), Other: m.Other.Load(), Errors: m.Errors.Load(), Retries: m.Retries.Load()}
}

func (s *sqlLayer) collect(counter func(name, help string, v int64), gauge func(name, help string, v float64)) {
	p := s.parts.Load()
	if p == nil {
		return
	}
	w, m := p.wire.Metrics(), p.sessions.Metrics()
	counter("sql_clients_gone", "Clients that disconnected while one of their statements ran.", w.ClientsGone.Load())
	if b := p.sessions.Memory; b != nil {
		gauge("sql_memory_bytes", "Memory that statements hold.", float64(b.Used()))
		gauge("sql_memory_most_bytes", "The most memory that statements ever held together.", float64(b.Most()))
		gauge("sql_memory_limit_bytes", "Limit of the memory of statements (--max-sql-memory).", float64(b.Limit()))
		counter("sql_memory_refused", "Requests for memory that were refused (53200).", b.Refused())
	}
	gauge("sql_connections", "Open client connections.", float64(w.Connections.Load()))
	counter("sql_connections_opened", "Client connections accepted.", w.ConnectionsTotal.Load())
	counter("sql_connections_refused", "Client connections refused because there were too many.", w.Refused.Load())
	gauge("sql_connections_starting", "Client connections that have not authenticated yet.", float64(w.Starting.Load()))
	counter("sql_connections_starting_closed", "Client connections closed before they authenticated, to make room for others.", w.StartingClosed.Load())
	counter("sql_auth_failures", "Logins that failed: a wrong password, or a role that does not exist.", w.AuthFailures.Load())
	counter("sql_auth_throttled", "Logins refused because too many of the role had failed from the same address.", w.AuthThrottled.Load())
	counter("sql_bytes_in", "Bytes received from clients.", w.BytesIn.Load())
	counter("sql_bytes_out", "Bytes sent to clients.", w.BytesOut.Load())
	counter("sql_selects", "SELECT statements.", m.Selects.Load())
	counter("sql_inserts", "INSERT statements.", m.Inserts.Load())
	counter("sql_updates", "UPDATE statements.", m.Updates.Load())
	counter("sql_deletes", "DELETE statements.", m.Deletes.Load())
	counter("sql_other", "Other statements.", m.Other.Load())
	counter("sql_errors", "Statements that failed.", m.Errors.Load())
	counter("sql_faults", "Panics of statements, jobs and statistics that ended these alone: defects, each with a stack in the log.",
		m.Faults.Load()+p.sessions.Jobs.Faults()+p.sessions.Schema.Faults())
	counter("sql_retries", "Transactions run again without the client knowing.", m.Retries.Load())
	counter("sql_statement_retries", "Statements of READ COMMITTED transactions run again with a later snapshot.", m.StatementRetries.Load())
	counter("sql_replays", "Transactions run again after the client had seen results.", m.Replays.Load())
	counter("sql_replays_succeeded", "Conflicts that replays settled: all results were the same.", m.ReplaysSucceeded.Load())
	counter("sql_replays_differing", "Replays with a result that differed from the one that the client had seen.", m.ReplaysDiffering.Load())
	counter("sql_replays_off", "Conflicts of transactions that could not be replayed.", m.ReplaysOff.Load())
	counter("sql_client_retries", "Conflicts reported to clients (40001, 40P01).", m.ClientRetries.Load())
	counter("txn_commits", "Transactions committed.", m.TxnCommits.Load())
	counter("txn_rollbacks", "Transactions rolled back.", m.TxnRollbacks.Load())
	counter("plan_cache_hits", "Statements whose plan was cached.", m.PlanHits.Load())
	counter("plan_cache_misses", "Statements that had to be planned.", m.PlanMisses.Load())
}

// clusterFacts implements virtual.Cluster.
type clusterFacts struct {
	n        *Node
	sessions *session.Server
}

// Statements implements virtual.Cluster.
func (f *clusterFacts) Statements() map[string]int64 {
	m := f.sessions.Metrics()
	return map[string]int64{"SELECT": m.Selects.Load(), "INSERT": m.Inserts.Load(), "UPDATE": m.Updates.Load(), "DELETE": m.Deletes.Load(),
		"other": m.Other.Load(), "errors": m.Errors.Load(), "retries": m.Retries.Load(), "client retries": m.ClientRetries.Load()}
}

// Retries implements virtual.Cluster.
func (f *clusterFacts) Retries() []virtual.RetryRow {
	s, t := f.sessions.Metrics(), f.n.db.Metrics()
	return []virtual.RetryRow{
		{Kind: "refresh", Count: t.Refreshes.Load(), About: "a transaction's reads were checked again, so that it could move its timestamp"},
		{Kind: "refresh failed", Count: t.RefreshesFailed.Load(), About: "such a check found a change: the conflict was handled in one of the ways below"},
		{Kind: "statement", Count: s.StatementRetries.Load(), About: "a statement of a READ COMMITTED transaction ran again with a later snapshot"},
		{Kind: "silent", Count: s.Retries.Load(), About: "a transaction ran again before its client had seen any results"},
		{Kind: "replay", Count: s.Replays.Load(), About: "a transaction ran again after its client had seen results"},
		{Kind: "replay succeeded", Count: s.ReplaysSucceeded.Load(), About: "the results of a replay were the same, and the transaction went on"},
		{Kind: "replay differing", Count: s.ReplaysDiffering.Load(), About: "a result of a replay differed, and the client got an error"},
		{Kind: "replay off", Count: s.ReplaysOff.Load(), About: "a transaction could not be replayed, and the client got an error"},
		{Kind: "client", Count: s.ClientRetries.Load(), About: "conflicts that were reported to clients (40001, 40P01)"},
	}
}

// Nodes implements virtual.Cluster.
func (f *clusterFacts) Nodes(ctx context.Context) ([]virtual.NodeRow, error) {
	heard := f.n.heard(ctx)
	offsets := map[kv.NodeID]time.Duration{}
	for _, o := range f.n.cluster.Offsets() {
		offsets[o.Node] = o.Offset
	}
	var out []virtual.NodeRow
	for _, e := range f.n.cluster.Nodes() {
		r, _ := f.n.cluster.Record(e.Node)
		out = append(out, virtual.NodeRow{ID: e.Node, Address: e.Addr, SQL: e.SQLAddr, HTTP: e.HTTPAddr, Locality: e.Locality.String(),
			Region: e.Locality.Region(), Zone: e.Locality.Zone(), Version: e.Build, Incarnation: int64(r.Incarnation), Live: f.n.cluster.Live(e.Node), Gone: r.Decommissioned,
			Draining: e.Draining, Started: e.StartedAt, Ranges: heard[e.Node].Ranges, Leases: heard[e.Node].Leases, ClockOffset: offsets[e.Node]})
	}
	return out, nil
}

// Versions implements virtual.Cluster.
func (f *clusterFacts) Versions(ctx context.Context) (upgrade.View, error) {
	if p := f.n.sql.parts.Load(); p != nil {
		return p.upgrade.Look(ctx)
	}
	return upgrade.View{}, nil
}

// Clocks implements virtual.Cluster.
func (f *clusterFacts) Clocks() []virtual.ClockRow {
	now, most := f.n.clock.Wall(), f.n.clock.MaxOffset()
	out := []virtual.ClockRow{{Node: f.n.NodeID(), Max: most, Measured: now, State: "this node", Source: string(f.n.time.Kind()), Epsilon: f.n.time.Epsilon()}}
	for _, o := range f.n.cluster.Offsets() {
		row := virtual.ClockRow{Node: o.Node, Offset: o.Offset, Error: o.Error, Max: most, State: o.State, Source: o.Source, Epsilon: o.Epsilon}
		if o.State != cluster.OffsetUnknown {
			row.Measured = now.Add(-o.Age)
		}
		out = append(out, row)
	}
	return out
}

// TimeSources implements virtual.Cluster.
func (f *clusterFacts) TimeSources() []truetime.Master { return f.n.time.List() }

// Ranges implements virtual.Cluster.
func (f *clusterFacts) Ranges(ctx context.Context, start, end []byte) ([]virtual.RangeRow, error) {
	rows, err := ranges{f.n}.Ranges(ctx, start, end)
	if err != nil {
		return nil, err
	}
	out := make([]virtual.RangeRow, len(rows))
	for i, r := range rows {
		out[i] = virtual.RangeRow{ID: r.ID, Start: r.Start, End: r.End, Leaseholder: r.Leaseholder, Region: ranges{f.n}.Region(r.Leaseholder),
			Replicas: r.Replicas, Bytes: r.Bytes, WantedVoters: r.WantedVoters, LiveVoters: r.LiveVoters, State: r.State, Violation: r.Violation}
	}
	return out, nil
}
