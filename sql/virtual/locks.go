package virtual

import (
	"context"
	"slices"
	"time"

	"meridian/kv"
	"meridian/sql/catalog"
)

// Locks and waits: a lock table knows transactions, and a session knows its transaction; together they tell which session
// waits for which. Transactions without a session are those of the database itself, or of a node that did not answer.

// owners finds sessions by their open transactions.
func (p *Report) owners() map[kv.TxnID]*Activity {
	m := make(map[kv.TxnID]*Activity, len(p.Sessions))
	for i := range p.Sessions {
		if a := &p.Sessions[i]; !a.Txn.IsZero() {
			m[a.Txn] = a
		}
		if a := &p.Sessions[i]; !a.Holder.IsZero() {
			m[a.Holder] = a
		}
	}
	return m
}

// waiting finds the sessions for which a session waits, by process ids. One that waits for a transaction without a session
// has an entry without elements.
func (p *Report) waiting() map[int32][]int32 {
	owners, m := p.owners(), map[int32][]int32{}
	for i := range p.Locks {
		l := &p.Locks[i]
		a := owners[l.Txn]
		if l.Granted || a == nil {
			continue
		}
		pids := m[a.PID]
		if pids == nil {
			pids = []int32{}
		}
		for _, h := range l.For {
			if b := owners[h.Txn]; b != nil && b != a && !slices.Contains(pids, b.PID) {
				pids = append(pids, b.PID)
			}
		}
		m[a.PID] = pids
	}
	return m
}

// Blocking finds, for each session of the cluster that waits for locks, the sessions that have them.
func (p *Provider) Blocking(ctx context.Context) map[int32][]int32 {
	if p.o.Cluster == nil {
		return map[int32][]int32{}
	}
	report := p.o.Cluster.Report(ctx, true)
	return report.waiting()
}

// lockMode is PostgreSQL's name for the lock of a row.
func lockMode(s kv.LockStrength) string {
	switch s {
	case kv.Shared:
		return "RowShareLock"
	case kv.NoKeyExclusive:
		return "ExclusiveLock"
	case kv.Exclusive:
		return "AccessExclusiveLock"
	}
	return "AccessShareLock"
}

// pgLocks shows the locks of rows, and the waits for them. Page and tuple tell rows apart, for readers of all statistics:
// others might find out by them whether they have guessed a key.
func pgLocks(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	report := r.p.o.Cluster.Report(r.ctx, true)
	owners, f := report.owners(), r.functions()
	all := r.view.Access().Has(r.view.CurrentUser(), catalog.ReadAllStats, "")
	for i := range report.Locks {
		l := &report.Locks[i]
		if l.Advisory {
			continue
		}
		var pid, database, relation, page, tuple, since any
		if a := owners[l.Txn]; a != nil {
			pid = a.PID
		}
		if l.Table != 0 {
			relation = l.Table
			if t := f.table(l.Table); t != nil {
				database = t.Database
			}
		}
		if all {
			page, tuple = int32(l.Row>>1), int16(l.Row)
		}
		if !l.Granted {
			since = l.Since
		}
		r.add("locktype", "tuple", "database", database, "relation", relation, "page", page, "tuple", tuple, "virtualxid", nil,
			"transactionid", nil, "classid", nil, "objid", nil, "objsubid", nil, "virtualtransaction", l.Txn.String(), "pid", pid,
			"mode", lockMode(l.Strength), "granted", l.Granted, "fastpath", false, "waitstart", since)
	}
	for i := range report.Sessions {
		a := &report.Sessions[i]
		for _, l := range a.Advisory {
			mode, since := "ExclusiveLock", any(nil)
			if l.Shared {
				mode = "ShareLock"
			}
			if !l.Granted {
				since = l.Since
			}
			r.add("locktype", "advisory", "database", l.Database, "relation", nil, "page", nil, "tuple", nil, "virtualxid", nil,
				"transactionid", nil, "classid", l.Class, "objid", l.Object, "objsubid", l.Sub, "virtualtransaction", a.Holder.String(), "pid", a.PID,
				"mode", mode, "granted", l.Granted, "fastpath", false, "waitstart", since)
		}
	}
	return r.ctx.Err()
}

// internalLockWaits shows each wait once for each transaction in its way.
func internalLockWaits(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	report := r.p.o.Cluster.Report(r.ctx, true)
	owners, f := report.owners(), r.functions()
	// side gives the known columns of one side's session. Its node is known from the transaction, too.
	side := func(id kv.TxnID, gateway kv.NodeID) (pid, node, txn, user, state, since, began any) {
		if gateway != 0 {
			node = gateway
		}
		if !id.IsZero() {
			txn = id.String()
		}
		if a := owners[id]; a != nil && !id.IsZero() {
			pid, node, user = a.PID, a.Node, a.User
			if r.sees(a.User) {
				state, since, began = a.State, a.StateSince, a.TxnStart
			}
		}
		return pid, node, txn, user, state, since, began
	}
	for i := range report.Locks {
		l := &report.Locks[i]
		if l.Granted {
			continue
		}
		var table, name, waited any
		if l.Table != 0 {
			table = l.Table
			if t := f.table(l.Table); t != nil {
				name = t.Name
			}
		}
		pid, node, txn, user, _, _, _ := side(l.Txn, l.Gateway)
		if !l.Since.IsZero() {
			waited = max(report.At.Sub(l.Since), 0).Truncate(time.Millisecond)
		}
		for _, h := range l.For {
			hpid, hnode, htxn, huser, state, since, began := side(h.Txn, h.Gateway)
			r.add("node_id", l.Node, "range_id", int64(l.Range), "table_id", table, "table_name", name, "mode", lockMode(l.Strength),
				"waiting_pid", pid, "waiting_node", node, "waiting_transaction", txn, "waiting_user", user, "waiting_since", l.Since, "waited", waited,
				"holder_pid", hpid, "holder_node", hnode, "holder_transaction", htxn, "holder_user", huser, "holder_state", state,
				"holder_state_since", since, "holder_transaction_start", began)
		}
	}
	return r.ctx.Err()
}
