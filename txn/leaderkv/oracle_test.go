package leaderkv_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
	"meridian/txn/leaderkv"
)

// The oracle: some small transactions run side by side, and an exhaustive search looks for an order, one after the
// other, in which each reads what it read (I3). Transactions of unknown outcome may be in it or not (I2: but not in
// part). The reads at the end come last. With one gateway the order has to agree with time as well.
//
//	MERIDIAN_ORACLE=n   that many seeds; MERIDIAN_ORACLE_SEED=n this seed alone

const (
	oracleKeys = 4
	maxTxns    = 8
	// stuckAfter is how long a seed may last: its dead are taken for dead after three seconds.
	stuckAfter = time.Minute
)

// world is the value of each key; zero: none.
type world [oracleKeys]int32

type opKind uint8

const (
	opGet opKind = iota
	opScan
	opPut
	opDelete
	opSave
	opBack // to the last savepoint
	// opFollow reads a key, and the next one if it comes with the first (txn.TX10).
	opFollow
)

type op struct {
	kind opKind
	key  int
	end  int // of a scan, exclusive
	lock kv.LockStrength
	n    int32 // what a put writes
	came bool  // of opFollow
	read world // what was read: of a get or scan
}

func (o *op) String() string {
	switch o.kind {
	case opGet:
		return fmt.Sprintf("get %d = %d", o.key, o.read[o.key])
	case opScan:
		return fmt.Sprintf("scan %d-%d = %v", o.key, o.end, o.read[o.key:o.end])
	case opFollow:
		if !o.came {
			return fmt.Sprintf("follow %d = %d", o.key, o.read[o.key])
		}
		return fmt.Sprintf("follow %d = %d, %d = %d", o.key, o.read[o.key], o.next(), o.read[o.next()])
	case opPut:
		return fmt.Sprintf("put %d %d", o.key, o.n)
	case opDelete:
		return fmt.Sprintf("delete %d", o.key)
	case opSave:
		return "savepoint"
	}
	return "rollback to"
}

// next is the key to which a value of the key leads.
func (o *op) next() int { return (o.key + 1) % oracleKeys }

// followKey is the recipe for it.
func followKey(_, k, _ []byte) (keys.Key, bool) {
	var seed int
	_, err := fmt.Sscanf(string(k[1:len(k)-1]), "%d", &seed)
	return oracleKey(seed, (int(k[len(k)-1]-'a')+1)%oracleKeys), err == nil
}

// otxn is one transaction and what became of it.
type otxn struct {
	gateway int
	ops     []op
	abandon bool // neither committed nor rolled back
	think   []time.Duration
	began   time.Duration // of the last attempt
	ended   time.Duration
	how     outcome
	err     error
}

func (x *otxn) String() string {
	var out []string
	for i := range x.ops {
		out = append(out, x.ops[i].String())
	}
	return fmt.Sprintf("gateway %d, %s-%s, %s: %s (%v)", x.gateway, x.began, x.ended, x.how, strings.Join(out, "; "), x.err)
}

// replay does the transaction alone, and reports whether it reads what it read.
func (x *otxn) replay(w world) (world, bool) {
	var saves []world
	for i := range x.ops {
		o := &x.ops[i]
		switch o.kind {
		case opGet:
			if x.how == acked && w[o.key] != o.read[o.key] {
				return w, false
			}
		case opFollow:
			if x.how == acked && (w[o.key] != o.read[o.key] || o.came && w[o.next()] != o.read[o.next()]) {
				return w, false
			}
		case opScan:
			for k := o.key; k < o.end; k++ {
				if x.how == acked && w[k] != o.read[k] {
					return w, false
				}
			}
		case opPut:
			w[o.key] = o.n
		case opDelete:
			w[o.key] = 0
		case opSave:
			saves = append(saves, w)
		case opBack:
			if len(saves) > 0 {
				w = saves[len(saves)-1]
			}
		}
	}
	return w, true
}

// serial looks for an order of txns that leads from nothing to final. timely asks for the order of time, too.
func serial(txns []*otxn, final world, timely bool) bool {
	type place struct {
		done uint16
		w    world
	}
	var must, all uint16
	for i, x := range txns {
		if x.how == acked {
			must |= 1 << i
		}
		if x.how != failed {
			all |= 1 << i
		}
	}
	dead := map[place]bool{}
	var search func(p place) bool
	search = func(p place) bool {
		if p.done&must == must && p.w == final {
			return true
		}
		if dead[p] {
			return false
		}
		for i, x := range txns {
			bit := uint16(1) << i
			if all&bit == 0 || p.done&bit != 0 {
				continue
			}
			if timely {
				early := false
				for j, y := range txns {
					early = early || must&(1<<j) != 0 && p.done&(1<<j) == 0 && y.ended < x.began && j != i
				}
				if early {
					continue
				}
			}
			if w, ok := x.replay(p.w); ok && search(place{p.done | bit, w}) {
				return true
			}
		}
		dead[p] = true
		return false
	}
	return search(place{})
}

