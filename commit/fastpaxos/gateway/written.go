package gateway

import (
	"slices"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
)

// The memory of a gateway for what it has committed, for as long as some replica may not have it (fastpaxos.FP22, fastpaxos.FP72).

// known is what this gateway knows of rows, from before it asks a replica for them. Later it may have forgotten a version, because all replicas have it by then, while the answer is from before that.
type known struct {
	shows []*core.Request       // what the replica is shown first (fastpaxos.FP72)
	own   map[string]core.Value // by key (fastpaxos.FP22)
}

// known is what the gateway knows of some rows.
func (c *Client) known(ks []keys.Key) (n known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unshown) > 0 {
		for _, k := range ks {
			n.shows = append(n.shows, c.unshown[string(k)]...)
		}
	}
	if len(c.own) > 0 {
		for _, k := range ks {
			if v, ok := c.own[string(k)]; ok {
				n.add(string(k), v)
			}
		}
	}
	return n
}

// knownIn is what it knows of the rows of a span.
func (c *Client) knownIn(s keys.Span) (n known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, qs := range c.unshown {
		if s.Contains(qs[0].Key) {
			n.shows = append(n.shows, qs...)
		}
	}
	for k, v := range c.own {
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
func (c *Client) shown(qs []*core.Request) {
	if len(qs) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range qs {
		c.show(q.Key, q.Option.At)
	}
}

// show forgets that an update has to be shown. The caller has locked mu.
func (c *Client) show(k keys.Key, at clock.Timestamp) {
	if qs, ok := c.unshown[string(k)]; ok {
		if qs = slices.DeleteFunc(slices.Clone(qs), func(q *core.Request) bool { return q.Option.At == at }); len(qs) > 0 {
			c.unshown[string(k)] = qs
		} else {
			delete(c.unshown, string(k))
		}
	}
}

// disown forgets what was committed of a row: replicas have it.
func (c *Client) disown(k keys.Key, at clock.Timestamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.show(k, at)
	if v, ok := c.own[string(k)]; ok && v.At == at {
		delete(c.own, string(k))
	}
}
