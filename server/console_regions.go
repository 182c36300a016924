package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"meridian/clock"
	"meridian/console"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/transport"
)

// methodConsole asks a node for its part of the console's data.
const methodConsole = "server.console"

const (
	// consoleWait is how long a node has to answer; what it knows is left out then.
	consoleWait = time.Second
	// maxConsoleLeases bounds the leases of which a node tells.
	maxConsoleLeases = 20_000
	// maxConsoleTables bounds the tables in the console's data.
	maxConsoleTables = 200
)

// roundTrips are those that this node has measured, by node.
func (n *Node) roundTrips() map[kv.NodeID]time.Duration {
	out := map[kv.NodeID]time.Duration{}
	for _, e := range n.cluster.Nodes() {
		if rtt, ok := n.cluster.Latency(e.Node); ok && e.Node != n.NodeID() && n.cluster.Live(e.Node) {
			out[e.Node] = rtt
		}
	}
	return out
}

// consolePart is what one node knows.
type consolePart struct {
	// RoundTrips to other nodes, as the node has measured them.
	RoundTrips map[kv.NodeID]time.Duration
	// Leases are the ranges whose lease the node has.
	Leases []kv.RangeID
	// Latencies are how many statements ended here lately, by step of the histogram of their times.
	Latencies map[int]int64
}

func (n *Node) ownConsolePart() consolePart {
	p := consolePart{RoundTrips: n.roundTrips(), Latencies: n.recentLatencies()}
	if s := n.store.Load(); s != nil {
		s.Replicas(func(r *replica.Replica) bool {
			if _, held := r.CheckLease(clock.Timestamp{}); held {
				p.Leases = append(p.Leases, r.RangeID())
			}
			return len(p.Leases) < maxConsoleLeases
		})
	}
	return p
}

func (n *Node) handleConsole(context.Context, kv.NodeID, []byte) ([]byte, error) {
	return json.Marshal(n.ownConsolePart())
}

// consoleParts are those of all nodes that answer soon.
func (n *Node) consoleParts(ctx context.Context) map[kv.NodeID]consolePart {
	ctx, cancel := n.host.Clock.WithTimeout(ctx, consoleWait)
	defer cancel()
	var mu sync.Mutex // guards parts
	parts := map[kv.NodeID]consolePart{}
	var wait sync.WaitGroup
	for _, e := range n.cluster.Nodes() {
		if e.Node == n.NodeID() || !n.cluster.Live(e.Node) {
			continue
		}
		wait.Add(1)
		if !n.host.Group.Go(func(context.Context) {
			defer wait.Done()
			reply, err := n.transport.CallClass(ctx, transport.ClassDefault, e.Node, methodConsole, nil)
			var p consolePart
			if err == nil && json.Unmarshal(reply, &p) == nil {
				mu.Lock()
				defer mu.Unlock()
				parts[e.Node] = p
			}
		}) {
			wait.Done()
		}
	}
	own := n.ownConsolePart()
	wait.Wait()
	parts[n.NodeID()] = own
	return parts
}