// TestSerial: what the search accepts.
func TestSerial(t *testing.T) {
	get := func(k int, v int32) op { o := op{kind: opGet, key: k}; o.read[k] = v; return o }
	put := func(k int, v int32) op { return op{kind: opPut, key: k, n: v} }
	for _, c := range []struct {
		name   string
		txns   []*otxn
		final  world
		good   bool
		timely bool
	}{
		{"lost update", []*otxn{{how: acked, ops: []op{get(0, 0), put(0, 1)}}, {how: acked, ops: []op{get(0, 0), put(0, 2)}}}, world{2}, false, false},
		{"update after update", []*otxn{{how: acked, ops: []op{get(0, 2), put(0, 1)}}, {how: acked, ops: []op{get(0, 0), put(0, 2)}}}, world{1}, true, false},
		{"write skew", []*otxn{{how: acked, ops: []op{get(0, 0), put(1, 1)}}, {how: acked, ops: []op{get(1, 0), put(0, 2)}}}, world{2, 1}, false, false},
		{"unknown and there", []*otxn{{how: unknown, ops: []op{put(0, 1)}}}, world{1}, true, false},
		{"unknown and not there", []*otxn{{how: unknown, ops: []op{put(0, 1)}}}, world{}, true, false},
		{"half there", []*otxn{{how: unknown, ops: []op{put(0, 1), put(1, 1)}}}, world{1}, false, false},
		{"failed and there", []*otxn{{how: failed, ops: []op{put(0, 1)}}}, world{1}, false, false},
		{"taken back", []*otxn{{how: acked, ops: []op{{kind: opSave}, put(0, 1), {kind: opBack}, put(1, 1)}}}, world{0, 1}, true, false},
		{"a read of the past", []*otxn{{how: acked, ops: []op{put(0, 1)}, ended: 1}, {how: acked, ops: []op{get(0, 0)}, began: 2, ended: 3}}, world{1}, false, true},
		{"an allowed one", []*otxn{{how: acked, ops: []op{put(0, 1)}, ended: 2}, {how: acked, ops: []op{get(0, 0)}, began: 1, ended: 3}}, world{1}, true, true},
	} {
		if got := serial(c.txns, c.final, c.timely); got != c.good {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// oracle is one bubble's cluster.
type oracle struct {
	c    *leaderkv.Cluster
	mu   sync.Mutex // guards dice
	dice *rand.Rand
	slow time.Duration
	done struct{ acked, failed, unknown, restarts, came int }
}

func (o *oracle) delay() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.slow == 0 || o.dice.IntN(3) == 0 {
		return 0
	}
	return time.Duration(o.dice.Int64N(int64(o.slow)))
}

// wire delays messages, and now and then loses an answer.
func (o *oracle) wire(ctx context.Context, m *leaderkv.Message, deliver func(context.Context) ([]byte, error)) ([]byte, error) {
	if d := o.delay(); d > 0 {
		time.Sleep(d)
	}
	resp, err := deliver(ctx)
	if d := o.delay(); d > 0 {
		time.Sleep(d)
	}
	o.mu.Lock()
	lost := o.slow > 0 && o.dice.IntN(300) == 0
	o.mu.Unlock()
	if lost {
		return nil, errors.New("the answer was lost")
	}
	return resp, err
}

// oracleKey spreads the keys over the three ranges.
func oracleKey(seed, i int) keys.Key {
	return keys.Key(fmt.Sprintf("%c%06d%c", "bbnx"[i], seed, 'a'+i))
}

func (o *oracle) generate(dice *rand.Rand, gateways int) []*otxn {
	var n int32
	txns := make([]*otxn, 2+dice.IntN(maxTxns-2))
	for i := range txns {
		x := &otxn{gateway: dice.IntN(gateways), abandon: dice.IntN(40) == 0}
		for range 1 + dice.IntN(5) {
			p := op{key: dice.IntN(oracleKeys)}
			switch r := dice.IntN(20); {
			case r < 3:
				p.kind, p.lock = opFollow, kv.LockStrength(max(0, dice.IntN(5)-2))
			case r < 7:
				p.kind, p.lock = opGet, kv.LockStrength(max(0, dice.IntN(5)-2))
			case r < 10:
				p.kind = opScan
				p.end = p.key + 1 + dice.IntN(oracleKeys-p.key)
			case r < 16:
				n++
				p.kind, p.n = opPut, n
			case r < 18:
				p.kind = opDelete
			case r < 19:
				p.kind = opSave
			default:
				p.kind = opBack
			}
			x.ops = append(x.ops, p)
			x.think = append(x.think, time.Duration(dice.IntN(3))*time.Duration(dice.Int64N(int64(3*time.Millisecond))))
		}
		txns[i] = x
	}
	return txns
}

func number(v []byte) int32 {
	var n int32
	fmt.Sscan(string(v), &n)
	return n
}

// attempt does the operations once.
func (x *otxn) attempt(ctx context.Context, t *txn.Txn, seed int) error {
	var saves []txn.Savepoint
	for i := range x.ops {
		o := &x.ops[i]
		time.Sleep(x.think[i])
		switch o.kind {
		case opGet:
			v, err := t.Get(ctx, oracleKey(seed, o.key), o.lock, kv.Block)
			if err != nil {
				return err
			}
			o.read = world{}
			o.read[o.key] = number(v)
		case opFollow:
			vs, rows, err := t.GetRows(ctx, []keys.Key{oracleKey(seed, o.key)}, 0, []byte{1}, o.lock)
			if err != nil {
				return err
			}
			o.read = world{}
			o.read[o.key] = number(vs[0])
			if o.came = len(rows) > 0; o.came {
				if !rows[0].Key.Equal(oracleKey(seed, o.next())) || rows[0].Value == nil {
					return fmt.Errorf("%q came with %q", rows[0].Key, oracleKey(seed, o.key))
				}
				o.read[o.next()] = number(rows[0].Value)
			}
		case opScan:
			o.read = world{}
			for k := o.key; k < o.end; { // keys of one range are neighbours
				last := k
				for last+1 < o.end && "bbnx"[last+1] == "bbnx"[k] {
					last++
				}
				rows, resume, err := t.Scan(ctx, txn.ScanOptions{Span: keys.Span{Start: oracleKey(seed, k), End: oracleKey(seed, last).Next()}})
				if err != nil {
					return err
				}
				if resume != nil {
					return errors.New("a scan without a limit ended early")
				}
				for _, r := range rows {
					o.read[int(r.Key[len(r.Key)-1]-'a')] = number(r.Value)
				}
				k = last + 1
			}
		case opPut, opDelete:
			var wb txn.WriteBatch
			if o.kind == opPut {
				wb.Put(oracleKey(seed, o.key), fmt.Append(nil, o.n))
			} else {
				wb.Delete(oracleKey(seed, o.key))
			}
			if err := t.Write(ctx, &wb); err != nil {
				return err
			}
		case opSave:
			saves = append(saves, t.Savepoint())
		case opBack:
			if len(saves) > 0 {
				if err := t.RollbackTo(saves[len(saves)-1]); err != nil {
					return err
				}
			}
		}
		t.StepStatement()
	}
	if x.abandon {
		return nil
	}
	return t.Commit(ctx)
}

func (x *otxn) run(ctx context.Context, o *oracle, db *txn.DB, seed int, since time.Time) {
	t := db.Begin(txn.TxnOptions{})
	for tries := 0; ; tries++ {
		if tries == 0 {
			x.began = time.Since(since)
		}
		err := x.attempt(ctx, t, seed)
		x.ended, x.err = time.Since(since), err
		var retry *txn.RetryError
		var ambiguous *kv.AmbiguousError
		switch {
		case err == nil && x.abandon:
			x.how = failed // it may not take effect: its commit was never sent
			return
		case err == nil:
			x.how = acked
			return
		case errors.As(err, &ambiguous):
			x.how = unknown
			return
		case errors.As(err, &retry) && tries < 4:
			o.mu.Lock()
			o.done.restarts++
			o.mu.Unlock()
			if t.Restart(ctx) == nil {
				continue
			}
		}
		x.how = failed
		t.Rollback(ctx)
		return
	}
}

// seed runs one seed and says what is wrong.
func (o *oracle) seed(seed int) string {
	dice := rand.New(rand.NewPCG(uint64(seed), 0x0a))
	o.mu.Lock()
	o.dice = rand.New(rand.NewPCG(uint64(seed), 0x0b))
	o.slow = []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 40 * time.Millisecond}[dice.IntN(4)]
	o.mu.Unlock()
	options := txn.Options{TwoPhases: dice.IntN(5) == 0}
	if dice.IntN(4) == 0 {
		options.BufferBytes = 1 // writes leave at once
	}
	gateways := 1 + dice.IntN(3)
	var dbs []*txn.DB
	for i := range gateways {
		db, stop := o.c.Gateway(fmt.Sprintf("g%d", i), options)
		defer stop()
		dbs = append(dbs, db)
	}
	txns := o.generate(dice, gateways)
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), stuckAfter)
	defer cancel()
	var wg sync.WaitGroup
	for _, x := range txns {
		first := time.Duration(dice.Int64N(int64(20 * time.Millisecond)))
		wg.Go(func() {
			time.Sleep(first)
			db := dbs[x.gateway]
			if x.abandon { // its gateway dies with it
				var stop func()
				db, stop = o.c.Gateway("g0", options)
				defer stop()
			}
			x.run(ctx, o, db, seed, start)
		})
	}
	for range dice.IntN(3) {
		at, i, lost := time.Duration(dice.Int64N(int64(60*time.Millisecond))), dice.IntN(o.c.Ranges()), dice.IntN(2) == 0
		wg.Go(func() {
			time.Sleep(at)
			o.c.MoveLease(i, lost)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return fmt.Sprintf("not all ended within %s: options %+v, %d gateways\n%s", stuckAfter, options, gateways, list(txns))
	}
	o.mu.Lock()
	o.slow = 0
	o.mu.Unlock()
	var final world
	last := &otxn{ops: []op{{kind: opScan, end: oracleKeys}}, think: []time.Duration{500 * time.Millisecond}}
	last.run(ctx, o, dbs[0], seed, start)
	if last.how != acked {
		return fmt.Sprintf("nothing can be read afterwards: %v", last.err)
	}
	final = last.ops[0].read
	for _, x := range txns {
		switch x.how {
		case acked:
			o.done.acked++
			for i := range x.ops {
				if x.ops[i].came {
					o.done.came++
				}
			}
		case failed:
			o.done.failed++
		default:
			o.done.unknown++
		}
	}
	if serial(txns, final, gateways == 1) {
		return ""
	}
	why := "no order explains this"
	if gateways == 1 && serial(txns, final, false) {
		why = "no order that agrees with time explains this"
	}
	return fmt.Sprintf("%s; in the end %v:\n%s", why, final, list(txns))
}

func list(txns []*otxn) string {
	var out []string
	for _, x := range txns {
		out = append(out, x.String())
	}
	return strings.Join(out, "\n")
}

func TestOracle(t *testing.T) {
	seeds, first := 600, 0
	if testing.Short() {
		seeds = 150
	}
	env := func(name string, n *int) bool {
		s := os.Getenv(name)
		if s == "" {
			return false
		}
		if _, err := fmt.Sscan(s, n); err != nil {
			t.Fatal(err)
		}
		return true
	}
	env("MERIDIAN_ORACLE", &seeds)
	if env("MERIDIAN_ORACLE_SEED", &first) {
		seeds = 1
	}
	begun := time.Now()
	o := &oracle{dice: rand.New(rand.NewPCG(0, 0))}
	var bad []string
	synctest.Test(t, func(t *testing.T) {
		c, err := leaderkv.New(leaderkv.Options{Bounds: []string{"m", "w"}, Wire: o.wire, Delay: o.delay, Follow: followKey,
			Skew: func(name string) time.Duration { // of at most MaxOffset between any two
				return map[string]time.Duration{"r2": 60 * time.Millisecond, "g1": -60 * time.Millisecond, "g2": 120 * time.Millisecond, "r3": -100 * time.Millisecond}[name]
			}})
		if err != nil {
			t.Fatal(err)
		}
		o.c = c
		time.Sleep(time.Second)
		for seed := first; seed < first+seeds && len(bad) < 3; seed++ {
			if why := o.seed(seed); why != "" {
				bad = append(bad, fmt.Sprintf("seed %d: %s", seed, why))
			}
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	took := time.Since(begun)
	t.Logf("%d seeds in %s (%.0f/s): %d committed, %d failed, %d unknown, %d restarts, %d rows came with entries", seeds, took.Round(time.Millisecond), float64(seeds)/took.Seconds(),
		o.done.acked, o.done.failed, o.done.unknown, o.done.restarts, o.done.came)
	if o.done.came == 0 && seeds > 1 {
		t.Error("no row came with its entry")
	}
	if len(bad) > 0 {
		t.Error(strings.Join(bad, "\n"))
	}
}
