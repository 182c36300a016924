package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"meridian/host"
)

const (
	// tickEvery is how often limits are adapted while somebody queues.
	tickEvery = 20 * time.Millisecond
	// patience is for how many ticks a transaction may rest before its place is given away: 240 ms. patienceRunning, a second, is
	// for how long a lock may stand still before those who wait for it are not counted as of the crowd any more, and the whole
	// crowd before those who run are not. In a queue that moves, or may move at another node, one counts for patienceQueued,
	// five seconds.
	patience, patienceRunning, patienceQueued = 12, 50, 250
	// calmAfter is how many transactions in a row without a wait for a lock take a session out of the crowd; a new one
	// belongs to it for calmFirst.
	calmAfter, calmFirst = 8, 4
	// A transaction that is over within briskTime is brisk; briskAfter more of these than of others, which count for briskLoss,
	// make its session brisk.
	briskTime                        = 500 * time.Microsecond
	briskAfter, briskMost, briskLoss = 8, 16, 4
	// Goroutines that wait for a processor as long as lateLatency in the mean say that processors are short. There is room
	// if they wait for less than earlyLatency, and idleShare of the processors idle.
	lateLatency, earlyLatency = 2 * time.Millisecond, 500 * time.Microsecond
	idleShare                 = 0.2
	// elasticMax is how long a piece of elastic work waits at most (admission.AD6), elasticLook how often it checks.
	elasticMax, elasticLook = time.Second, 10 * time.Millisecond
	// slotsDefault is Options.Slots' default; the limit is never below a half of it, nor above slotsMax.
	slotsDefault, slotsMax = 64, 1 << 16
)

// Options of a gate.
type Options struct {
	Host *host.Host
	// Slots is how many statements run at once before others queue, to begin with; zero is 64. A good number is a
	// multiple of the processors: some wait for the disk while others compute.
	Slots int
	// Load measures the processors since the last call; nil: they idle. It is called by one goroutine at a time.
	Load func() Load
}

// Load is how busy the processors are.
type Load struct {
	// Late is the mean time for which goroutines that could run have waited for a processor.
	Late time.Duration
	// Idle is the share of the machine's processors that had nothing to do.
	Idle float64
}

func (l Load) late() bool { return l.Late > lateLatency }
func (l Load) room() bool { return l.Late < earlyLatency && l.Idle >= idleShare }

// Metrics count what a gate did.
type Metrics struct {
	// Queued is how many admissions had to wait, Cancelled how many of them ended before they were admitted, WaitNanos for
	// how long all of them waited.
	Queued, Cancelled, WaitNanos atomic.Int64
	// Wait is a histogram of waits by powers of two of microseconds.
	Wait [32]atomic.Int64
	// Blocked counts waits for locks during which another session had the place.
	Blocked atomic.Int64
	// Lost counts transactions that lost a conflict after their client had heard of them (Ticket.Lose).
	Lost atomic.Int64
	// ElasticWaits counts pieces of elastic work that had to wait, ElasticNanos for how long.
	ElasticWaits, ElasticNanos atomic.Int64
}

// Gauges are what a gate has now.
type Gauges struct {
	Running, Limit           int
	Crowd, CrowdLimit        int
	Rivals, RivalLimit       int
	Open, Fresh, CrowdQueued int // who queues, by class
	RivalsQueued             int
	Load                     Load
}

// Gate admits the statements of one node's sessions.
type Gate struct {
	o       Options
	Metrics Metrics

	running atomic.Int64
	limit   atomic.Int64
	// pending is how many queue, ahead how many of these a session that is no part of the crowd must not overtake.
	pending, ahead atomic.Int64
	// waking is how many of those that run have been admitted from a queue and have not had a processor since.
	waking  atomic.Int64
	off     atomic.Bool
	ticks   atomic.Uint32
	load    atomic.Pointer[Load] // as of the last look
	looked  atomic.Int64         // when that was, on the monotonic clock
	looking sync.Mutex           // serialises Options.Load; nothing is taken after it
	locks   [locksMax]lockQueue
	away    atomic.Int64 // nanoseconds that the crowd has waited for locks at other nodes since the last tick

	mu      sync.Mutex // guards the fields below and the tickets' guarded ones; nothing is taken after it
	core    core
	ticking bool
}

