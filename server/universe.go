package server

import (
	"cmp"
	"context"
	"slices"
	"time"

	"meridian/console"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/sql/catalog"
	"meridian/sql/catalog/region"
	"meridian/sql/virtual"
)

// The states of nodes and of zones. A node is suspect as long as it does not answer and its replicas are not being rebuilt elsewhere yet.
const (
	stateLive     = "live"
	stateSuspect  = "suspect"
	stateDead     = "dead"
	stateDraining = "draining"
	stateLeaving  = "decommissioning"
	// stateDegraded is that of a zone of which some nodes are not live.
	stateDegraded = "degraded"
)

// universe gathers the zones of the cluster, Spanner's units of administrative deployment (§2): a zone here is the nodes of one region and zone of the localities.
type universe struct {
	n     *Node
	zones map[[2]string]*virtual.ZoneRow
	of    map[kv.NodeID]*virtual.ZoneRow
	state map[kv.NodeID]string
}

func (n *Node) newUniverse(heard map[kv.NodeID]said) *universe {
	u := &universe{n: n, zones: map[[2]string]*virtual.ZoneRow{}, of: map[kv.NodeID]*virtual.ZoneRow{}, state: map[kv.NodeID]string{}}
	seen, epsilon := map[kv.NodeID]placement.Node{}, n.epsilons()
	for _, p := range n.placementNodes() {
		seen[p.Node] = p
	}
	for _, e := range n.cluster.Nodes() {
		if r, ok := n.cluster.Record(e.Node); ok && r.Decommissioned {
			continue
		}
		at := [2]string{e.Locality.Region(), e.Locality.Zone()}
		z := u.zones[at]
		if z == nil {
			z = &virtual.ZoneRow{Region: at[0], Zone: at[1]}
			u.zones[at] = z
		}
		u.of[e.Node] = z
		p := seen[e.Node]
		s := stateLive
		switch {
		case p.Dead:
			s = stateDead
			z.Dead++
		case !n.cluster.Live(e.Node):
			s = stateSuspect
			z.Suspect++
		case p.Draining || e.Draining:
			s = stateDraining
			z.Draining++
		case p.Decommissioning:
			s = stateLeaving
			z.Draining++
		default:
			z.Live++
		}
		u.state[e.Node] = s
		z.Nodes = append(z.Nodes, e.Node)
		z.Leaders += heard[e.Node].Leases
		z.Bytes += int64(e.Capacity.UsedBytes)
		z.Epsilon = max(z.Epsilon, epsilon(e.Node))
	}
	return u
}

// epsilons bound how far nodes' clocks may be from true time (Spanner §3). For a node that has not said it, that is the maximum offset.
func (n *Node) epsilons() func(kv.NodeID) time.Duration {
	known := map[kv.NodeID]time.Duration{n.NodeID(): n.time.Epsilon()}
	for _, o := range n.cluster.Offsets() {
		if o.Epsilon > 0 {
			known[o.Node] = o.Epsilon
		}
	}
	return func(id kv.NodeID) time.Duration {
		if e, ok := known[id]; ok {
			return e
		}
		return n.clock.MaxOffset()
	}
}

// add counts the replicas of a range, and those that come and go.
func (u *universe) add(d *kv.RangeDescriptor) {
	for _, r := range d.Replicas {
		z := u.of[r.Node]
		if z == nil {
			continue
		}
		z.Replicas++
		switch r.Type {
		case kv.Learner, kv.VoterIncoming:
			z.Arriving++
		case kv.VoterOutgoing, kv.VoterDemoting:
			z.Leaving++
		}
	}
}

// rows are the zones, by region and name.
func (u *universe) rows() (out []virtual.ZoneRow) {
	for _, z := range u.zones {
		slices.Sort(z.Nodes)
		switch n := len(z.Nodes); {
		case z.Dead == n:
			z.State = stateDead
		case z.Dead+z.Suspect == n:
			z.State = stateSuspect
		case z.Dead+z.Suspect > 0:
			z.State = stateDegraded
		case z.Draining > 0:
			z.State = stateDraining
		default:
			z.State = stateLive
		}
		out = append(out, *z)
	}
	slices.SortFunc(out, func(a, b virtual.ZoneRow) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone))
	})
	return out
}

// Universe implements virtual.Cluster.
func (f *clusterFacts) Universe(ctx context.Context) ([]virtual.ZoneRow, error) {
	u := f.n.newUniverse(f.n.heard(ctx))
	err := f.n.eachRange(ctx, keys.Min, keys.Max, func(info kv.RangeInfo) error {
		u.add(&info.Desc)
		return nil
	})
	return u.rows(), err
}

// console is the universe as the console draws it.
func (u *universe) console() (out []console.Zone) {
	for _, z := range u.rows() {
		row := console.Zone{Region: z.Region, Zone: z.Zone, State: z.State, Live: z.Live, Suspect: z.Suspect, Dead: z.Dead, Draining: z.Draining, Leaders: z.Leaders,
			Replicas: z.Replicas, Bytes: z.Bytes, Arriving: z.Arriving, Leaving: z.Leaving, EpsilonMS: float64(z.Epsilon) / float64(time.Millisecond)}
		for _, n := range z.Nodes {
			row.Nodes = append(row.Nodes, int(n))
		}
		out = append(out, row)
	}
	return out
}

// maxConsoleDirectories bounds the directories in the console's data.
const maxConsoleDirectories = 200

// consoleDirectories gathers tables and directories with placements; add takes the ranges in key order.
type consoleDirectories struct {
	n     *Node
	nodes []placement.Node
	list  []*consoleDirectory
	count int
}

type consoleDirectory struct {
	span keys.Span
	row  console.Directory
}

func (n *Node) newConsoleDirectories() *consoleDirectories {
	c := &consoleDirectories{n: n, nodes: n.placementNodes()}
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
		row := console.Directory{Database: db.Name, Table: t.Name, Placement: t.Placement}
		if row.Placement == "" {
			row.Placement = db.Placement
		}
		if row.Placement != "" {
			c.list = append(c.list, &consoleDirectory{keys.TableSpan(t.ID), row})
		}
		x := t.Primary()
		for i := range x.Directories {
			row.Prefix, row.Placement = x.Directories[i].Prefix.Text, x.Directories[i].Placement
			c.list = append(c.list, &consoleDirectory{region.DirectorySpan(t, x, &x.Directories[i]), row})
		}
	}
	slices.SortFunc(c.list, func(a, b *consoleDirectory) int {
		return cmp.Or(a.span.Start.Compare(b.span.Start), b.span.End.Compare(a.span.End))
	})
	c.count = len(c.list)
	c.list = c.list[:min(c.count, maxConsoleDirectories)]
	return c
}

// add counts a range for the directories that it holds a part of.
func (c *consoleDirectories) add(d *kv.RangeDescriptor, leaseholder kv.NodeID, unavailable bool) {
	for _, o := range c.list {
		if d.End.Compare(o.span.Start) <= 0 {
			return // so do all after it
		}
		if o.span.End.Compare(d.Start) <= 0 {
			continue
		}
		if o.row.Ranges++; o.row.Places == "" {
			o.row.Places = c.n.regionsOf(d, leaseholder)
		}
		if why, stuck := misfit(c.n.zones, d, leaseholder, unavailable, c.nodes); why != "" {
			o.row.Moving++
			if o.row.Stuck = o.row.Stuck || stuck; o.row.Reason == "" {
				o.row.Reason = why
			}
		}
	}
}

func (c *consoleDirectories) rows() (out []console.Directory) {
	for _, o := range c.list {
		out = append(out, o.row)
	}
	return out
}
