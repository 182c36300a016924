package admission

import "time"

// Class is how urgent it is to admit a statement.
type Class uint8

const (
	// Holder is a statement of a transaction that may hold locks (admission.AD1).
	Holder Class = iota
	// Open is a statement of a transaction that has begun and holds none.
	Open
	// Fresh is a statement that begins a transaction.
	Fresh
	// Prepare is a message that begins none: it makes a plan, or arguments. It is queued like Fresh, but never with the crowd.
	Prepare
)

// queue numbers.
const (
	openQueue = iota
	freshQueue
	crowdQueue
	rivalQueue
	queues
)

// freshShare is the part of admissions that open transactions can't have (admission.AD3).
const freshShare = 8

// limits bound what is under way; see doc.go.
type limits struct {
	base, min, max int
	now            int
}

func (l *limits) grow(part int)   { l.now = min(l.now+l.now/part+1, l.max) }
func (l *limits) shrink(part int) { l.now = max(l.now-l.now/part-1, min(l.now, l.min)) }

// decay brings the limit nearer to its base.
func (l *limits) decay() {
	if l.now > l.base {
		l.now = max(l.now-l.now/8-1, l.base)
	} else if l.now < l.base {
		l.now = min(l.now+l.now/8+1, l.base)
	}
}

// room is where transactions are under way of which there may be only so many at once.
type room struct {
	limits
	inside list // of the tickets with such transactions
	left   int  // how many have left since the limit was adapted last
}

func (r *room) free() bool { return r.inside.n < r.now }

// core has the queues and the limits. It never blocks and reads no clock.
type core struct {
	running limits
	crowd   room
	rivals  rivals

	queue [queues]list // of waiting tickets, the oldest first
	all   list         // of all tickets
	seq   uint64       // of the next that waits
	turns uint64       // admissions from queues
	left  int          // since the last tick: sessions that left
	stuck int          // ticks in a row in which nobody did
	// waitPart is which part of the crowd inside waits for locks, in percent, smoothed.
	waitPart int
	// away are waits at other nodes that are not in waitPart yet, moved the tick at which one of the crowd, or of the rivals, ended a
	// transaction last.
	away  time.Duration
	moved uint32
}

func (c *core) waiting() int {
	return c.queue[openQueue].n + c.queue[freshQueue].n + c.queue[crowdQueue].n + c.queue[rivalQueue].n
}

// push queues a ticket.
func (c *core) push(t *Ticket, q int) {
	t.seq, t.queue = c.seq, q
	c.seq++
	c.queue[q].push(&t.waits)
}

// drop takes a ticket out of its queue.
func (c *core) drop(t *Ticket) { c.queue[t.queue].remove(&t.waits) }

// room is where the transactions go of those who stand in a queue; nil: there is room for all.
func (c *core) room(q int) *room {
	switch q {
	case crowdQueue:
		return &c.crowd
	case rivalQueue:
		return &c.rivals.room
	}
	return nil
}

// next takes the ticket that goes first out of its queue; nil if none may while so many run.
func (c *core) next(running int) *Ticket {
	if running >= c.running.now {
		return nil
	}
	open, fresh := c.queue[openQueue].first(), c.queue[freshQueue].first()
	for _, q := range [...]int{crowdQueue, rivalQueue} {
		if t := c.queue[q].first(); t != nil && c.room(q).free() && (fresh == nil || t.seq < fresh.seq) {
			fresh = t
		}
	}
	c.turns++
	t := open
	if t == nil || fresh != nil && c.turns%freshShare == 0 {
		t = fresh
	}
	if t == nil {
		return nil
	}
	c.drop(t)
	c.enter(t, t.queue)
	return t
}

// enter counts a ticket in the room behind a queue, leave ends that; each may come twice.
func (c *core) enter(t *Ticket, q int) {
	if r := c.room(q); r != nil && t.room == nil {
		t.room = r
		r.inside.push(&t.member)
	}
}

func (c *core) leave(t *Ticket) {
	if t.room != nil {
		r := t.room
		r.inside.remove(&t.member)
		r.left, t.room = r.left+1, nil
	}
}

