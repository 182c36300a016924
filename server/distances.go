package server

import (
	"context"
	"slices"
	"sync"
	"time"

	fastpaxos "meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
	"meridian/sql/opt"
)

// Distances implements session.Ranges: what this gateway's range cache and its measured round trips say about the places of rows.
func (r ranges) Distances() opt.Region {
	router := r.n.router
	if router == nil || !router.Far() {
		return opt.Region{}
	}
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return opt.Region{Masters: func(p opt.Place) opt.Masters {
		m := router.Masters(placeSpan(p))
		return opt.Masters{Micros: micros(m.Trip), Rounds: m.Rounds, Regions: m.Regions, Far: m.Far}
	}, Distance: func(p opt.Place) opt.Distance {
		at := route.AtNearest
		switch {
		case p.Snapshot:
			at = route.AtTimestamp
		case p.Majority:
			at = route.AtMajority
		}
		d := router.DistanceAt(placeSpan(p), at)
		return opt.Distance{Leaseholder: micros(d.Leaseholder), Sum: micros(d.Sum), Ranges: d.Ranges, Nearest: micros(d.Nearest), Farthest: micros(d.Farthest),
			Quorum: micros(d.Quorum), WideQuorum: d.WideQuorum, Regions: d.Regions,
			Commit: micros(d.Commit), CommitRounds: d.CommitRounds, CommitRegions: d.CommitRegions}
	}}
}

// Quorums implements session.Ranges.
func (r ranges) Quorums(p opt.Place) (out []opt.Quorums) {
	if r.n.router == nil {
		return nil
	}
	for _, q := range r.n.router.Quorums(placeSpan(p)) {
		out = append(out, opt.Quorums(q))
	}
	return out
}

// quorums are those of ranges that commit without leaseholders.
func quorums(d *kv.RangeDescriptor) (route.Quorums, bool) {
	if d.Protocol != kv.FastPaxos {
		return route.Quorums{}, false
	}
	q := fastpaxos.QuorumsIn(d)
	return route.Quorums{Replicas: q.Replicas, Fast: q.Fast, Classic: q.Classic, Reading: q.Reading()}, true
}

// maxLocated bounds the ranges that Locate looks up.
const maxLocated = 32

// Locate implements session.Ranges.
func (r ranges) Locate(ctx context.Context, p opt.Place, masters bool) error {
	router := r.n.router
	span := placeSpan(p)
	for k, n := span.Start, 0; k.Less(span.End) && n < maxLocated; n++ {
		if !masters && !router.Distance(keys.Span{Start: k, End: span.End}).Unknown {
			return nil
		}
		info, err := router.Range(ctx, k, false)
		if err != nil {
			return err
		}
		if masters && info.Leaseholder.Node == 0 {
			limit, cancel := r.n.host.Clock.WithTimeout(ctx, askRange)
			_, err := router.Leaseholder(limit, k, false)
			cancel()
			if err != nil && ctx.Err() != nil {
				return ctx.Err()
			}
		}
		k = info.Desc.End
	}
	return nil
}

// freshRange bounds the wait for a range that is asked where it is; chosen by us, for a user who has asked for a plan.
const freshRange = time.Second

// Refresh implements session.Ranges. A gateway hears of changed replicas and moved leases with the answers of ranges that it has asked by an earlier state; so it asks.
func (r ranges) Refresh(ctx context.Context, places []opt.Place) error {
	var starts []keys.Key
	for _, p := range places {
		span := placeSpan(p)
		for k := span.Start; k.Less(span.End) && len(starts) < maxLocated; {
			info, err := r.n.router.Range(ctx, k, false)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(starts, info.Desc.Start.Equal) {
				starts = append(starts, info.Desc.Start)
			}
			k = info.Desc.End
		}
	}
	limit, cancel := r.n.host.Clock.WithTimeout(ctx, freshRange)
	defer cancel()
	var asked sync.WaitGroup
	for _, k := range starts {
		asked.Add(1)
		if !r.n.host.Group.Go(func(context.Context) {
			defer asked.Done()
			_, _ = r.n.router.Leaseholder(limit, rangeProbe(k), true) // one that does not answer is taken to be where it was
		}) {
			asked.Done()
		}
	}
	asked.Wait()
	return ctx.Err()
}

// placeSpan is the keys of rows.
func placeSpan(p opt.Place) keys.Span {
	if p.Index == 0 {
		return keys.TableSpan(p.Table)
	}
	if len(p.Prefix) == 0 {
		return keys.IndexSpan(p.Table, p.Index)
	}
	start := append(keys.IndexPrefix(p.Table, p.Index), p.Prefix...)
	return keys.Span{Start: start, End: start.PrefixEnd()}
}
