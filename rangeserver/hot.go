package rangeserver

import (
	"context"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/setting"
)

// A range with many requests is split at a key that halves them, so that its halves can be on different nodes (CRDB'20 §2.2.3). Only while there are so many are keys
// sampled: all other requests cost one atomic load.
//
//	pass      requests per second above kv.range_split.by_load.threshold, and a node that can take a part (placement.Divisible): sample
//	requests  about samplesPerSecond of them leave their key
//	pass      enough samples over sampleFor: split where half of them is on each side, unless most are for one key
const (
	samplesMax       = 128
	samplesMin       = 48
	samplesPerSecond = 16
	// sampleFor is how long keys are sampled at least, and sampleGiveUp when the samples are too old.
	sampleFor, sampleGiveUp = 3 * time.Second, 30 * time.Second
	// sideMin: each side of the split has so large a part of the requests.
	sideMin = 0.25
	// hotApart is for how long a range that was split by load is not merged, whatever its load: the counts have to begin anew.
	hotApart = 2 * time.Minute
)

// sampler has keys of a range's requests.
type sampler struct {
	since time.Duration
	dice  host.Dice
	every uint64
	n     atomic.Uint64 // requests
	next  atomic.Uint64 // the one that leaves its key next

	mu    sync.Mutex // guards the fields below; nothing is taken after it
	keys  []keys.Key
	taken int
}

// note counts a request, and may keep its key.
func (p *sampler) note(b *kv.Batch) {
	n := p.n.Add(1)
	if n < p.next.Load() || len(b.Requests) == 0 {
		return
	}
	k := b.Requests[0].Span().Start
	if len(k) == 0 || keys.IsLocal(k) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// The distance varies, so that a rhythm of the requests does not choose the samples.
	p.next.Store(n + 1 + p.dice.Uint64()%(2*p.every))
	if len(p.keys) < samplesMax {
		p.keys = append(p.keys, slices.Clone(k))
	} else {
		p.keys[p.taken%samplesMax] = slices.Clone(k)
	}
	p.taken++
}

// halves is the key within a span that divides the samples best, and the sample in front of it; nil if there are too few, or if no key leaves each side its part. Load does not divide a
// directory (keys.Directory), whose rows are used together.
func (p *sampler) halves(span keys.Span) (before, at keys.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ks []keys.Key
	for _, k := range p.keys {
		if span.Contains(k) {
			ks = append(ks, k)
		}
	}
	if len(ks) < samplesMin {
		return nil, nil
	}
	slices.SortFunc(ks, keys.Key.Compare)
	most := 0
	for i := 1; i < len(ks); i++ {
		if ks[i].Equal(ks[i-1]) {
			continue
		}
		first, after := keys.Boundaries(ks[i], span.Start, span.End)
		for _, b := range []keys.Key{first, after} {
			if b == nil {
				continue
			}
			n := sort.Search(len(ks), func(j int) bool { return !ks[j].Less(b) })
			if side := min(n, len(ks)-n); side > most {
				before, at, most = ks[n-1], b, side
			}
		}
	}
	if float64(most) < sideMin*float64(len(ks)) || !span.Start.Less(at) {
		return nil, nil
	}
	return before, at
}

// rate is how many requests a range gets in a second, lately.
func (o *origins) rate() float64 {
	l := o.load.Load()
	if l == nil {
		return 0
	}
	return l.PerSecond()
}

// considerHot splits a range that has too many requests, or goes on sampling them, if other nodes have fewer; it reports whether it splits.
func (s *Store) considerHot(ctx context.Context, e *entry, clk time.Duration, nodes []placement.Node) bool {
	d, l := e.r.Desc(), &e.load
	threshold := float64(s.o.Settings.Int(setting.LoadSplitThreshold))
	p := l.sampler.Load()
	if d.Start.Less(keys.TablePrefix) || !s.o.Settings.Known() || !s.o.Settings.Bool(setting.LoadSplit) || l.rate() < threshold || !s.divisible(d, l, nodes) {
		if p != nil {
			l.sampler.Store(nil)
		}
		return false
	}
	if p == nil || clk-p.since > sampleGiveUp {
		p = &sampler{since: clk, dice: s.o.Host.Dice, every: uint64(max(1, l.rate()/samplesPerSecond))}
		l.sampler.Store(p)
		return false
	}
	if clk-p.since < sampleFor || len(e.admin) > 0 {
		return false
	}
	before, at := p.halves(d.Span())
	if at == nil {
		return false
	}
	if at = s.splitPoint(before, at, d.Start); at == nil {
		return false
	}
	s.inBackground(ctx, e, func(ctx context.Context) error {
		// The sides' counts begin anew.
		l.sampler.Store(nil)
		l.forget.Store(true)
		s.Metrics.SplitsByLoad.Add(1)
		s.log.Info("range change", "range", uint64(d.ID), "kind", "split", "reason", "load", "requests per second", l.rate())
		return s.split(ctx, d.ID, meant{of: d.Span()}, &kv.AdminSplitRequest{Key: at, Keep: s.o.Clock.Now().Add(hotApart)})
	})
	return true
}

// divisible reports whether another node can take a part of a range with many requests.
func (s *Store) divisible(d *kv.RangeDescriptor, l *loadCounter, nodes []placement.Node) bool {
	z := s.zone(d.Start)
	return placement.Divisible(&z, &placement.Range{Desc: d, Leaseholder: s.o.NodeID, Load: l.load.Load()}, nodes)
}

// tooHot reports whether neighbours would be split again by their load if they were merged.
func (s *Store) tooHot(requests float64) bool {
	return s.o.Settings.Bool(setting.LoadSplit) && requests > float64(s.o.Settings.Int(setting.LoadSplitThreshold))/2
}

// told is what others hear of this store's requests: it changes only if they do by much, for each change is told to all nodes.
func told(was, now float64) float64 {
	if d := now - was; d > max(10, was/10) || -d > max(10, was/10) || now == 0 {
		return now
	}
	return was
}
