package leaderkv_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit/register"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
	"meridian/txn/leaderkv"
)

// The model checker: two transactions on two keys in two ranges, the code as it is, and every order in which messages
// may arrive. Gateway A writes both keys and commits in parallel; gateway B reads both, or writes both. A may die at any
// moment; what it has sent may arrive, late or never. Afterwards C reads, which may have to recover A's transaction, then
// whatever is still on its way arrives, and D reads. A range may get another protocol at any moment.
//
//	leaderkv.E1 (I2): nobody ever sees half a transaction.
//	leaderkv.E2 (I1): what was acknowledged is there; what failed is not.
//	leaderkv.E3: what C has seen, D sees too, unless A's decision was still on its way: a recovered transaction stays as it was
//	    found.
//	    Of ranges of two protocols C reads twice, because what it reads of registers is no snapshot; and what nobody has
//	    recovered may commit as long as one of its writes is still on its way.
//	leaderkv.E4: C is answered within seconds.
//	leaderkv.E5: a change of protocol is made within seconds, once nothing holds its messages up.
//
// The search is stateless (each order is run from the start, on keys of its own), and leaves out orders that differ only
// in steps which touch neither the same range nor the same gateway (sleep sets, Godefroid 1996). Time is a step too: it
// may pass for as long as a gateway is taken for alive, at any moment, once; and a little whenever nothing else can happen.
//
// A test has not the time for all of them: it takes the first ones of the search, and as many at random.
// MERIDIAN_EXPLORE=n says how many; 0 is all of them, a minute or so for each scenario.

// held is a message on its way.
type held struct {
	label   string
	touches uint8
	from    string
	deliver func()
}

const (
	touchA uint8 = 1 << iota
	touchB
	touchR1
	touchR2
	touchFirst // the further nodes of a range of registers
	touchSecond
	touchAll uint8 = 0xff
)

type step struct {
	label   string
	touches uint8
}

// frame is one state on the way of a search: what could be done there, and what was tried.
type frame struct {
	enabled, done, sleep []step
	chosen               step
}

func without(l []step, label string) bool {
	return !slices.ContainsFunc(l, func(s step) bool { return s.label == label })
}

// next picks a step that was not tried and need not be left out; with dice, any.
func (f *frame) next(dice *rand.Rand) bool {
	if dice != nil {
		f.chosen = f.enabled[dice.IntN(len(f.enabled))]
		return true
	}
	for _, s := range f.enabled {
		if without(f.done, s.label) && without(f.sleep, s.label) {
			f.chosen = s
			return true
		}
	}
	return false
}

type outcome uint8

const (
	running outcome = iota
	acked
	failed
	unknown
)

func (o outcome) String() string {
	return [...]string{"running", "acknowledged", "failed", "unknown"}[o]
}

// scenario is what is explored.
type scenario struct {
	name    string
	options txn.Options // of A and B
	second  func(x *execution, ctx context.Context, db *txn.DB) outcome
	crash   bool
	// registers are the ranges, by their place, that have the second protocol. B's reads are then no snapshot.
	registers []int
	// change is the protocol that the last of them is given once, at any moment; it has the other one before.
	change *kv.Protocol
	// single says that B writes "3" to y by an operation of its own, between two reads of it.
	single bool
	// waits is how often time passes at will.
	waits int
	// scripts are orders that have once led to a bug: what is not possible when it is its turn is left out.
	scripts [][]string
}

// explorer runs the executions of one scenario.
type explorer struct {
	t   *testing.T
	c   *leaderkv.Cluster
	sc  *scenario
	cur atomic.Pointer[execution]
	ids int
	// pruned and diverged executions were given up: redundant, or different from before.
	runs, pruned, diverged, recovered int
	bug                               string
	trace                             []string // the steps that led to it
}

// execution is one order of messages.
type execution struct {
	e      *explorer
	x, y   keys.Key
	mu     sync.Mutex // guards the fields below; nothing is taken after it
	held   []*held
	dead   bool // A
	died   chan struct{}
	open   bool // messages of C, D and of ranges pass
	a, b   outcome
	aErr   error
	saw    string // what B read
	single string // the same, of a scenario of that name
	waited int
	// changing says that the change of protocol has begun, changed is closed when it is made, or given up.
	changing bool
	changed  chan struct{}
	giveUp   context.CancelFunc
	before   int64 // recoveries
	trace    []string
	steps    []string // the part of trace before judge
}

