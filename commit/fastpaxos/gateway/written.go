package gateway

import (
	"slices"
	"sync"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
)

// The memory of a gateway for what it has committed, for as long as some replica may not have it (fastpaxos.FP22, fastpaxos.FP72).

// written are the updates of this gateway that some replica may not have.
type written struct {
	mu sync.Mutex // guards the fields below; nothing is taken after it
	// own are versions that this gateway has committed, or has seen committed as the outcome of its own work, and that are not at all replicas yet
	// (fastpaxos.FP22).
	own map[string]core.Value
	// unshown are updates that commute, and that this gateway has committed, by key, while no replica was shown them, nor all were told (fastpaxos.FP72).
	unshown map[string][]*core.Request
}

func newWritten() *written {
	return &written{own: map[string]core.Value{}, unshown: map[string][]*core.Request{}}
}

// committed takes in options that have committed.
func (w *written) committed(options []core.Option, ks []keys.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range options {
		switch o := &options[i]; {
		case len(o.Deltas) > 0:
			k := string(ks[i])
			w.unshown[k] = append(w.unshown[k], &core.Request{Kind: core.Show, Key: ks[i], Option: *o, Committed: true})
		case !o.Commutes() && w.own[string(ks[i])].At.Less(o.At):
			w.own[string(ks[i])] = core.Value{At: o.At, Data: o.Value}
		}
	}
}

// owns takes in a version that has committed, and reports whether it is a new one here.
func (w *written) owns(k keys.Key, v core.Value) (anew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if anew = w.own[string(k)].At.Less(v.At); anew {
		w.own[string(k)] = v
	}
	return anew
}

// newestOwn is when the version is from that this gateway has committed of a row, zero if all replicas have it.
func (w *written) newestOwn(k keys.Key) clock.Timestamp {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.own[string(k)].At
}

// has reports whether an option is an update of this gateway that replicas are being told of.
func (w *written) has(k keys.Key, o *core.Option) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.own[string(k)].At == o.At || slices.ContainsFunc(w.unshown[string(k)], func(q *core.Request) bool { return q.Option.Name == o.Name })
}

// known is what this gateway knows of rows, from before it asks a replica for them. Later it may have forgotten a version, because all replicas have it by then, while the answer is from before that.
type known struct {
	shows []*core.Request       // what the replica is shown first (fastpaxos.FP72)
	own   map[string]core.Value // by key (fastpaxos.FP22)
}

// known is what the gateway knows of some rows.
func (w *written) known(ks []keys.Key) (n known) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.unshown) > 0 {
		for _, k := range ks {
			n.shows = append(n.shows, w.unshown[string(k)]...)
		}
	}
	if len(w.own) > 0 {
		for _, k := range ks {
			if v, ok := w.own[string(k)]; ok {
				n.add(string(k), v)
			}
		}
	}
	return n
}

// knownIn is what it knows of the rows of a span.
func (w *written) knownIn(s keys.Span) (n known) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, qs := range w.unshown {
		if s.Contains(qs[0].Key) {
			n.shows = append(n.shows, qs...)
		}
	}
	for k, v := range w.own {
		if s.Contains(keys.Key(k)) {
			n.add(k, v)
		}
	}
	return n
}

func (n *known) add(k string, v core.Value) {
	if n.own == nil {
		n.own = map[string]core.Value{}
	}
	n.own[k] = v
}

// version is a row as this gateway knows it: at least what it has committed by itself.
func (n *known) version(w *core.Row) {
	if v, ok := n.own[string(w.Key)]; ok && w.Seen.Base.Less(v.At) {
		w.Value, w.Seen, w.Last = v.Data, core.Seen{Base: v.At}, v.At
	}
}

// first puts what is shown in front of questions.
func (n *known) first(qs ...*core.Request) []*core.Request {
	return append(n.shows[:len(n.shows):len(n.shows)], qs...)
}

// shown takes in that the nearest replica was shown updates.
func (w *written) shown(qs []*core.Request) {
	if len(qs) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range qs {
		w.show(q.Key, q.Option.At)
	}
}

// show forgets that an update has to be shown. The caller has locked mu.
func (w *written) show(k keys.Key, at clock.Timestamp) {
	if qs, ok := w.unshown[string(k)]; ok {
		if qs = slices.DeleteFunc(slices.Clone(qs), func(q *core.Request) bool { return q.Option.At == at }); len(qs) > 0 {
			w.unshown[string(k)] = qs
		} else {
			delete(w.unshown, string(k))
		}
	}
}

// disown forgets what was committed of a row: replicas have it.
func (w *written) disown(k keys.Key, at clock.Timestamp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.show(k, at)
	if v, ok := w.own[string(k)]; ok && v.At == at {
		delete(w.own, string(k))
	}
}