// regionMatrix are the round trips between regions.
func (n *Node) regionMatrix(parts map[kv.NodeID]consolePart) (out []console.RoundTrip) {
	region := map[kv.NodeID]string{}
	for _, e := range n.cluster.Nodes() {
		region[e.Node] = e.Locality.Region()
	}
	measured := map[[2]string][]time.Duration{}
	for from, p := range parts {
		for to, rtt := range p.RoundTrips {
			pair := [2]string{region[from], region[to]}
			measured[pair] = append(measured[pair], rtt)
		}
	}
	for pair, rtts := range measured {
		slices.Sort(rtts)
		out = append(out, console.RoundTrip{From: pair[0], To: pair[1], MS: float64(rtts[len(rtts)/2].Microseconds()) / 1000})
	}
	slices.SortFunc(out, func(a, b console.RoundTrip) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return out
}

// leaseholders are the nodes that say that they have the lease of a range.
func leaseholders(parts map[kv.NodeID]consolePart) map[kv.RangeID]kv.NodeID {
	out := map[kv.RangeID]kv.NodeID{}
	for id, p := range parts {
		for _, r := range p.Leases {
			out[r] = id
		}
	}
	return out
}

// consoleTables gathers where tables are; add takes the ranges in key order.
type consoleTables struct {
	n      *Node
	list   []*consoleTable
	region map[kv.NodeID]string
	count  int
}

type consoleTable struct {
	span   keys.Span
	row    console.Table
	places map[string]*console.Place
}

func (n *Node) newConsoleTables() *consoleTables {
	c := &consoleTables{n: n, region: map[kv.NodeID]string{}}
	for _, e := range n.cluster.Nodes() {
		c.region[e.Node] = e.Locality.Region()
	}
	leases := n.zones.leases.Load()
	if leases == nil {
		return c
	}
	s := leases.Snapshot()
	for t := range s.StoredTables() {
		db := s.DatabaseByID(t.Database)
		if t.Dropped || db == nil || t.Kind != catalog.KindTable {
			continue
		}
		c.count++
		row := console.Table{Database: db.Name, Schema: schemaName(s, t.Schema), Name: t.Name}
		if db.MultiRegion() {
			row.Locality = t.Locality.String()
		}
		c.list = append(c.list, &consoleTable{span: keys.TableSpan(t.ID), row: row, places: map[string]*console.Place{}})
	}
	slices.SortFunc(c.list, func(a, b *consoleTable) int {
		return cmp.Or(cmp.Compare(a.row.Database, b.row.Database), cmp.Compare(a.row.Schema, b.row.Schema), cmp.Compare(a.row.Name, b.row.Name))
	})
	c.list = c.list[:min(len(c.list), maxConsoleTables)]
	slices.SortFunc(c.list, func(a, b *consoleTable) int { return a.span.Start.Compare(b.span.Start) })
	return c
}

func schemaName(s *lease.Snapshot, id catalog.ID) string {
	if d := s.Descriptor(id); d != nil && d.Schema != nil {
		return d.Schema.Name
	}
	return ""
}

// add counts a range for the tables that it holds. violation says which constraint it violates; empty: none.
func (c *consoleTables) add(d *kv.RangeDescriptor, leaseholder kv.NodeID, violation string) {
	first, _ := slices.BinarySearchFunc(c.list, d.Start, func(t *consoleTable, k keys.Key) int {
		if t.span.End.Compare(k) <= 0 {
			return -1
		}
		return 1
	})
	for _, t := range c.list[first:] {
		if d.End.Compare(t.span.Start) <= 0 {
			return
		}
		moves := false
		for _, r := range d.Replicas {
			p := t.places[c.region[r.Node]]
			if p == nil {
				p = &console.Place{Region: c.region[r.Node]}
				t.places[p.Region] = p
			}
			switch {
			case r.Type != kv.Voter && r.Type != kv.NonVoter:
				moves = true
			case r.Witness:
				p.Witnesses++
			case r.Type == kv.Voter:
				p.Voters++
			default:
				p.NonVoters++
			}
			if r.Node == leaseholder {
				p.Leases++
			}
		}
		if moves {
			t.row.Moves++
		}
		if violation != "" {
			if t.row.Violations++; t.row.Violation == "" {
				t.row.Violation = violation
			}
		}
	}
}

// changeOf says in words how the replicas of a range are being changed; empty: they are not.
func changeOf(d *kv.RangeDescriptor) string {
	var out []string
	for _, r := range d.Replicas {
		switch r.Type {
		case kv.Learner:
			out = append(out, fmt.Sprintf("n%d is shipped", r.Node))
		case kv.VoterIncoming:
			out = append(out, fmt.Sprintf("n%d comes", r.Node))
		case kv.VoterOutgoing:
			out = append(out, fmt.Sprintf("n%d goes", r.Node))
		case kv.VoterDemoting:
			out = append(out, fmt.Sprintf("n%d ceases to vote", r.Node))
		}
	}
	return strings.Join(out, ", ")
}

// rows are the tables by name.
func (c *consoleTables) rows() []console.Table {
	out := make([]console.Table, 0, len(c.list))
	for _, t := range c.list {
		for _, p := range t.places {
			t.row.Places = append(t.row.Places, *p)
		}
		slices.SortFunc(t.row.Places, func(a, b console.Place) int { return cmp.Compare(a.Region, b.Region) })
		out = append(out, t.row)
	}
	slices.SortFunc(out, func(a, b console.Table) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name))
	})
	return out
}
