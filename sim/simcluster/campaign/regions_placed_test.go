package campaign_test

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"meridian/clock"
	"meridian/cluster"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/sim/simcluster/simtest"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/catalog/region"
)

// The replicas of a range are a row, and so is each object of the schema, and both have all their versions. So it is checked, for every change of replicas that was
// ever committed, that the configuration in force at that moment allowed it (I8, rangeserver.RS4).

// follow learns the first keys of all ranges that there ever are.
func (k *regionsCampaign) follow(stop chan struct{}) chan []keys.Key {
	out := make(chan []keys.Key, 1)
	go func() {
		starts := map[string]bool{}
		look := func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			for i := range k.c.Len() {
				if ranges, err := k.c.Ranges(ctx, i); err == nil {
					for _, d := range ranges {
						starts[string(d.Start)] = true
					}
					return
				}
			}
		}
		for {
			look()
			select {
			case <-stop:
				var all []keys.Key
				for _, s := range slices.Sorted(maps.Keys(starts)) {
					all = append(all, keys.Key(s))
				}
				out <- all
				return
			case <-time.After(250 * time.Millisecond):
			}
		}
	}()
	return out
}

// thenCatalogue is the catalogue as it was at some moment.
type thenCatalogue map[catalog.ID]*lease.Descriptor

func (c thenCatalogue) DatabaseByID(id catalog.ID) *catalog.Database {
	if d := c[id]; d != nil {
		return d.Database
	}
	return nil
}

func (c thenCatalogue) Databases() iter.Seq[*catalog.Database] {
	return func(yield func(*catalog.Database) bool) {
		for _, d := range c {
			if d.Database != nil && !d.Database.Dropped && !yield(d.Database) {
				return
			}
		}
	}
}

func (c thenCatalogue) StoredTables() iter.Seq[*catalog.Table] {
	return func(yield func(*catalog.Table) bool) {
		for _, d := range c {
			if d.Table != nil && d.Table.Kind != catalog.KindView && !yield(d.Table) {
				return
			}
		}
	}
}

func (c thenCatalogue) Zones() (z catalog.NamedZones) {
	if d := c[catalog.SettingsTableID]; d != nil && d.Settings != nil {
		z.Ranges, z.Placements = d.Settings.Zones, d.Settings.Placements
	}
	return z
}

// schemaAt is the configurations of all spans from a moment on.
type schemaAt struct {
	from  clock.Timestamp
	spans []region.Span
}

// checkPlaced checks every change of replicas of users' ranges.
func (k *regionsCampaign) checkPlaced(starts []keys.Key) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	db := k.c.Node(0).DB()
	since := clock.Timestamp{Wall: k.start.UnixNano()}
	objects, err := simtest.VersionsOf(ctx, db, keys.IndexSpan(catalog.DescriptorTableID, catalog.IndexID(1)), since)
	if err != nil {
		k.problem("the history of the catalogue: %v", err)
		return
	}
	// Of every state of the catalogue, the last one last.
	var states []schemaAt
	now := thenCatalogue{}
	whole := placement.DefaultZone()
	for i, v := range objects {
		d := &lease.Descriptor{}
		if err := json.Unmarshal(v.Row.Value, d); err != nil {
			k.problem("a descriptor: %v", err)
			return
		}
		if now[d.ID()] = d; i+1 < len(objects) && objects[i+1].At == v.At {
			continue
		}
		states = append(states, schemaAt{v.At, region.Spans(now, whole)})
	}
	nodes := map[kv.NodeID]*placement.Node{}
	for i, m := range k.c.Machines {
		l, err := cluster.ParseLocality("region=" + m.Region + ",zone=" + m.Zone)
		if err != nil {
			k.problem("%v", err)
		}
		id := k.c.Node(i).NodeID()
		nodes[id] = &placement.Node{Node: id, Locality: l}
	}
	// Each of these reads is a round trip or two, so they are made side by side.
	histories := make([][]simtest.RowVersion, len(starts))
	var readers sync.WaitGroup
	turn := make(chan struct{}, 16)
	for i, start := range starts {
		if start.Less(keys.TableKey(catalog.FirstUserID)) {
			continue
		}
		readers.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			key := keys.RangeDescriptorKey(start)
			var err error
			if histories[i], err = simtest.VersionsOf(ctx, db, keys.Span{Start: key, End: key.Next()}, since); err != nil {
				k.problem("the history of a range: %v", err)
			}
		})
	}
	readers.Wait()
	for _, versions := range histories {
		for i := 1; i < len(versions); i++ {
			old, err1 := kv.DecodeRangeDescriptor(versions[i-1].Row.Value)
			d, err2 := kv.DecodeRangeDescriptor(versions[i].Row.Value)
			if err1 != nil || err2 != nil {
				k.problem("a range descriptor: %v, %v", err1, err2)
				return
			}
			if old.ID == d.ID {
				k.checkChange(states, &old, &d, versions[i].At, nodes)
			}
		}
	}
}

// checkChange checks a change of a range: each replica that it places is allowed by a configuration that was in force.
func (k *regionsCampaign) checkChange(states []schemaAt, old, d *kv.RangeDescriptor, at clock.Timestamp, nodes map[kv.NodeID]*placement.Node) {
	for _, r := range d.Replicas {
		voter := r.Type == kv.Voter || r.Type == kv.VoterIncoming || r.Type == kv.Learner
		if had, ok := old.Replica(r.Node); ok && !(voter && had.Type == kv.NonVoter) {
			continue
		}
		k.placed++
		forbids := func(s schemaAt, n *placement.Node) bool {
			for key := d.Start; key.Less(d.End); {
				zone, of := region.Find(s.spans, key)
				if zone.Forbids(n, voter) {
					return true
				}
				key = of.End
			}
			return false
		}
		i, _ := slices.BinarySearchFunc(states, at, func(s schemaAt, at clock.Timestamp) int {
			if s.from.LessEq(at) {
				return -1
			}
			return 1
		})
		i--
		for _, n := range nodes {
			if forbids(states[i], n) {
				k.restricted++
				break
			}
		}
		allowed := false
		for ; i >= 0 && !allowed; i-- {
			allowed = !forbids(states[i], nodes[r.Node])
			if k.replaced(states[i].from, at) {
				break // nobody may follow the state before
			}
		}
		if !allowed {
			k.problem("r%d of %s got a replica on n%d in %s at %s, where no configuration in force allows one: %v, then %v", d.ID, d.Span(), r.Node,
				nodes[r.Node].Locality, time.Unix(0, at.Wall).Sub(k.start).Round(time.Millisecond), old.Replicas, d.Replicas)
		}
	}
}

// replaced reports whether what was in force before a change of the catalogue is so no longer at a time: all statements that may have made the change have returned
// before.
func (k *regionsCampaign) replaced(change, at clock.Timestamp) bool {
	k.ddl.Lock()
	defer k.ddl.Unlock()
	const error = 250 * time.Millisecond // of clocks
	changed, when, some := time.Unix(0, change.Wall), time.Unix(0, at.Wall), false
	for _, s := range k.statements {
		if s.call.After(changed.Add(error)) || s.how == "ok" && s.answer.Add(error).Before(changed) {
			continue
		}
		if some = true; s.how != "ok" || s.answer.Add(error).After(when) {
			return false
		}
	}
	return some || when.Sub(changed) > time.Minute
}
