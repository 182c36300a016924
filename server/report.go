package server

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/virtual"
	"meridian/transport"
	"meridian/wire"
)

// methodReport asks a node for its sessions, and for the locks and waits of the ranges of which it has the lease.
const methodReport = "sql.report"

const (
	// reportWait is how long a node has to answer; one that takes longer is reported as silent.
	reportWait = 2 * time.Second
	// reportQuery is how much of a statement's text goes to another node, PostgreSQL's default for track_activity_query_size.
	reportQuery = 1024
	// reportWaits and reportLocks bound the rows of a node.
	reportWaits = 10_000
	reportLocks = 10_000
)

type reportRequest struct{ Locks bool }

// ownReport is this node's part of a report.
func (n *Node) ownReport(locks bool) (out virtual.Report) {
	if p := n.sql.parts.Load(); p != nil {
		out.Sessions = p.sessions.Activity()
	}
	store := n.Store()
	if !locks || store == nil {
		return out
	}
	waits, held := 0, 0
	store.Locks(func(id kv.RangeID, l kv.LockState) bool {
		if l.Granted {
			if held++; held > reportLocks {
				return waits < reportWaits
			}
		} else if waits++; waits > reportWaits {
			return held < reportLocks
		}
		row := virtual.LockRow{Node: n.NodeID(), Range: id, Txn: l.Txn, Gateway: l.Gateway, Strength: l.Strength, Granted: l.Granted,
			For: l.For, Since: l.Since}
		row.Table, _, _, _ = keys.Owner(l.Key)
		_, row.Advisory = keys.DecodeAdvisory(l.Key)
		h := fnv.New32a()
		h.Write(l.Key)
		row.Row = h.Sum32()
		out.Locks = append(out.Locks, row)
		return true
	})
	return out
}

// handleReport answers another node.
func (n *Node) handleReport(_ context.Context, _ kv.NodeID, req []byte) ([]byte, error) {
	var q reportRequest
	if err := wire.JSON(req, "report request", &q); err != nil {
		return nil, err
	}
	r := n.ownReport(q.Locks)
	for i := range r.Sessions {
		r.Sessions[i].Query = shortened(r.Sessions[i].Query, reportQuery)
	}
	return json.Marshal(r)
}

// shortened cuts a text before the character that would exceed n bytes.
func shortened(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

// Report implements virtual.Cluster.
func (f *clusterFacts) Report(ctx context.Context, locks bool) virtual.Report {
	n := f.n
	ctx, cancel := f.n.host.Clock.WithTimeout(ctx, reportWait)
	defer cancel()
	req, err := json.Marshal(reportRequest{Locks: locks})
	if err != nil {
		panic(err) // it has one bool
	}
	all := n.cluster.Nodes()
	answers := make([]*virtual.Report, len(all))
	var wait sync.WaitGroup
	for i, e := range all {
		if e.Node == n.NodeID() || !n.cluster.Live(e.Node) {
			continue
		}
		wait.Add(1)
		ok := n.host.Group.Go(func(context.Context) {
			defer wait.Done()
			reply, err := n.transport.CallClass(ctx, transport.ClassDefault, e.Node, methodReport, req)
			var r virtual.Report
			if err == nil && json.Unmarshal(reply, &r) == nil {
				answers[i] = &r
			}
		})
		if !ok {
			wait.Done()
		}
	}
	out := n.ownReport(locks)
	wait.Wait()
	for i, e := range all {
		if r := answers[i]; r != nil {
			out.Sessions = append(out.Sessions, r.Sessions...)
			out.Locks = append(out.Locks, r.Locks...)
		} else if record, _ := n.cluster.Record(e.Node); e.Node != n.NodeID() && !record.Decommissioned {
			out.Silent = append(out.Silent, e.Node)
		}
	}
	slices.SortFunc(out.Sessions, func(a, b virtual.Activity) int { return int(a.PID) - int(b.PID) })
	out.At = n.clock.Wall()
	return out
}
