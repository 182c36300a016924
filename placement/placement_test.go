package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"meridian/cluster"
	"meridian/kv"
)

var kinds = [...]string{"nothing", "replicas", "lease", "split"}

func (a Action) describe() string {
	var b strings.Builder
	b.WriteString(kinds[a.Kind])
	switch a.Kind {
	case ChangeReplicas:
		for _, t := range a.Targets {
			fmt.Fprintf(&b, " n%d", t.Node)
			if t.Type == kv.NonVoter {
				b.WriteString("(non-voter)")
			}
			if t.Witness {
				b.WriteString("(witness)")
			}
		}
	case TransferLease:
		fmt.Fprintf(&b, " n%d", a.Lease)
	}
	if a.Reason != "" {
		b.WriteString(": " + a.Reason)
	}
	return b.String() + "\n"
}

// TestScripts: nodes, zone and range are set by their commands; decide shows the next step, run carries steps out
// until there is none.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var nodes []Node
		var z Zone
		r := Range{Desc: &kv.RangeDescriptor{ID: 7, NextReplica: 1}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "nodes":
				nodes = nil
				for line := range strings.Lines(d.Input) {
					nodes = append(nodes, parseNode(t, strings.Fields(line)))
				}
			case "zone":
				z = parseZone(t, d)
			case "range":
				r = Range{Desc: &kv.RangeDescriptor{ID: 7, NextReplica: 1}}
				for _, f := range strings.Fields(d.Input) {
					n, typ, _ := strings.Cut(f, ":")
					p := kv.ReplicaDescriptor{Node: kv.NodeID(atoi(t, n[1:])), Replica: r.Desc.NextReplica}
					switch typ {
					case "lease":
						r.Leaseholder = p.Node
					case "witness":
						p.Witness = true
					case "learner":
						p.Type = kv.Learner
					case "nonvoter":
						p.Type = kv.NonVoter
					case "incoming":
						p.Type = kv.VoterIncoming
					case "outgoing":
						p.Type = kv.VoterOutgoing
					}
					r.Desc.Replicas = append(r.Desc.Replicas, p)
					r.Desc.NextReplica++
				}
				if d.HasArg("bytes") {
					d.ScanArgs(t, "bytes", &r.Bytes)
				}
				if d.HasArg("from") {
					r.Load = parseLoad(t, d)
				}
			case "check":
				v := Check(&z, r.Desc, r.Leaseholder, nodes)
				return v.String() + "\n"
			case "decide":
				return Decide(&z, &r, nodes).describe()
			case "divisible":
				return fmt.Sprintln(Divisible(&z, &r, nodes))
			case "run":
				var b strings.Builder
				for range 20 {
					a := Decide(&z, &r, nodes)
					b.WriteString(a.describe())
					if a.Kind == None || a.Kind == Split {
						break
					}
					apply(&r, nodes, a)
				}
				return b.String()
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			return ""
		})
	})
}

// apply carries out an action.
func apply(r *Range, nodes []Node, a Action) {
	count := func(n kv.NodeID, ranges, leases int) {
		for i := range nodes {
			if nodes[i].Node == n {
				nodes[i].Ranges += ranges
				nodes[i].Leases += leases
			}
		}
	}
	if a.Kind == TransferLease {
		count(r.Leaseholder, 0, -1)
		count(a.Lease, 0, 1)
		r.Leaseholder = a.Lease
		return
	}
	for _, p := range r.Desc.Replicas {
		count(p.Node, -1, 0)
	}
	r.Desc.Replicas = nil
	for _, t := range a.Targets {
		count(t.Node, 1, 0)
		r.Desc.Replicas = append(r.Desc.Replicas, kv.ReplicaDescriptor{Node: t.Node, Replica: r.Desc.NextReplica, Type: t.Type, Witness: t.Witness})
		r.Desc.NextReplica++
	}
}

func parseNode(t *testing.T, fs []string) Node {
	n := Node{Node: kv.NodeID(atoi(t, fs[0][1:])), Live: true}
	for _, f := range fs[1:] {
		k, v, _ := strings.Cut(f, "=")
		switch {
		case f == "down":
			n.Live = false
		case f == "dead":
			n.Live, n.Dead = false, true
		case f == "draining":
			n.Draining = true
		case f == "decommissioned":
			n.Live, n.Dead, n.Decommissioning, n.Gone = false, true, true, true
		case f == "decommissioning":
			n.Decommissioning = true
		case f == "slow":
			n.Slow = true
		case f == "ssd":
			n.Attributes = append(n.Attributes, f)
		case k == "ranges":
			n.Ranges = atoi(t, v)
		case k == "leases":
			n.Leases = atoi(t, v)
		case k == "requests":
			n.Requests = float64(atoi(t, v))
		default:
			n.Locality = append(n.Locality, cluster.Tier{Key: k, Value: v})
		}
	}
	return n
}

