package main

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"meridian/sim"
)

// localTrip is the round trip within a region, as in clusters.
const localTrip = 500 * time.Microsecond

// world runs the protocols of comparison: events in the order of their times, and of their creation among those of the same time. So a run with
// the same seed is the same run.
type world struct {
	now    time.Duration
	queue  events
	made   int
	oneWay [dataCentres][dataCentres]time.Duration
	// trips counts messages between regions.
	trips int
}

type event struct {
	at   time.Duration
	made int
	f    func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].made < q[j].made
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newWorld(regions *sim.Regions) *world {
	w := &world{}
	for i, a := range regions.Names {
		for j, b := range regions.Names {
			if w.oneWay[i][j] = regions.RTT(a, b) / 2; i == j {
				w.oneWay[i][j] = localTrip / 2
			}
		}
	}
	return w
}

// after calls f later.
func (w *world) after(d time.Duration, f func()) {
	w.made++
	heap.Push(&w.queue, event{w.now + d, w.made, f})
}

// send calls f where a message arrives, in the order of sending between two regions.
func (w *world) send(from, to int, f func()) {
	if from != to {
		w.trips++
	}
	w.after(w.oneWay[from][to], f)
}

// run goes on until nothing is left to happen.
func (w *world) run() {
	for len(w.queue) > 0 {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.f()
	}
}

// rival is a protocol to compare with.
type rival interface {
	// commit decides about a transaction of a client in a region, whose reads are made at once in that region, and calls done there.
	commit(region int, updates []update, done func(verdict))
	// stocks are an item's stock, at all replicas, and whether no sale may be lost.
	stock(item int) (at []int, exact bool)
}

// cell is a record at one replica.
type cell struct {
	value, version int
	holder         *attempt // has it locked, or has an option that was not decided
	written        time.Duration
}

// attempt is one transaction on its way.
type attempt struct {
	region  int
	updates []update
	// seen are the cells of the updates as they were read.
	seen []cell
	done func(verdict)
}

// replica has the records of a region.
type replica map[string]*cell

func (r replica) at(record string) *cell {
	c := r[record]
	if c == nil {
		c = &cell{}
		r[record] = c
	}
	return c
}

func replicas(l *load) (out [dataCentres]replica) {
	for i := range out {
		out[i] = replica{}
		for item := range l.items {
			out[i][recordOf(item)] = &cell{value: l.stock(item)}
		}
	}
	return out
}

func stocks(all []replica, item int) (out []int) {
	for _, r := range all {
		out = append(out, r.at(recordOf(item)).value)
	}
	return out
}

// begin reads the records of a transaction. It reports whether there is enough of all.
func begin(r replica, region int, updates []update, done func(verdict)) (*attempt, bool) {
	a := &attempt{region: region, updates: updates, done: done}
	for i := range updates {
		c := r.at(updates[i].record)
		a.seen = append(a.seen, *c)
		if updates[i].change == add && c.value+updates[i].amount < 0 {
			return a, false
		}
	}
	return a, true
}

// value is what an update leaves in its record: all updates of these protocols write what they have computed from what they read.
func (a *attempt) value(i int) int { return a.seen[i].value + a.updates[i].amount }

// write makes an update of an attempt at a replica, unless that has a later version: outcomes of different regions overtake each other.
func (a *attempt) write(r replica, i int) {
	c := r.at(a.updates[i].record)
	if v := a.seen[i].version + 1; v > c.version {
		c.version, c.value = v, a.value(i)
	}
	if c.holder == a {
		c.holder = nil
	}
}

// compete runs clients over a protocol of comparison.
func compete(t *testing.T, c *config, name string, l *load, make func(w *world, l *load) rival) *results {
	began := time.Now()
	regions := ec2()
	w := newWorld(regions)
	p := make(w, l)
	book := newLedger()
	r := &results{name: name, clients: l.clients, duration: l.measured}
	for client := range l.clients {
		region := l.regionOf(client)
		dice := rand.New(rand.NewPCG(5, uint64(client)))
		src := l.source(client, region)
		var next func()
		next = func() {
			if w.now >= l.warm+l.measured {
				return
			}
			tx := src.next(dice)
			if len(tx.updates) == 0 { // reads are local
				w.after(localTrip, next)
				return
			}
			begin := w.now
			s := sample{kind: tx.kind, region: regions.Names[region]}
			var again func(verdict)
			attempt := func() { p.commit(region, tx.updates, again) }
			again = func(v verdict) {
				book.note(tx, v)
				if v == aborted && s.retries < l.retries {
					s.retries++
					w.after(rest(dice, s.retries), attempt)
					return
				}
				s.verdict, s.end, s.latency = v, w.now-l.warm, w.now-begin
				if begin >= l.warm {
					book.sample(s)
				}
				w.after(localTrip, next)
			}
			attempt()
		}
		// Not all at the same moment.
		w.after(time.Duration(dice.Int64N(int64(100*time.Millisecond))), next)
	}
	w.run()
	for item := range l.items {
		at, exact := p.stock(item)
		for _, n := range at {
			wrong := book.wrong(item, l.stock(item), n)
			if exact && wrong != "" || at[0] != n {
				t.Errorf("%s: %s; at the replicas: %v", name, wrong, at)
				return r
			}
		}
		r.lost += at[0] - (l.stock(item) - book.sold[item])
	}
	r.list = book.list
	r.say(c, began)
	return r
}
