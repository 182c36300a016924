package rangeserver

import (
	"context"
	"errors"
	"fmt"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/replica"
)

// Changes of replicas and merges are uses of configurations (rangeserver.RS4, docs/decisions/0012-regions.md). A long change, which ships data, does not
// hold one from its beginning to its end, for statements of regions would wait for it. Each transaction on the descriptor holds one by itself and asks anew whether
// what it writes is allowed: the change of a range whose configuration is replaced meanwhile fails, and placement decides again.

// use begins a use of a span's configurations; without a source of configurations there is nothing to be used.
func (s *Store) use(span keys.Span) (ZoneUse, error) {
	if s.o.Zone == nil {
		return free{s}, nil
	}
	u, err := s.o.Zone.Use(span)
	if err != nil {
		return nil, &kv.UnavailableError{Reason: fmt.Sprintf("replicas of %s are not placed, for its configuration is not known: %v", span, err)}
	}
	return u, nil
}

// free is the use of the default configuration.
type free struct{ s *Store }

func (f free) Zone(k keys.Key) (placement.Zone, keys.Span)  { return f.s.zoneSpan(k) }
func (free) Deadline() (t clock.Timestamp)                  { return t }
func (free) AwaitDeadline(context.Context, clock.Timestamp) {}
func (free) Release()                                       {}

// zonesOf calls f for each configuration in a span.
func zonesOf(u interface {
	Zone(k keys.Key) (placement.Zone, keys.Span)
}, span keys.Span, f func(*placement.Zone) error) error {
	for k := span.Start; k.Less(span.Stop()); {
		z, of := u.Zone(k)
		if err := f(&z); err != nil {
			return err
		}
		k = of.End
	}
	return nil
}

// placed are the replicas that a descriptor has and an earlier one has not, or that become voters. Learners are about to.
func placed(old, new *kv.RangeDescriptor) (out []kv.ReplicaTarget) {
	for _, r := range new.Replicas {
		voter := r.Type == kv.Voter || r.Type == kv.VoterIncoming || r.Type == kv.Learner
		had, ok := old.Replica(r.Node)
		if !ok || voter && (had.Type == kv.NonVoter || had.Type == kv.Learner && r.Type != kv.Learner) {
			t := kv.ReplicaTarget{Node: r.Node, Store: r.Store, Type: kv.NonVoter, Witness: r.Witness}
			if voter {
				t.Type = kv.Voter
			}
			out = append(out, t)
		}
	}
	return out
}

// allowed refuses replicas of a range where one of its configurations forbids them.
func (s *Store) allowed(u ZoneUse, span keys.Span, targets []kv.ReplicaTarget) error {
	if len(targets) == 0 || s.o.Cluster == nil {
		return nil
	}
	known := make(map[kv.NodeID]placement.Node)
	for _, e := range s.o.Cluster.Nodes() {
		known[e.Node] = placement.Node{Node: e.Node, Locality: e.Locality, Attributes: e.Attributes}
	}
	return zonesOf(u, span, func(z *placement.Zone) error {
		for _, t := range targets {
			n, ok := known[t.Node]
			if !ok && len(z.Constraints)+len(z.VoterConstraints) > 0 || t.Witness && z.ForbidsWitness(&n) || !t.Witness && z.Forbids(&n, t.Type == kv.Voter) {
				// Of a node that was not heard of it is not known that it may have one.
				return &ForbiddenError{Node: t.Node, Span: span}
			}
		}
		return nil
	})
}

// ForbiddenError says that a constraint forbids a replica on a node (I8).
type ForbiddenError struct {
	Node kv.NodeID
	Span keys.Span
}

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("rangeserver: the configuration of %s forbids a replica on n%d", e.Span, e.Node)
}

// agreed refuses another protocol for a range than its configurations ask for.
func agreed(u ZoneUse, d *kv.RangeDescriptor) error {
	return zonesOf(u, d.Span(), func(z *placement.Zone) error {
		if z.Reprotocol(d) {
			return refused(fmt.Sprintf("r%d does not get the commit protocol %s: its configuration asks for %s", d.ID, d.Protocol, z.Protocol))
		}
		return nil
	})
}

// useFor begins the use under which a descriptor is replaced by another; nil if that places no replica, and changes no protocol. Removing replicas, ending a joint configuration and
// splitting need no configuration, so they go on while it is not known.
func (s *Store) useFor(old, new *kv.RangeDescriptor) (ZoneUse, error) {
	targets, other := placed(old, new), old.Protocol != new.Protocol && s.o.Zone != nil
	if len(targets) == 0 && !other {
		return nil, nil
	}
	u, err := s.use(old.Span())
	if err != nil {
		return nil, err
	}
	if err = s.allowed(u, old.Span(), targets); err == nil && other {
		err = agreed(u, new)
	}
	if err != nil {
		u.Release()
		return nil, err
	}
	return u, nil
}

// Violations calls f for each range whose lease is on this store, with what it lacks of its configuration. A range in which another configuration begins is judged
// by all of them.
func (s *Store) Violations(f func(*kv.RangeDescriptor, placement.Violation)) {
	if s.o.Cluster == nil || s.o.Zone == nil || !s.o.Settings.Known() {
		return
	}
	nodes := s.nodes(s.o.Clock.Now())
	s.Replicas(func(r *replica.Replica) bool {
		d := r.Desc()
		if _, held := r.CheckLease(clock.Timestamp{}); d == nil || !held {
			return true
		}
		v := Conformity(s.o.Zone, d, s.o.NodeID, nodes)
		if !v.None() {
			f(d, v.Violation)
		}
		return true
	})
}

// Conforms is how a range stands to its configuration.
type Conforms struct {
	placement.Violation
	// Mixed says that another configuration begins within the range, which is to be split.
	Mixed bool
}

// None reports whether the range is as its configuration wants it.
func (c *Conforms) None() bool { return !c.Mixed && c.Violation.None() }

var errFound = errors.New("found")

// Conformity compares a range with its configurations. leaseholder is 0 if it is not known.
func Conformity(zones ZoneSource, d *kv.RangeDescriptor, leaseholder kv.NodeID, nodes []placement.Node) (c Conforms) {
	span := d.Span()
	if _, of := zones.Zone(d.Start); of.End.Less(d.End) && !of.End.Less(keys.MetaMax) {
		c.Mixed = true
	}
	_ = zonesOf(zones, span, func(z *placement.Zone) error {
		if v := placement.Check(z, d, leaseholder, nodes); !v.None() {
			if c.Violation = v; v.Awaited() {
				return errFound
			}
		}
		return nil
	})
	return c
}

// Nodes are the members of the cluster as placement sees them.
func (s *Store) Nodes() []placement.Node { return s.nodes(s.o.Clock.Now()) }