// parseLoad reads from=(n1:100,n2:20), and that the lease has come only now (fresh).
func parseLoad(t *testing.T, d *datadriven.TestData) *Load {
	l := &Load{From: make(map[kv.NodeID]float64), Known: !d.HasArg("fresh")}
	a, _ := d.Arg("from")
	for _, f := range a.Vals {
		n, count, _ := strings.Cut(f, ":")
		l.From[kv.NodeID(atoi(t, n[1:]))] = float64(atoi(t, count))
	}
	return l
}

func parseZone(t *testing.T, d *datadriven.TestData) Zone {
	z := DefaultZone()
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "replicas":
			z.NumReplicas = atoi(t, a.Vals[0])
		case "voters":
			z.NumVoters = atoi(t, a.Vals[0])
		case "confined":
			z.Confined = true
		case "max":
			z.RangeMaxBytes = int64(atoi(t, a.Vals[0]))
		}
	}
	for line := range strings.Lines(d.Input) {
		fs := strings.Fields(line)
		var c Conjunction
		for _, f := range fs[1:] {
			if n, ok := strings.CutPrefix(f, "x"); ok {
				c.Replicas = atoi(t, n)
				continue
			}
			k, ok := parseConstraint(f)
			if !ok || k.String() != f {
				t.Fatalf("constraint %q", f)
			}
			c.Constraints = append(c.Constraints, k)
		}
		switch fs[0] {
		case "all":
			z.Constraints = append(z.Constraints, c)
		case "voters":
			z.VoterConstraints = append(z.VoterConstraints, c)
		case "lease":
			z.LeasePreferences = append(z.LeasePreferences, c)
		case "witness":
			z.Witness = &c
		}
	}
	return z
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRandom: from any state, steps end; no step puts a replica where a constraint forbids it (placement.P1), takes away the
// leaseholder's, or leaves fewer voters than before if that is less than the zone asks for (placement.P2), or an even number of them
// that is no more than before (placement.P3); in the end the wanted number of voters is there if there are enough nodes. A lease that
// follows its requests goes to a voter that may have it.
func TestRandom(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var nodes []Node
		for i := range 1 + rng.IntN(9) {
			n := Node{Node: kv.NodeID(i + 1), Live: true, Ranges: rng.IntN(20), Leases: rng.IntN(10), Locality: cluster.Locality{
				{Key: "region", Value: fmt.Sprint(rng.IntN(3))}, {Key: "zone", Value: fmt.Sprint(rng.IntN(3))}}}
			switch rng.IntN(12) {
			case 0:
				n.Live = false
			case 1:
				n.Live, n.Dead = false, true
			case 2:
				n.Draining = true
			case 3:
				n.Decommissioning = true
			case 4:
				n.Slow = true
			}
			nodes = append(nodes, n)
		}
		z := DefaultZone()
		z.NumReplicas = 1 + 2*rng.IntN(3)
		if rng.IntN(2) == 0 {
			z.NumVoters = 1 + 2*rng.IntN((z.NumReplicas+1)/2)
		}
		if rng.IntN(3) == 0 {
			z.Constraints = []Conjunction{{Constraints: []Constraint{{Forbidden: true, Key: "region", Value: "0"}}}}
		}
		var live []kv.NodeID
		for _, n := range nodes {
			if n.Live {
				live = append(live, n.Node)
			}
		}
		if len(live) == 0 {
			continue
		}
		r := Range{Desc: &kv.RangeDescriptor{ID: 1, NextReplica: 2}, Leaseholder: live[rng.IntN(len(live))]}
		r.Desc.Replicas = []kv.ReplicaDescriptor{{Node: r.Leaseholder, Replica: 1}}
		// Further voters may be on nodes that were not heard of (yet).
		for len(r.Desc.Replicas) < 1+rng.IntN(6) {
			if id := kv.NodeID(1 + rng.IntN(len(nodes)+1)); !slices.ContainsFunc(r.Desc.Replicas, func(p kv.ReplicaDescriptor) bool { return p.Node == id }) {
				r.Desc.Replicas = append(r.Desc.Replicas, kv.ReplicaDescriptor{Node: id, Replica: r.Desc.NextReplica})
				r.Desc.NextReplica++
			}
		}
		up := 0
		for _, p := range r.Desc.Replicas {
			if int(p.Node) <= len(nodes) && nodes[p.Node-1].Live {
				up++
			}
		}
		if rng.IntN(3) > 0 {
			r.Load = &Load{From: make(map[kv.NodeID]float64), Known: rng.IntN(5) > 0}
			for range rng.IntN(5) {
				r.Load.From[kv.NodeID(rng.IntN(len(nodes)+2))] += float64(rng.IntN(1000))
			}
		}
		if rng.IntN(4) == 0 {
			z.LeasePreferences = []Conjunction{{Constraints: []Constraint{{Key: "region", Value: "1"}}}}
		}
		for step := 0; ; step++ {
			if step > 60 {
				t.Fatalf("seed %d: no end: %+v", seed, r.Desc.Replicas)
			}
			a := Decide(&z, &r, nodes)
			if a.Kind == None {
				break
			}
			if step > 50 {
				t.Logf("%s", a.describe())
			}
			if a.Kind == ChangeReplicas {
				if !slices.ContainsFunc(a.Targets, func(x kv.ReplicaTarget) bool { return x.Node == r.Leaseholder && x.Type == kv.Voter }) {
					t.Fatalf("seed %d: %s takes the leaseholder n%d away", seed, a.describe(), r.Leaseholder)
				}
				before, after := 0, 0
				for _, p := range r.Desc.Replicas {
					if p.Type == kv.Voter {
						before++
					}
				}
				for _, x := range a.Targets {
					if x.Type == kv.Voter {
						after++
					}
				}
				if after < before && after < z.Voters() {
					t.Fatalf("seed %d: %s: %d voters become %d, and the zone asks for %d (placement.P2)", seed, a.describe(), before, after, z.Voters())
				}
				// The only voter moves by way of two.
				holder := nodes[r.Leaseholder-1]
				moves := before == 1 && after == 2 && (holder.Decommissioning || z.Forbids(&holder, true))
				if after > before && after%2 == 0 && !moves {
					t.Fatalf("seed %d: %s: %d voters become %d (placement.P3)", seed, a.describe(), before, after)
				}
				for _, x := range a.Targets {
					if int(x.Node) > len(nodes) {
						continue
					}
					n := nodes[x.Node-1]
					if _, had := r.Desc.Replica(x.Node); !had && (!n.usable() || len(z.Constraints) > 0 && !z.Constraints[0].satisfied(&n)) {
						t.Fatalf("seed %d: %s: n%d is not allowed", seed, a.describe(), x.Node)
					}
				}
			}
			if a.Follow {
				from, to := nodes[r.Leaseholder-1], nodes[a.Lease-1]
				was, now := travelled(&r, nodes, from), travelled(&r, nodes, to)
				if !r.Load.Known || !to.usable() || to.Slow && !from.Slow || now*followGain > was ||
					len(z.LeasePreferences) > 0 && z.LeasePreferences[0].satisfied(&from) && !z.LeasePreferences[0].satisfied(&to) {
					t.Fatalf("seed %d: %s: n%d of %+v", seed, a.describe(), a.Lease, r.Load)
				}
			}
			apply(&r, nodes, a)
		}
		usable := 0
		for _, n := range nodes {
			if n.usable() && (len(z.Constraints) == 0 || z.Constraints[0].satisfied(&n)) {
				usable++
			}
		}
		voters := 0
		for _, p := range r.Desc.Replicas {
			if p.Type == kv.Voter {
				voters++
			}
		}
		if up > len(r.Desc.Replicas)/2 && usable > z.NumReplicas && voters < z.Voters() {
			t.Errorf("seed %d: %d voters of %d with %d usable nodes: %+v", seed, voters, z.Voters(), usable, r.Desc.Replicas)
		}
	}
}

// travelled is how far a range's requests travel to a node.
func travelled(r *Range, nodes []Node, to Node) (sum float64) {
	for from, n := range r.Load.From {
		o := Node{Locality: cluster.Locality{{Key: "nowhere"}}}
		if from != 0 && int(from) <= len(nodes) {
			o = nodes[from-1]
		}
		sum += n * way(&o, &to)
	}
	return sum
}

// parseConstraint reads what String prints.
func parseConstraint(s string) (c Constraint, ok bool) {
	switch {
	case strings.HasPrefix(s, "+"):
		s = s[1:]
	case strings.HasPrefix(s, "-"):
		c.Forbidden, s = true, s[1:]
	}
	if c.Key, c.Value, ok = strings.Cut(s, "="); !ok {
		c.Key, c.Value = "", s
	}
	return c, c.Value != "" && ok == (c.Key != "")
}