var errDead = errors.New("the gateway is dead")

func methods(b *kv.Batch) string {
	var out []string
	for _, r := range b.Requests {
		if p, ok := r.(*kv.ProtocolRequest); ok {
			q, err := register.DecodeRequest(p.Body)
			if err != nil {
				panic(err)
			}
			out = append(out, q.Kind.String())
			continue
		}
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", r), "*kv."), "Request"))
	}
	return strings.Join(out, "+")
}

// wire holds the messages of the present execution.
func (e *explorer) wire(ctx context.Context, m *leaderkv.Message, deliver func(context.Context) ([]byte, error)) ([]byte, error) {
	x := e.cur.Load()
	k := keys.Addr(m.Batch.Requests[0].Span().Start)
	if x == nil || !(k.Equal(x.x) || k.Equal(x.y)) {
		return deliver(ctx) // of an execution before
	}
	h := &held{from: m.From, label: fmt.Sprintf("%s>r%d %s", m.From, m.Range, methods(m.Batch))}
	switch m.From {
	case "A":
		h.touches = touchA
	case "B":
		h.touches = touchB
	case "r1":
		h.touches = touchR1
	case "r2":
		h.touches = touchR2
	}
	switch m.Node {
	case leaderkv.RegisterNodes:
		h.label, h.touches = fmt.Sprintf("%s>n%d %s", m.From, m.Node, methods(m.Batch)), h.touches|touchFirst
	case leaderkv.RegisterNodes + 1:
		h.label, h.touches = fmt.Sprintf("%s>n%d %s", m.From, m.Node, methods(m.Batch)), h.touches|touchSecond
	default:
		h.touches |= touchR1 << (m.Range - 1)
	}
	type answer struct {
		resp []byte
		err  error
	}
	done := make(chan answer, 1)
	h.deliver = func() {
		c := ctx
		if c.Err() != nil || m.From == "A" && x.isDead() {
			c = context.Background() // nobody waits for it any more, but it is on its way
		}
		resp, err := deliver(c)
		done <- answer{resp, err}
	}
	x.mu.Lock()
	if x.dead && m.From == "A" {
		x.mu.Unlock()
		return nil, errDead
	}
	if x.open && m.From != "A" && m.From != "B" {
		x.mu.Unlock()
		return deliver(ctx)
	}
	base := h.label
	for n := 2; slices.ContainsFunc(x.held, func(o *held) bool { return o.label == h.label }); n++ {
		h.label = fmt.Sprintf("%s #%d", base, n)
	}
	x.held = append(x.held, h)
	x.mu.Unlock()
	var died chan struct{}
	if m.From == "A" {
		died = x.died
	}
	select {
	case r := <-done:
		if m.From == "A" && x.isDead() {
			return nil, errDead
		}
		return r.resp, r.err
	case <-died:
		return nil, errDead
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (x *execution) isDead() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.dead
}

// enabled lists what may happen next; nothing once both transactions have ended.
func (x *execution) enabled() []step {
	x.mu.Lock()
	defer x.mu.Unlock()
	if (x.a != running || x.dead) && x.b != running {
		return nil
	}
	var out []step
	alive := x.a == running
	for _, h := range x.held {
		out = append(out, step{h.label, h.touches})
		alive = alive || h.from == "A"
	}
	slices.SortFunc(out, func(a, b step) int { return strings.Compare(a.label, b.label) })
	if x.e.sc.crash && !x.dead && alive {
		out = append(out, step{"A dies", touchA})
	}
	if x.e.sc.change != nil && !x.changing {
		out = append(out, step{"change of protocol", touchAll})
	}
	if len(x.held) == 0 {
		out = append(out, step{"a moment", touchAll})
	} else if x.waited < x.e.sc.waits {
		out = append(out, step{"time", touchAll})
	}
	return out
}

// take does one step and waits until everything has come to rest.
func (x *execution) take(label string) bool {
	x.trace = append(x.trace, label)
	switch label {
	case "A dies":
		x.mu.Lock()
		x.dead = true
		close(x.died)
		x.mu.Unlock()
	case "change of protocol":
		ctx, cancel := context.WithCancel(context.Background())
		x.changing, x.giveUp = true, cancel
		go x.change(ctx)
	case "time":
		x.waited++
		time.Sleep(4 * time.Second)
	case "a moment":
		time.Sleep(70 * time.Millisecond)
	default:
		x.mu.Lock()
		i := slices.IndexFunc(x.held, func(h *held) bool { return h.label == label })
		if i < 0 {
			x.mu.Unlock()
			return false
		}
		h := x.held[i]
		x.held = slices.Delete(x.held, i, i+1)
		x.mu.Unlock()
		go h.deliver()
	}
	synctest.Wait()
	return true
}

// change gives a range another protocol, as often as it takes.
func (x *execution) change(ctx context.Context) {
	defer close(x.changed)
	sc := x.e.sc
	for x.e.c.Become(ctx, sc.registers[len(sc.registers)-1], *sc.change) != nil && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
}

// awaitChange waits until a change of protocol that has begun is made, which nothing holds up any more (leaderkv.E5).
func (x *execution) awaitChange() {
	defer x.giveUp()
	select {
	case <-x.changed:
	case <-time.After(7 * time.Second):
		x.bad("leaderkv.E5: the change of protocol does not end")
		x.giveUp()
		<-x.changed
	}
}

// changeBack gives it the protocol that it had.
func (e *explorer) changeBack() {
	if e.sc.change == nil {
		return
	}
	before := kv.Leader
	if *e.sc.change == kv.Leader {
		before = register.Protocol
	}
	if err := e.c.Become(context.Background(), e.sc.registers[len(e.sc.registers)-1], before); err != nil && e.bug == "" {
		e.bug = fmt.Sprintf("the range does not come back to its protocol: %v", err)
	}
}

func (x *execution) put(db *txn.DB, ctx context.Context, value string, ks ...keys.Key) outcome {
	t := db.Begin(txn.TxnOptions{})
	var wb txn.WriteBatch
	for _, k := range ks {
		wb.Put(k, []byte(value))
	}
	err := t.Write(ctx, &wb)
	if err == nil {
		err = t.Commit(ctx)
	}
	var ambiguous *kv.AmbiguousError
	switch {
	case err == nil:
		return acked
	case errors.As(err, &ambiguous), errors.Is(err, errDead):
		return unknown
	}
	x.aErr = err
	t.Rollback(ctx)
	return failed
}

// read reads both keys in one transaction, starting over as often as it has to.
func (x *execution) read(db *txn.DB, ctx context.Context, first, second keys.Key) (string, error) {
	t := db.Begin(txn.TxnOptions{})
	for {
		v, err := t.Get(ctx, first, kv.NoLock, kv.Block)
		var w []byte
		if err == nil {
			if w, err = t.Get(ctx, second, kv.NoLock, kv.Block); err == nil {
				err = t.Commit(ctx)
			}
		}
		if err == nil {
			return string(v) + "|" + string(w), nil
		}
		var retry *txn.RetryError
		if !errors.As(err, &retry) || t.Attempt() > 5 {
			t.Rollback(ctx)
			return "", err
		}
		if err := t.Restart(ctx); err != nil {
			return "", err
		}
	}
}

// half reports whether only one of the keys has a value, or they differ: both transactions write both. B's own writes may be
// before A's or after it.
func (sc *scenario) half(s string) bool {
	a, b, _ := strings.Cut(s, "|")
	if sc.single {
		return a == "1" && b == "" || a == "" && b == "1"
	}
	return a != b
}

// run does one execution along frames, then those steps of a script that are possible when it is their turn, and beyond them as far as it
// goes; it returns the frames.
func (e *explorer) run(frames []*frame, script []string, dice *rand.Rand) []*frame {
	e.ids++
	e.runs++
	x := &execution{e: e, x: keys.Key(fmt.Sprintf("b%06d", e.ids)), y: keys.Key(fmt.Sprintf("n%06d", e.ids)), died: make(chan struct{}), changed: make(chan struct{}), before: e.recoveries()}
	e.cur.Store(x)
	da, stopA := e.c.Gateway("A", e.sc.options)
	db, stopB := e.c.Gateway("B", e.sc.options)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		o := x.put(da, ctx, "1", x.x, x.y)
		x.mu.Lock()
		x.a = o
		x.mu.Unlock()
	}()
	synctest.Wait()
	go func() {
		o := e.sc.second(x, ctx, db)
		x.mu.Lock()
		x.b = o
		x.mu.Unlock()
	}()
	synctest.Wait()
	whole := true
	for depth := 0; ; depth++ {
		enabled := x.enabled()
		if len(enabled) == 0 || depth > 200 {
			break
		}
		for depth == len(frames) && len(script) > 0 {
			f := &frame{enabled: enabled, chosen: step{label: script[0]}}
			if script = script[1:]; !without(enabled, f.chosen.label) {
				frames = append(frames, f)
			}
		}
		if depth == len(frames) {
			f := &frame{enabled: enabled}
			if depth > 0 {
				p := frames[depth-1]
				for _, s := range append(slices.Clone(p.sleep), p.done...) {
					if s.touches&p.chosen.touches == 0 {
						f.sleep = append(f.sleep, s)
					}
				}
			}
			if !f.next(dice) {
				e.pruned++
				whole = false
				break
			}
			frames = append(frames, f)
		}
		if !slices.ContainsFunc(enabled, func(s step) bool { return s.label == frames[depth].chosen.label }) || !x.take(frames[depth].chosen.label) {
			e.diverged++
			frames = frames[:depth+1]
			whole = false
			break
		}
	}
	if whole {
		x.judge()
	}
	if x.steps == nil {
		x.steps = slices.Clone(x.trace)
	}
	// Leave nothing behind.
	cancel()
	x.mu.Lock()
	if !x.dead {
		x.dead = true
		close(x.died)
	}
	x.open = true
	late := x.held
	x.held = nil
	x.mu.Unlock()
	e.cur.Store(nil)
	for _, h := range late {
		go h.deliver()
	}
	synctest.Wait()
	stopA()
	stopB()
	if x.changing {
		x.awaitChange()
		e.changeBack()
	}
	return frames
}

