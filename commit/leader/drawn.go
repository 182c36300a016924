package leader

import (
	"encoding/binary"
	"math"
	"sync"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Counters from which numbers are drawn (kv.AddRequest.Draw). The leaseholder writes the counter some way ahead, and returns the numbers in
// between from memory: one round of consensus for many numbers, as PostgreSQL logs one of 32 (SEQ_LOG_VALS). Numbers are in the order in
// which they are asked for, on all nodes together, and without a gap until the lease moves or the node stops: then the remaining ones are
// lost.
//
//	leader.D1: A number is returned only if a counter at or beyond it is durable, so no other draw gets it.
//	leader.D2: The state in memory is valid only while the version that it belongs to is the newest: a write of the counter, by this
//	    leaseholder or another one, ends it.
//	leader.D3: Numbers are taken back only while the draw that returned them is the last one, by its turn: a request that arrives twice, or
//	    late, finds another turn. So a number that is drawn again has not been used.

// drawn is the last number drawn from a counter.
type drawn struct {
	at   clock.Timestamp // of the stored version
	last int64
	turn uint64
}

// maxDrawn bounds the counters that are remembered; what is forgotten are numbers that nobody gets.
const maxDrawn = 1024

// counters are a range's.
type counters struct {
	mu    sync.Mutex // guards the rest; nothing is taken after it
	drawn map[string]drawn
	last  uint64 // turn
}

// turn is a number that no other draw here has; turns of other leaseholders are at other times.
func (c *counters) turn(now clock.Timestamp) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last+1, uint64(now.Wall))
	return c.last
}

func (c *counters) get(k keys.Key) (d drawn, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok = c.drawn[string(k)]
	return d, ok
}

func (c *counters) set(k keys.Key, d drawn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drawn == nil || len(c.drawn) >= maxDrawn {
		c.drawn = map[string]drawn{}
	}
	c.drawn[string(k)] = d
}

// drawing is a draw that has been evaluated, and is remembered when it is durable.
type drawing struct {
	key keys.Key
	drawn
}

// draw evaluates an Add that draws, under the key's latch.
func (ev *evaluation) draw(r *kv.AddRequest) (kv.Response, error) {
	o := ev.writeOptions(r.Seq, false)
	ro := ev.readOptions(kv.Exclusive)
	v, err := ev.w.Get(r.Key, &ro)
	if err != nil {
		return nil, err
	}
	var stored int64
	if len(v.Bytes) == 8 {
		stored = int64(binary.BigEndian.Uint64(v.Bytes))
	}
	last, at := stored, v.Timestamp
	var turn uint64
	if d, ok := ev.p.counters.get(r.Key); ok && d.at == at && !at.IsZero() { // leader.D2
		last, turn = d.last, d.turn
	}
	sum, over := addTo(last, r.Delta)
	if r.Back {
		// leader.D3. The stored value is at or beyond last, and so beyond sum (leader.D1).
		if turn != r.Turn || turn == 0 || over {
			return &kv.AddResponse{Value: last}, nil
		}
		turn = ev.p.counters.turn(ev.now)
		ev.effects.drawing = &drawing{r.Key, drawn{at, sum, turn}}
		return &kv.AddResponse{Value: sum, Turn: turn}, nil
	}
	if r.Delta == 0 {
		return &kv.AddResponse{Value: sum}, nil // it looks
	}
	if over {
		return nil, &kv.AddOverflowError{Key: r.Key, Value: last, Delta: r.Delta}
	}
	if last <= sum && sum <= stored || stored <= sum && sum <= last { // leader.D1
		turn = ev.p.counters.turn(ev.now)
		ev.effects.drawing = &drawing{r.Key, drawn{at, sum, turn}}
		return &kv.AddResponse{Value: sum, Turn: turn}, nil
	}
	ahead, over := addTo(sum, r.Reserve)
	if over {
		ahead = sum
	}
	delta, over := addTo(ahead, -stored)
	if over || stored == math.MinInt64 {
		return nil, &kv.AddOverflowError{Key: r.Key, Value: last, Delta: r.Delta}
	}
	if _, err := ev.w.Add(r.Key, delta, &o); err != nil {
		return nil, err
	}
	turn = ev.p.counters.turn(ev.now)
	ev.effects.drawing = &drawing{r.Key, drawn{o.Timestamp, sum, turn}}
	return &kv.AddResponse{Value: sum, Turn: turn}, nil
}

func addTo(a, b int64) (sum int64, over bool) {
	sum = a + b
	return sum, b > 0 && sum < a || b < 0 && sum > a
}