// note counts a transaction of a rival that has won or lost.
func (c *core) note(lost bool) { c.rivals.note(lost, c.queue[rivalQueue].n > 0) }

// tick adapts the limits to what was seen since the last one (admission.AD2). running is how many run; away is for how long all together
// have waited for locks at other nodes, as far as these waits have ended.
func (c *core) tick(running int, load Load, away time.Duration) {
	late, early := load.late(), load.room()
	if c.stuck++; c.left > 0 {
		c.stuck, c.left = 0, 0
	}
	stuck := c.stuck > 0 && (early || c.stuck%patience == 0)
	blocked := 0
	for l := c.crowd.inside.head; l != nil; l = l.next {
		if l.ticket.state.Load() == stateBlocked {
			blocked++
		}
	}
	// Waits at other nodes are heard of when they end. As many ticks of waiting are spread over as many ticks of those inside.
	c.away = min(c.away+away, time.Duration(c.crowd.inside.n)*patienceRunning*tickEvery)
	there := min(int(c.away/tickEvery), c.crowd.inside.n-blocked)
	c.away -= time.Duration(there) * tickEvery
	blocked += there
	if c.crowd.inside.n > 0 {
		c.waitPart += (100*blocked/c.crowd.inside.n - c.waitPart) / 4
	}
	c.adaptCrowd()
	switch {
	case running < c.running.now: // it is not what they wait for
		c.running.decay()
	case stuck && !early:
		c.running.grow(8)
	case stuck || early:
		c.running.grow(2)
	case late:
		c.running.shrink(8)
	}
}

// sweep gives up the places of those that have not moved for long: what they wait for is none of the node's processors. It
// returns how many of them counted as running. now is the number of the tick.
func (c *core) sweep(now uint32) (freed int) {
	for l := c.all.head; l != nil; l = l.next {
		t := l.ticket
		idle := now - t.moved.Load()
		switch s := t.state.Load(); {
		case s == stateResting && idle > patience:
			if t.state.CompareAndSwap(stateResting, stateAway) {
				freed++
				c.leave(t)
			}
		case s == stateBlocked:
			// A queue that moves is as long as the crowd is large; who lets others in because it is long makes it longer.
			if idle > patienceQueued || t.on.Load().stands(now) {
				c.leave(t)
			}
		case idle > patienceQueued, idle > patienceRunning && now-c.moved > patienceRunning:
			// It may wait in a queue at another node.
			c.leave(t)
		}
	}
	return freed
}

// adaptCrowd does so for the crowd. A tick in which nobody leaves is no reason to let more in: a row's transactions
// may take longer than a tick.
func (c *core) adaptCrowd() {
	switch {
	case c.queue[crowdQueue].n == 0:
		c.crowd.decay()
	case c.crowd.free(): // it is not what they wait for
	case c.stuck > 0 && c.stuck%patience == 0:
		c.crowd.grow(4)
	case c.waitPart > 50:
		c.crowd.shrink(8)
		c.crowd.left = 0
	case c.waitPart < 25 && c.crowd.left >= c.crowd.now: // those who came since it grew last have shown whether they wait
		c.crowd.grow(4)
		c.crowd.left = 0
	}
}

// settled reports whether there is nothing to adapt until somebody queues again.
func (c *core) settled() bool {
	return c.waiting() == 0 && c.running.now == c.running.base && c.crowd.now == c.crowd.base
}

// list is a queue whose links are in the tickets.
type list struct {
	head, tail *link
	n          int
}

type link struct {
	ticket     *Ticket
	prev, next *link
}

func (l *list) first() *Ticket {
	if l.head == nil {
		return nil
	}
	return l.head.ticket
}

func (l *list) push(x *link) {
	x.prev, x.next = l.tail, nil
	if l.tail != nil {
		l.tail.next = x
	} else {
		l.head = x
	}
	l.tail = x
	l.n++
}

func (l *list) remove(x *link) {
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		l.head = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	} else {
		l.tail = x.prev
	}
	x.prev, x.next = nil, nil
	l.n--
}