// bad notes a bug, unless there is one.
func (x *execution) bad(format string, args ...any) {
	if e := x.e; e.bug == "" {
		e.trace = x.steps
		e.bug = fmt.Sprintf(format, args...) + fmt.Sprintf("\nA: %s, B: %s %s (%v)\n  %s", x.a, x.b, x.saw, x.aErr, strings.Join(x.trace, "\n  "))
	}
}

// judge looks at what is left.
func (x *execution) judge() {
	e := x.e
	x.steps = slices.Clone(x.trace)
	x.mu.Lock()
	x.open = true
	if x.changing {
		// The range serves nothing before its change has come to an end.
		x.held = slices.DeleteFunc(x.held, func(h *held) bool {
			if strings.HasPrefix(h.from, "r") {
				go h.deliver()
				return true
			}
			return false
		})
	}
	x.mu.Unlock()
	if os.Getenv("MERIDIAN_EXPLORE_TRACE") != "" {
		fmt.Printf("A %s, B %s %s: %s\n", x.a, x.b, x.saw, strings.Join(x.trace, "; "))
	}
	bad := x.bad
	look := func(name string) string {
		db, stop := e.c.Gateway(name, txn.Options{})
		defer stop()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		s, err := x.read(db, ctx, x.x, x.y)
		if err != nil {
			var left []string
			for _, h := range x.held {
				left = append(left, h.label)
			}
			bad("leaderkv.E4: %s is not answered: %v; on the way: %v", name, err, left)
		}
		if d := time.Since(begun); d > 7*time.Second {
			bad("leaderkv.E4: %s waited for %s", name, d)
		}
		return s
	}
	c := look("C")
	if len(e.sc.registers) > 0 {
		// A register is read as it is at that moment, and what C then met elsewhere may have been decided by that. The second time all is.
		first := c
		if c = look("C"); strings.Contains(first, "1") && !e.sc.single && !strings.Contains(c, "1") && x.b != acked && x.b != unknown {
			bad("leaderkv.E3: C saw %q, and then %q", first, c)
		}
	}
	if e.recoveries() > x.before {
		e.recovered++
	}
	x.mu.Lock()
	late := x.held
	x.held = nil
	x.mu.Unlock()
	decision := false
	for _, h := range late {
		// A read of a register keeps no write from coming; only a recovery does.
		coming := strings.Contains(h.label, "accept") || strings.Contains(h.label, "Put")
		decision = decision || strings.Contains(h.label, "EndTxn") || len(e.sc.registers) > 0 && h.from == "A" && coming && e.recoveries() == x.before
		x.trace = append(x.trace, "late: "+h.label)
		go h.deliver()
	}
	synctest.Wait()
	time.Sleep(100 * time.Millisecond)
	x.trace = append(x.trace, "C saw "+c)
	d := look("D")
	if e.sc.single {
		x.judgeSingle(bad, c, d)
	}
	switch {
	case e.sc.half(c) || e.sc.half(d) || e.sc.half(x.saw) && len(e.sc.registers) == 0:
		bad("leaderkv.E1: half a transaction: B saw %q, C %q, D %q", x.saw, c, d)
	case c != d && (d != "1|1" || !decision) && !e.sc.single:
		bad("leaderkv.E3: C saw %q and D %q", c, d)
	case x.a == acked && x.b != acked && x.b != unknown && c != "1|1", x.a == acked && !strings.HasPrefix(c, "1|") && (e.sc.single || c == "|"):
		bad("leaderkv.E2: A was acknowledged, and C sees %q", c)
	case x.a == failed && (strings.Contains(c, "1") || strings.Contains(x.saw, "1")):
		bad("leaderkv.E2: A failed, and was seen")
	case strings.Contains(x.saw, "1") && c == "|":
		bad("leaderkv.E2: B saw A's writes, C does not")
	}
	if x.saw == "" && x.b == acked && !e.sc.single && c != "1|1" && c != "2|2" {
		bad("leaderkv.E2: B was acknowledged, and C sees %q", c)
	}
	if x.b == failed && c == "2|2" {
		bad("leaderkv.E2: B failed, and was seen")
	}
}

