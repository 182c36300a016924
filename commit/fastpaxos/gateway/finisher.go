package gateway

import (
	"maps"
	"sync"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// finisher ends transactions: those of gateways that are gone, those of which replicas have not heard, and this gateway's with a record.
type finisher struct {
	*caller
	*masters
	*announcer
	*fates

	mu sync.Mutex // guards the fields below; nothing is taken after it
	// provisional are the latest options of transactions that other protocols take part in, by key, until they are resolved.
	provisional map[kv.TxnID]map[string]core.Option
	// finishing are transactions that are being finished here.
	finishing map[core.Name]bool
	// mending are records whose replicas are being brought up to date from here.
	mending map[string]bool
}

func newFinisher(by *caller, m *masters, a *announcer, f *fates) *finisher {
	return &finisher{caller: by, masters: m, announcer: a, fates: f, provisional: map[kv.TxnID]map[string]core.Option{}, finishing: map[core.Name]bool{}, mending: map[string]bool{}}
}

// provides takes in the options of a transaction that other protocols take part in.
func (c *finisher) provides(id kv.TxnID, options map[string]core.Option) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.provisional[id] = maps.Clone(options)
}

type blocker struct {
	key    keys.Key
	option *core.Option
}
