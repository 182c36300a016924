package main

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// change is how an update treats its record.
type change int

const (
	put  change = iota // writes a record of the client's own: an insert, or a row that nobody else writes
	add                // adds to the number of a record, which must not become negative
	over               // writes a record that others write too
)

// update is one write of a transaction.
type update struct {
	// record names it for the protocols of this package, which have no tables.
	record string
	change change
	amount int
	// item is that of a stock, else -1.
	item int
	// sql is the statement of the update for an engine; %s is the suffix that makes it read the value.
	sql  string
	args []any
}

// transaction is what a client asks for next.
type transaction struct {
	kind    string
	reads   []query
	updates []update
}

// query is a read of the transaction, for an engine. It is always local.
type query struct {
	sql  string
	args []any
}

// source makes the transactions of one client.
type source interface {
	next(dice *rand.Rand) *transaction
}

// load is what clients do in one run.
type load struct {
	clients int
	// regionOf tells where a client sits.
	regionOf func(client int) int
	source   func(client, region int) source
	// warm is how long clients run before they are measured.
	warm, measured time.Duration
	// retries is how often a transaction is tried again after a conflict.
	retries int
	stock   func(item int) int
	items   int
	// shards is how many ranges the items are in.
	shards int
}

// rest is a client's pause before it tries a transaction again, drawn at random, so that two of them do not refuse each other for ever.
func rest(dice *rand.Rand, retries int) time.Duration {
	return time.Duration(dice.Int64N(int64(min(50*time.Millisecond<<min(retries-1, 5), time.Second))))
}

// spread has clients in all regions, in turn.
func spread(client int) int { return client % dataCentres }

// ledger counts what was bought.
type ledger struct {
	mu sync.Mutex // guards the fields below; nothing is taken after it
	// sold and doubtful are by item: what clients know that they got, and what they may have got.
	sold, doubtful map[int]int
	list           []sample
}

func newLedger() *ledger { return &ledger{sold: map[int]int{}, doubtful: map[int]int{}} }

// note keeps the outcome of a transaction.
func (l *ledger) note(t *transaction, v verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range t.updates {
		if u.item < 0 || u.change != add {
			continue
		}
		switch v {
		case committed:
			l.sold[u.item] -= u.amount
		case unknown:
			l.doubtful[u.item] -= u.amount
		}
	}
}

// sample keeps a measurement.
func (l *ledger) sample(s sample) {
	l.mu.Lock()
	l.list = append(l.list, s)
	l.mu.Unlock()
}

// micro is the paper's micro benchmark: three items, from one to three pieces of each.
type micro struct {
	items  int
	region int
	// hot is the share of the items that get 90 % of the accesses; zero: all are alike.
	hot float64
	// local is the share of the accesses to items whose master is in the client's region; zero: all are alike. With hot, each region has a hot spot of
	// its own.
	local float64
}

// masterOf is the region of an item's master, in protocols that have one: each region has a fifth of the items, one after the other.
func masterOf(item, items int) int { return min(item/(items/dataCentres), dataCentres-1) }

func (m *micro) pick(dice *rand.Rand) int {
	each := m.items / dataCentres
	if m.hot > 0 {
		// The first items of each region's: a fifth of the hot spot has its master there.
		n, region := int(m.hot*float64(each)), m.choose(dice)
		if dice.Float64() < 0.9 {
			return each*region + dice.IntN(n)
		}
		return each*region + n + dice.IntN(each-n)
	}
	return each*m.choose(dice) + dice.IntN(each)
}

// choose draws the region of the master of the next item.
func (m *micro) choose(dice *rand.Rand) int {
	if m.local > 0 && dice.Float64() < m.local {
		return m.region
	}
	if m.local > 0 {
		return (m.region + 1 + dice.IntN(dataCentres-1)) % dataCentres
	}
	return dice.IntN(dataCentres)
}

// next implements source.
func (m *micro) next(dice *rand.Rand) *transaction {
	t := &transaction{kind: "buy"}
	var chosen []int
	for len(chosen) < 3 {
		if i := m.pick(dice); !slices.Contains(chosen, i) {
			chosen = append(chosen, i)
		}
	}
	for _, i := range chosen {
		t.updates = append(t.updates, buy(i, 1+dice.IntN(3)))
	}
	return t
}

// buy takes pieces of an item.
func buy(item, pieces int) update {
	return update{record: recordOf(item), change: add, amount: -pieces, item: item,
		sql: "UPDATE item SET i_stock = i_stock - $2 WHERE i_id = $1%s", args: []any{item, pieces}}
}

// recordOf names an item's record.
func recordOf(item int) string { return "item/" + itoa(item) }