// judgeSingle: what B has read of y, written and read again is in one order with A's write, of which C and D see the end.
func (x *execution) judgeSingle(bad func(string, ...any), c, d string) {
	first, again, _ := strings.Cut(x.single, ",")
	_, atC, _ := strings.Cut(c, "|")
	_, atD, _ := strings.Cut(d, "|")
	switch {
	case x.b != acked:
	case again != "1" && again != "3", first == "1" && again != "3":
		bad("leaderkv.E2: B wrote 3 after it had read %q, and then read %q", first, again)
	case again == "1" && (atC != "1" || atD != "1"), first == "1" && (atC != "3" || atD != "3"), atC == "", atC == "1" && atD != "1":
		bad("leaderkv.E3: B read %q and %q, C %q and D %q", first, again, atC, atD)
	}
}

func (e *explorer) recoveries() (n int64) {
	for i := range e.c.Ranges() {
		n += e.c.Metrics(i).Recoveries.Load()
	}
	return n
}

// explore runs all orders, or as many as max; it reports whether these were all.
func (e *explorer) explore(max int) bool {
	var frames []*frame
	for {
		frames = e.run(frames, nil, nil)
		if e.bug != "" {
			return false
		}
		for {
			if len(frames) == 0 {
				return true
			}
			f := frames[len(frames)-1]
			f.done = append(f.done, f.chosen)
			if f.next(nil) {
				break
			}
			frames = frames[:len(frames)-1]
		}
		if max > 0 && e.runs >= max {
			return false
		}
	}
}