// New makes a gate.
func New(o Options) *Gate {
	if o.Slots <= 0 {
		o.Slots = slotsDefault
	}
	g := &Gate{o: o}
	g.core.running = limits{base: o.Slots, min: max(o.Slots/2, 1), max: slotsMax, now: o.Slots}
	crowd := max(o.Slots/4, 4)
	g.core.crowd.limits = limits{base: crowd, min: crowd, max: slotsMax, now: crowd}
	g.core.rivals = rivals{room: room{limits: limits{base: crowd, min: 1, max: slotsMax, now: crowd}}, probe: 1}
	g.limit.Store(int64(o.Slots))
	g.load.Store(&Load{Idle: 1})
	return g
}

// SetEnabled turns admission on or off; while it is off everybody is admitted, at once.
func (g *Gate) SetEnabled(on bool) {
	if g.off.Swap(!on) == !on || on {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for q := range g.core.queue {
		for t := g.core.queue[q].first(); t != nil; t = g.core.queue[q].first() {
			g.core.drop(t)
			g.grant(t)
		}
	}
}

// states of a ticket. It counts as running in two of them.
const (
	stateAway int32 = iota
	stateRunning
	// stateResting: its transaction is open, and its client has the word.
	stateResting
	// stateBlocked: it waits for a lock, and has given its place up meanwhile.
	stateBlocked
)

// Ticket is a session's place. Its methods are called by the session's goroutine, but for those of Pause.
type Ticket struct {
	g     *Gate
	state atomic.Int32
	met   atomic.Int32  // waits for locks in this transaction
	moved atomic.Uint32 // the tick at which the state changed last
	on    atomic.Pointer[lockQueue]
	// ran says that a statement has run since the last end of a transaction.
	ran bool
	// suspect is how many more transactions without a wait take the session out of the crowd, rival how many that win out of
	// the rivals. crowded: it was let into one of their rooms for this transaction, that of the rivals if contending; lost: it
	// has lost since.
	suspect, rival            int
	crowded, contending, lost bool
	granted                   chan struct{} // made when it is needed
	// brisk counts transactions that were short, began is when the one under way came in, on the monotonic clock, if others
	// queued then, and passed the tick at which one passed them (admission.AD8).
	brisk  int
	began  time.Duration
	passed uint32

	// The fields below are guarded by the gate.
	seq    uint64
	queue  int
	queued bool
	room   *room // in which it is counted
	waits  link  // in a queue
	member link  // in the room
	known  link  // in the list of all
}

// NewTicket makes a session's ticket.
func (g *Gate) NewTicket() *Ticket {
	t := &Ticket{g: g, suspect: calmFirst}
	t.waits.ticket, t.member.ticket, t.known.ticket = t, t, t
	g.mu.Lock()
	g.core.all.push(&t.known)
	g.mu.Unlock()
	return t
}

// TryEnter admits a statement if that takes no wait. One of a transaction that has its place goes on.
func (t *Ticket) TryEnter(c Class) bool {
	g := t.g
	t.ran = t.ran || c != Prepare
	if t.state.Load() != stateAway {
		if t.state.CompareAndSwap(stateResting, stateRunning) {
			t.moved.Store(g.ticks.Load())
		}
		if t.state.Load() != stateAway && !t.mustCrowd(c) { // it may have been swept away just now
			return true
		}
	}
	switch {
	case c == Holder || g.off.Load():
		g.running.Add(1)
	case t.mustCrowd(c):
		return t.tryCrowd()
	case g.ahead.Load() > 0:
		if !t.pass() {
			return false
		}
	case g.running.Add(1) > g.limit.Load():
		g.running.Add(-1)
		return false
	}
	t.run()
	return true
}

// door is the queue in which the session stands when it begins a transaction.
func (t *Ticket) door() int {
	switch {
	case t.rival > 0:
		return rivalQueue
	case t.suspect > 0:
		return crowdQueue
	}
	return freshQueue
}

// mustCrowd reports whether the statement begins a transaction for which there is not always room.
func (t *Ticket) mustCrowd(c Class) bool {
	return c == Fresh && t.door() != freshQueue && !t.crowded && !t.g.off.Load()
}

// pass takes a place although others queue, if the session is brisk: one of those that have been admitted from a queue and wait
// for a processor, which this session has (admission.AD8).
func (t *Ticket) pass() bool {
	g := t.g
	now := g.ticks.Load()
	if t.brisk < briskAfter || t.passed == now {
		return false
	}
	if g.running.Add(1) > g.limit.Load()+g.waking.Load() {
		g.running.Add(-1)
		return false
	}
	t.passed, t.began = now, g.o.Host.Clock.Monotonic()
	return true
}

// measure takes note of how long a transaction took that began while others queued.
func (t *Ticket) measure() {
	switch {
	case t.began == 0:
		return
	case t.g.o.Host.Clock.Monotonic()-t.began <= briskTime:
		t.brisk = min(t.brisk+1, briskMost)
	default:
		t.brisk = max(t.brisk-briskLoss, 0)
	}
	t.began = 0
}

func (t *Ticket) run() {
	t.moved.Store(t.g.ticks.Load())
	t.state.Store(stateRunning)
}

// tryCrowd is TryEnter for such a transaction.
func (t *Ticket) tryCrowd() bool {
	g, q := t.g, t.door()
	away := t.state.Load() == stateAway // else it has been running, for what came before the transaction
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.core.queue[q].n > 0 || !g.core.room(q).free() || away && (g.core.waiting() > 0 || int(g.running.Load()) >= g.core.running.now) {
		return false
	}
	if away {
		g.running.Add(1)
	}
	t.crowded, t.contending = true, q == rivalQueue
	g.core.enter(t, q)
	t.run()
	return true
}

// Enter admits a statement for which TryEnter has found no room. It returns the context's error if that ends first
// (admission.AD4).
func (t *Ticket) Enter(ctx context.Context, c Class) error {
	g := t.g
	start := g.o.Host.Clock.Monotonic()
	if t.granted == nil {
		t.granted = make(chan struct{}, 1)
	}
	q := freshQueue
	switch {
	case c == Holder:
		t.TryEnter(c)
		return nil
	case c == Open:
		q = openQueue
	case c == Fresh:
		q = t.door()
	}
	t.give() // it may have been running, for what came before the transaction
	g.mu.Lock()
	t.queued = true
	g.core.push(t, q)
	g.pending.Add(1)
	if q < crowdQueue {
		g.ahead.Add(1)
	}
	if g.off.Load() {
		g.core.drop(t)
		g.grant(t)
	}
	g.dispatch()
	g.tickLater()
	g.mu.Unlock()
	g.Metrics.Queued.Add(1)
	defer func() {
		t.began = g.o.Host.Clock.Monotonic()
		g.waited(t.began - start)
	}()
	select {
	case <-t.granted:
		g.waking.Add(-1)
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !t.queued {
		<-t.granted // it was admitted meanwhile: the statement will see that its context has ended
		g.waking.Add(-1)
		return nil
	}
	g.core.drop(t)
	g.unqueue(t)
	g.Metrics.Cancelled.Add(1)
	return ctx.Err()
}

func (g *Gate) waited(d time.Duration) {
	g.Metrics.WaitNanos.Add(int64(d))
	us, b := uint64(max(d.Microseconds(), 0)), 0
	for us > 0 && b < len(g.Metrics.Wait)-1 {
		us >>= 1
		b++
	}
	g.Metrics.Wait[b].Add(1)
}

// unqueue counts a ticket out that has left its queue.
func (g *Gate) unqueue(t *Ticket) {
	t.queued = false
	g.pending.Add(-1)
	if t.queue < crowdQueue {
		g.ahead.Add(-1)
	}
}

// grant admits a ticket that has left its queue.
func (g *Gate) grant(t *Ticket) {
	g.unqueue(t)
	g.running.Add(1)
	g.waking.Add(1)
	t.crowded, t.contending = t.room != nil, t.queue == rivalQueue
	t.run()
	t.granted <- struct{}{}
}

// dispatch admits those that may go, and returns how many ran when nobody else might; the gate is held.
func (g *Gate) dispatch() (running int) {
	for {
		running = int(g.running.Load())
		t := g.core.next(running)
		if t == nil {
			return running
		}
		g.grant(t)
	}
}

// Rest says that the session does nothing until its client sends more. ended says that no transaction is open; else it keeps
// its place for a while.
func (t *Ticket) Rest(ended bool) {
	switch {
	case t.state.Load() == stateAway:
	case ended:
		t.end()
		t.give()
	default:
		if t.state.CompareAndSwap(stateRunning, stateResting) {
			t.moved.Store(t.g.ticks.Load())
		}
	}
}

// give gives the place up.
func (t *Ticket) give() {
	switch t.state.Swap(stateAway) {
	case stateRunning, stateResting:
		t.g.running.Add(-1)
		if t.g.pending.Load() > 0 {
			t.g.makeRoom()
		}
	}
}

// end takes note of the end of a transaction.
func (t *Ticket) end() {
	t.measure()
	switch {
	case t.met.Load() > 0:
		t.met.Store(0)
		t.suspect = calmAfter
	case t.suspect > 0 && t.ran: // what was only prepared has met no lock either, and shows nothing
		t.suspect--
	}
	t.ran = false
	if !t.crowded && !t.lost {
		return
	}
	won := t.contending && !t.lost
	t.crowded, t.contending, t.lost = false, false, false
	if won {
		t.rival--
	}
	g := t.g
	g.mu.Lock()
	g.core.leave(t)
	g.core.moved = g.ticks.Load()
	if won {
		g.core.note(false)
		if t.rival == 0 {
			g.core.rivals.quit()
		}
	}
	g.mu.Unlock()
}

// Lose says that the session's transaction has lost a conflict with another one after its client had heard of it: its work was
// in vain, and perhaps is done again.
func (t *Ticket) Lose() {
	if t == nil {
		return
	}
	g := t.g
	g.Metrics.Lost.Add(1)
	g.mu.Lock()
	if t.rival == 0 {
		g.core.rivals.join()
	}
	if t.contending {
		g.core.note(true) // those who are let in and those who are not count apart
	}
	g.mu.Unlock()
	t.lost, t.rival = true, min(t.rival+rivalFirst, rivalMost)
}

// makeRoom is called when somebody has left while others queue.
func (g *Gate) makeRoom() {
	g.mu.Lock()
	g.core.left++
	g.dispatch()
	g.mu.Unlock()
}

// Close forgets a session.
func (t *Ticket) Close() {
	t.end()
	t.give()
	t.g.mu.Lock()
	if t.rival > 0 {
		t.g.core.rivals.quit()
	}
	t.g.core.all.remove(&t.known)
	t.g.mu.Unlock()
}

// tickLater has the limits adapted from now on, until nobody queues and they are what they were; the gate is held.
func (g *Gate) tickLater() {
	if g.ticking || g.core.settled() {
		return
	}
	g.ticking = g.o.Host.Group.Go(func(ctx context.Context) {
		g.look() // what came before says nothing
		for g.o.Host.Clock.Sleep(ctx, tickEvery) == nil && g.tick() {
		}
	})
}

// tick reports whether there is going to be another one.
func (g *Gate) tick() bool {
	load := g.look()
	now := g.ticks.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	running := g.dispatch() // sessions that have left and wait for the gate, to let the next ones in, leave no places free
	freed := g.core.sweep(now)
	g.running.Add(-int64(freed))
	g.core.tick(running-freed, load, time.Duration(g.away.Swap(0)))
	g.limit.Store(int64(g.core.running.now))
	g.dispatch()
	g.ticking = !g.core.settled()
	return g.ticking
}

// look measures how busy the processors are.
func (g *Gate) look() Load {
	if g.o.Load == nil {
		return *g.load.Load()
	}
	g.looking.Lock()
	defer g.looking.Unlock()
	l := g.o.Load()
	g.load.Store(&l)
	g.looked.Store(int64(g.o.Host.Clock.Monotonic()))
	return l
}

// Busy reports whether clients queue, or processors are late: elastic work had better wait.
func (g *Gate) Busy() bool {
	if g.pending.Load() > 0 {
		return true
	}
	if g.o.Host.Clock.Monotonic()-time.Duration(g.looked.Load()) > tickEvery {
		g.look()
	}
	return g.load.Load().late()
}

// Yield is called by elastic work before each piece of it, which takes some milliseconds: it waits while the node is busy,
// up to a bound (admission.AD6).
func (g *Gate) Yield(ctx context.Context) error {
	if g.off.Load() || !g.Busy() {
		return ctx.Err()
	}
	clk := g.o.Host.Clock
	start := clk.Monotonic()
	g.Metrics.ElasticWaits.Add(1)
	defer func() { g.Metrics.ElasticNanos.Add(int64(clk.Monotonic() - start)) }()
	for {
		if err := clk.Sleep(ctx, elasticLook); err != nil {
			return err
		}
		if !g.Busy() || clk.Monotonic()-start >= elasticMax {
			return nil
		}
	}
}

// Gauges is what the gate has now.
func (g *Gate) Gauges() Gauges {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &g.core
	return Gauges{Running: int(g.running.Load()), Limit: c.running.now, Crowd: c.crowd.inside.n, CrowdLimit: c.crowd.now,
		Rivals: c.rivals.inside.n, RivalLimit: c.rivals.now, Open: c.queue[openQueue].n, Fresh: c.queue[freshQueue].n,
		CrowdQueued: c.queue[crowdQueue].n, RivalsQueued: c.queue[rivalQueue].n, Load: *g.load.Load()}
}
