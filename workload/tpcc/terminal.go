package tpcc

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/workload"
)

// kind is one of the five transactions.
type kind struct {
	name string
	// cards is its share of a deck of 100: the specification's least shares, and the remainder for new-order (clause 5.2.3). A terminal plays its deck
	// to the end and shuffles again, so that the shares are exact.
	cards int
	// Keying is constant, thinking has this mean (clause 5.2.5.7).
	keying, think time.Duration
	begin         func(*terminal) transaction
}

// transaction is one with its inputs, which stay when it has to be done again.
type transaction func(ctx context.Context, conn *pgx.Conn) error

// Names of the transactions, as steps report them.
const (
	newOrder    = "new-order"
	payment     = "payment"
	orderStatus = "order-status"
	delivery    = "delivery"
	stockLevel  = "stock-level"
)

func kinds() []kind {
	return []kind{
		{newOrder, 45, 18 * time.Second, 12 * time.Second, (*terminal).newOrder},
		{payment, 43, 3 * time.Second, 12 * time.Second, (*terminal).payment},
		{orderStatus, 4, 2 * time.Second, 10 * time.Second, (*terminal).orderStatus},
		{delivery, 4, 2 * time.Second, 5 * time.Second, (*terminal).delivery},
		{stockLevel, 4, 2 * time.Second, 5 * time.Second, (*terminal).stockLevel},
	}
}

// terminal is one worker.
type terminal struct {
	*TPCC
	dice *rand.Rand
	// first and last bound the warehouses at which this terminal stands; they are the same if it does not move.
	first, last int
	// district is that of stock-level transactions, which a terminal does not change (clause 2.8.1.1).
	district int
	kinds    []kind
	deck     []int
	// next is the transaction that is about to begin or to be done again; nil: none.
	next     transaction
	nextKind *kind
	// thinks is how long the last transaction's result is looked at.
	thinks time.Duration
}

// Worker implements workload.Workload: a terminal of the first warehouse that waits for nothing.
func (t *TPCC) Worker(ctx context.Context, dice *rand.Rand) (workload.Step, error) {
	_, step, err := t.Terminal(ctx, 0, dice)
	return step, err
}

// Terminal implements workload.Paced.
func (t *TPCC) Terminal(_ context.Context, id int, dice *rand.Rand) (func(context.Context), workload.Step, error) {
	if err := t.valid(); err != nil {
		return nil, nil, err
	}
	m := &terminal{TPCC: t, dice: dice, kinds: kinds(), district: id/t.Warehouses%districts + 1}
	if !t.Wait {
		m.first, m.last = t.warehousesOf(t.RegionOfWorker(id))
		return nil, m.step, nil
	}
	m.first = t.warehouseOfTerminal(id)
	m.last = m.first
	// Terminals do not begin all at once.
	m.thinks = time.Duration(dice.Int64N(int64(20 * time.Second)))
	return m.wait, m.step, nil
}

// deal draws the next transaction and its inputs.
func (m *terminal) deal() {
	if len(m.deck) == 0 {
		for i, k := range m.kinds {
			for range k.cards {
				m.deck = append(m.deck, i)
			}
		}
		m.dice.Shuffle(len(m.deck), func(i, j int) { m.deck[i], m.deck[j] = m.deck[j], m.deck[i] })
	}
	m.nextKind = &m.kinds[m.deck[0]]
	m.deck = m.deck[1:]
	m.next = m.nextKind.begin(m)
}

// wait thinks about the last transaction, and keys the next one in.
func (m *terminal) wait(ctx context.Context) {
	m.deal()
	select {
	case <-ctx.Done():
	case <-time.After(m.thinks + m.nextKind.keying):
	}
	// Negative exponential, cut at ten times the mean (clause 5.2.5.4).
	mean := float64(m.nextKind.think)
	m.thinks = time.Duration(min(-math.Log(1-m.dice.Float64())*mean, 10*mean))
}

// step does the transaction. If the server wants it to be done again, the next call has the same inputs.
func (m *terminal) step(ctx context.Context, conn *pgx.Conn) (string, error) {
	if m.next == nil {
		m.deal()
	}
	k := m.nextKind
	err := m.next(ctx, conn)
	if err == nil || !workload.Retryable(err) {
		m.next = nil
	}
	return k.name, err
}

// home draws the warehouse at which the terminal stands for one transaction.
func (m *terminal) home() int { return between(m.dice, m.first, m.last) }

// otherWarehouse draws one that is not w; w if there is no other.
func (m *terminal) otherWarehouse(w int) int {
	if m.Warehouses == 1 {
		return w
	}
	o := between(m.dice, 1, m.Warehouses-1)
	if o >= w {
		o++
	}
	return o
}

func (m *terminal) anyDistrict() int { return between(m.dice, 1, districts) }

func (m *terminal) anyCustomer() int {
	return nuRand(m.dice, scaledA(customerA, fullCustomers, m.customers()), customerC, 1, m.customers())
}

func (m *terminal) anyItem() int {
	return nuRand(m.dice, scaledA(itemA, fullItems, m.items()), itemC, 1, m.items())
}

func (m *terminal) anyLastName() string {
	n := min(lastNames, m.customers())
	return lastName(nuRand(m.dice, scaledA(lastNameA, lastNames, n), lastNameRunC, 0, n-1))
}

// percent is true that often.
func (m *terminal) percent(n int) bool { return m.dice.IntN(100) < n }