// shrink tells which steps of the trace of the bug that was found are enough for one, for a script.
func (e *explorer) shrink() (script []string) {
	script, bug := e.trace, e.bug
	for n := len(script); n > 0; {
		n--
		shorter := slices.Delete(slices.Clone(script), n, n+1)
		e.bug = ""
		if e.run(nil, shorter, nil); e.bug != "" {
			script = shorter
		}
	}
	e.bug = ""
	if e.run(nil, script, nil); e.bug == "" {
		e.bug = bug // it does not come each time
	}
	return script
}

// walk runs orders that dice choose.
func (e *explorer) walk(n int) {
	dice := rand.New(rand.NewPCG(uint64(n), 1))
	for range n {
		if e.run(nil, nil, dice); e.bug != "" {
			return
		}
	}
}

func reader(x *execution, ctx context.Context, db *txn.DB) outcome {
	s, err := x.read(db, ctx, x.y, x.x)
	if err != nil {
		return unknown
	}
	a, b, _ := strings.Cut(s, "|")
	x.saw = b + "|" + a
	return acked
}

// readerOfOne reads x and has no part in y: if it recovers A, it is the recovery alone that prevents a late write of y.
func readerOfOne(x *execution, ctx context.Context, db *txn.DB) outcome {
	t := db.Begin(txn.TxnOptions{})
	v, err := t.Get(ctx, x.x, kv.NoLock, kv.Block)
	if err == nil {
		err = t.Commit(ctx)
	}
	if err != nil {
		t.Rollback(ctx)
		return unknown
	}
	x.saw = string(v) + "|" + string(v)
	return acked
}

// single reads, writes and reads y without a transaction.
func single(x *execution, ctx context.Context, _ *txn.DB) outcome {
	c, stop := x.e.c.Client("B")
	defer stop()
	first, err := c.Get(ctx, x.y)
	if err == nil {
		err = c.Put(ctx, x.y, []byte("3"))
	}
	var again []byte
	if err == nil {
		again, err = c.Get(ctx, x.y)
	}
	if err != nil {
		return unknown
	}
	x.single = string(first) + "," + string(again)
	return acked
}

func writer(x *execution, ctx context.Context, db *txn.DB) outcome {
	return x.put(db, ctx, "2", x.x, x.y)
}

func TestExplore(t *testing.T) {
	runs := 400
	if testing.Short() {
		runs = 100
	}
	if s := os.Getenv("MERIDIAN_EXPLORE"); s != "" {
		if _, err := fmt.Sscan(s, &runs); err != nil {
			t.Fatal(err)
		}
	}
	for _, sc := range []*scenario{
		{name: "a reader", second: reader},
		{name: "a reader, and A dies", second: reader, crash: true, waits: 1},
		{name: "a reader of one key, and A is slow", second: readerOfOne, waits: 1},
		{name: "a writer", second: writer},
		{name: "a writer, and A dies", second: writer, crash: true, waits: 1},
		{name: "a reader, two phases, and A dies", second: reader, crash: true, waits: 1, options: txn.Options{TwoPhases: true}},
		{name: "a reader, writes sent early, and A dies", second: reader, crash: true, waits: 1, options: txn.Options{BufferBytes: 1}},
		{name: "a writer, writes sent early, and A dies", second: writer, crash: true, waits: 1, options: txn.Options{BufferBytes: 1}},
		{name: "a reader of two protocols, and A dies", second: reader, crash: true, waits: 1, registers: []int{1}},
		{name: "a reader of two protocols, the record among registers, and A dies", second: reader, crash: true, waits: 1, registers: []int{0}},
		{name: "a reader of one register, and A dies", second: readerOfOne, crash: true, waits: 1, registers: []int{0}},
		{name: "a writer of two protocols, and A dies", second: writer, crash: true, waits: 1, registers: []int{1}},
		{name: "a writer of two protocols", second: writer, registers: []int{1}},
		{name: "a reader of two protocols, registers become the leader's", second: reader, registers: []int{1}, change: new(kv.Leader)},
		{name: "a reader of two protocols, registers become the leader's, and A dies", second: reader, crash: true, waits: 1, registers: []int{1}, change: new(kv.Leader)},
		{name: "a reader of two protocols, registers become the leader's, and A is slow", second: reader, waits: 1, registers: []int{1}, change: new(kv.Leader), scripts: [][]string{
			// The record was staged anew while the change recovered it.
			{"A>n50 query", "A>r1 Put+EndTxn", "time", "A>r2 query #4", "A>r2 query", "A>n50 query #2", "A>n50 query #3", "A>n50 query #2", "A>r2 query",
				"A>r2 accept", "change of protocol", "r2>r1 QueryTxn", "A>r1 Put+EndTxn", "A>n51 accept", "r2>r1 RecoverTxn"},
			// The write was in the fold, and its gateway was told only that the range has another protocol (txn.MP4).
			{"B>r2 Get", "B>n51 query", "A>n50 query", "A>r1 Put+EndTxn", "B>n50 query", "A>n51 query", "B>r1 Get", "time", "A>n50 query #2", "A>n51 query #3",
				"A>n50 query #3", "A>n50 query #2", "A>r1 Put+EndTxn", "A>n51 query #3", "A>r2 accept", "change of protocol", "r2>r1 QueryTxn",
				"r1>r1 PushTxn", "r2>r1 RecoverTxn"}}},
		{name: "a reader of two protocols, the record among registers, which become the leader's, and A dies", second: reader, crash: true, waits: 1,
			registers: []int{0}, change: new(kv.Leader), scripts: [][]string{
				// The record was staged after the change had not found it. The record's range, which was sealed, then had to recover the transaction (commit.CR6).
				{"A>r1 query", "A>n50 query", "A>r2 Put", "A>r1 accept", "A>n50 accept", "change of protocol", "r1>r1 QueryTxn", "A>r1 EndTxn", "A dies", "time",
					"r1>r1 PushTxn"}}},
		{name: "a reader of registers, one range becomes the leader's", second: reader, registers: []int{0, 1}, change: new(kv.Leader)},
		{name: "a writer of two protocols, registers become the leader's", second: writer, registers: []int{1}, change: new(kv.Leader)},
		{name: "a reader, the leader's becomes registers, and A dies", second: reader, crash: true, waits: 1, registers: []int{1}, change: new(register.Protocol)},
		{name: "single operations on a register", second: single, single: true, registers: []int{1}},
		{name: "single operations on a register, and A dies", second: single, single: true, crash: true, waits: 1, registers: []int{1}},
		{name: "single operations on a register, the record among registers, and A is slow", second: single, single: true, waits: 1, registers: []int{0, 1}},
		{name: "a reader of registers, and A dies", second: reader, crash: true, waits: 1, registers: []int{0, 1}},
	} {
		t.Run(sc.name, func(t *testing.T) {
			begun := time.Now()
			var e *explorer
			var all bool
			synctest.Test(t, func(t *testing.T) {
				e = &explorer{t: t, sc: sc}
				c, err := leaderkv.New(leaderkv.Options{Bounds: []string{"m"}, Wire: e.wire, Registers: sc.registers})
				if err != nil {
					t.Fatal(err)
				}
				e.c = c
				e.changeBack()
				time.Sleep(time.Second) // the leases' start is in everybody's past
				for _, script := range sc.scripts {
					if e.run(nil, script, nil); e.bug != "" {
						break
					}
				}
				if e.bug == "" {
					if all = e.explore(runs); !all && e.bug == "" {
						e.walk(runs)
					}
				}
				if e.bug != "" {
					t.Logf("enough for a bug: %q", e.shrink())
				}
				if err := c.Stop(); err != nil {
					t.Error(err)
				}
			})
			t.Logf("%d orders in %s (all: %v), %d pruned, %d diverged; with a recovery: %d", e.runs, time.Since(begun).Round(time.Millisecond), all, e.pruned, e.diverged, e.recovered)
			if e.bug != "" {
				t.Fatal(e.bug)
			}
			most := e.runs / 20
			if sc.change != nil {
				most *= 4 // while a range is sealed its clients draw for how long they wait, from their first write on
			}
			if e.diverged > most {
				t.Errorf("%d of %d runs took another way than the one they were to repeat", e.diverged, e.runs)
			}
		})
	}
}
