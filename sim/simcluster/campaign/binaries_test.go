package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/upgrade"
	"meridian/version"
)

// binaries has the nodes of a campaign run two binaries, that of the oldest version with which the build works and the next one, while an operator
// upgrades the cluster: each start draws one of the two, until the nodes are brought to the next one and the upgrade is finalized, by hand or by
// itself; from then on stores refuse the earlier one, and the draw is repeated. In one seed of four the upgrade is left out on purpose. It checks
// version.CV1 and version.CV2.
type binaries struct {
	earlier, later version.Binary
	c              *simcluster.Cluster
	problem        func(format string, args ...any)
	say            func(format string, args ...any)
	turn           chan struct{} // nil, or holds an element while a goroutine crashes nodes or looks into them

	mu       sync.Mutex // guards the fields below; nothing is taken after it
	dice     *rand.Rand
	begun    bool // the cluster exists; before, node 0 runs the earlier binary
	rolling  bool // the nodes are to get the later binary, and stay there
	resting  bool // nodes are not restarted
	busy     bool // the operator is restarting one
	runs     []version.Binary
	acting   []version.Version // the latest version that a machine's node was seen to act by
	watched  map[*server.Node]bool
	refusals int
	boots    [2]int // with the earlier binary, with the later one
	done     time.Duration
	how      string
}

func newBinaries(seed uint64, o *simcluster.Options) *binaries {
	b := &binaries{earlier: version.Binary{Own: version.Built().Oldest, Oldest: version.Built().Oldest}, later: version.Built(),
		dice: rand.New(rand.NewPCG(seed, 0xb19a)), watched: map[*server.Node]bool{}}
	if b.later == b.earlier { // a release without a next one: both binaries have its version
		b.later.Own.Minor++
	}
	o.Binary = b.boot
	return b
}

// attach is called when the cluster exists. Defects go to problem, events to say.
func (b *binaries) attach(c *simcluster.Cluster, problem, say func(format string, args ...any)) {
	b.c, b.problem, b.say = c, problem, say
	b.mu.Lock()
	b.begun = true
	b.mu.Unlock()
}

// boot draws a binary.
func (b *binaries) boot(i int, refused error) version.Binary {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.runs) <= i {
		b.runs, b.acting = append(b.runs, version.Binary{}), append(b.acting, version.Version{})
	}
	use := b.earlier
	if b.rolling && b.done == 0 || refused != nil || (b.begun || i > 0) && b.dice.IntN(2) == 0 {
		use = b.later
	}
	if refused != nil {
		b.refusals++
	}
	if b.runs[i] = use; use == b.later {
		b.boots[1]++
	} else {
		b.boots[0]++
	}
	return use
}

// tooOld reports whether a node stopped because the cluster is being upgraded beyond its binary. It is then started with the next one.
func (b *binaries) tooOld(i int, err error) bool {
	if !errors.As(err, new(*version.TooOldError)) {
		return false
	}
	b.mu.Lock()
	legitimate := b.runs[i] == b.earlier
	b.refusals++
	b.mu.Unlock()
	if !legitimate {
		return false
	}
	b.say("n%d: %v", i+1, err)
	b.stop(func() { b.c.Crash(i, 0, false) })
	b.restart(i)
	return true
}

// stop calls do, which stops a node, in its turn.
func (b *binaries) stop(do func()) {
	if b.turn != nil {
		b.turn <- struct{}{}
		defer func() { <-b.turn }()
	}
	do()
}

func (b *binaries) restart(i int) {
	if err := b.c.TryBoot(i); err != nil {
		b.problem("n%d does not start: %v", i+1, err)
	}
}

// run upgrades the cluster until stop is closed, or the upgrade is complete.
func (b *binaries) run(stop chan struct{}) {
	b.mu.Lock()
	dice := rand.New(rand.NewPCG(b.dice.Uint64(), 1))
	b.mu.Unlock()
	begun := time.Now()
	roll, automatic := time.Duration(dice.IntN(15_000))*time.Millisecond, dice.IntN(3) == 0
	never := dice.IntN(4) == 0
	for next := begun; ; {
		select {
		case <-stop: // of another bubble, so that it can't be waited for
			return
		default:
			time.Sleep(20 * time.Millisecond)
		}
		b.look()
		b.mu.Lock()
		resting := b.resting
		b.mu.Unlock()
		if resting || time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(time.Duration(300+dice.IntN(1200)) * time.Millisecond)
		if !never && time.Since(begun) > roll {
			b.mu.Lock()
			b.rolling = true
			b.mu.Unlock()
		}
		i := dice.IntN(b.c.Len())
		if n := b.c.Node(i); n == nil {
			continue
		}
		b.mu.Lock()
		earlier, rolling, done := b.runs[i] == b.earlier, b.rolling, b.done != 0
		resting, b.busy = b.resting, !b.resting
		b.mu.Unlock()
		if resting {
			continue
		}
		switch {
		case done:
		case rolling && earlier, !rolling && dice.IntN(6) == 0:
			b.say("n%d gets another binary", i+1)
			crash := dice.IntN(2) == 0
			b.stop(func() {
				if crash {
					b.c.Crash(i, 50, false)
				} else {
					b.c.StopNode(i)
				}
			})
			b.restart(i)
		case automatic && rolling && dice.IntN(2) == 0:
			b.automatic(i)
		case dice.IntN(2) == 0:
			b.finalize(i)
		}
		b.mu.Lock()
		b.busy = false
		b.mu.Unlock()
		if !done && b.finished() {
			b.mu.Lock()
			b.done = time.Since(begun)
			b.mu.Unlock()
			b.say("the upgrade is finalized")
		}
	}
}

// begin starts the operator, and a watch for nodes that stop by themselves, for a campaign that has none of its own. The function that it returns
// ends both.
func (b *binaries) begin() (end func()) {
	stop := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() { b.run(stop) })
	both.Go(func() {
		for seen := map[*server.Node]bool{}; ; time.Sleep(50 * time.Millisecond) {
			select {
			case <-stop:
				return
			default:
			}
			for i := range b.c.Len() {
				n := b.c.Node(i)
				if n == nil || seen[n] {
					continue
				}
				if err := b.c.StoppedItself(i, n); err != nil {
					if seen[n] = true; !b.tooOld(i, err) {
						b.problem("n%d stopped itself: %v", i+1, err)
					}
				}
			}
		}
	})
	return func() { close(stop); both.Wait() }
}

// automatic sets the cluster setting upgrade.automatic.
func (b *binaries) automatic(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := b.c.Connect(ctx, i, "defaultdb")
	if err != nil {
		return
	}
	defer conn.Close(ctx)
	if _, err = conn.Exec(ctx, "SET CLUSTER SETTING upgrade.automatic = on"); err == nil {
		b.how = "automatic"
	}
}

// finalize asks a node to begin, and does not wait for the end. It is refused while a node is down or runs the earlier binary.
func (b *binaries) finalize(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	a := b.c.Admin(i)
	defer a.Close()
	u, err := a.Upgrade(ctx, true)
	b.say("finalize at n%d: %+v, %v", i+1, u, err)
	if err == nil && u.Raising == b.later.Own && b.how == "" {
		b.how = "by hand"
	}
}

// finished reports whether the cluster acts by the later version, and nothing is left to do for that.
func (b *binaries) finished() bool {
	for i := range b.c.Len() {
		n := b.c.Node(i)
		if n == nil || n.Store() == nil || n.Version().Acting() != b.later.Own {
			return false
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	n := b.c.Node(0)
	if n == nil {
		return false
	}
	row, err := upgrade.ReadCluster(ctx, n.DB())
	return err == nil && row.Active == b.later.Own && row.Raising.IsZero()
}

// look begins to watch nodes that were started.
func (b *binaries) look() {
	for i := range b.c.Len() {
		n := b.c.Node(i)
		if n == nil {
			continue
		}
		b.mu.Lock()
		known, runs := b.watched[n], b.runs[i]
		b.watched[n] = true
		b.mu.Unlock()
		if err := misused(n.Version(), runs); err != nil {
			b.problem("n%d: %v", i+1, err)
		}
		if known {
			continue
		}
		if got := n.Version().Binary(); got != runs {
			b.problem("n%d runs %v, drawn was %v", i+1, got, runs)
		}
		n.Version().OnRaise(func(v version.Version) { b.raised(i, v) })
		b.raised(i, n.Version().Acting())
	}
}

// raised checks version.CV1 and version.CV2 as a node begins to act by a version.
func (b *binaries) raised(i int, v version.Version) {
	if v.IsZero() {
		return
	}
	b.mu.Lock()
	before := b.acting[i]
	b.acting[i] = before.Max(v)
	b.mu.Unlock()
	if v.Less(before) {
		b.problem("version.CV1: n%d acts by %s, and acted by %s before", i+1, v, before)
	}
	if acting, _ := marked(b.c.Machines[i]); acting.Less(v) {
		b.problem("version.CV1: n%d acts by %s, and its store has %s", i+1, v, acting)
	}
	if v == b.earlier.Own {
		return
	}
	for j, m := range b.c.Machines {
		if _, promised := marked(m); promised.Less(v) {
			b.problem("version.CV2: n%d acts by %s, and the store of n%d has promised %s", i+1, v, j+1, promised)
		}
	}
}

// marked reads the durable marker of a machine's store.
func marked(m *sim.Machine) (acting, promised version.Version) {
	d := sim.NewDisk(0)
	d.Restore(m.Disk.Image())
	f, err := d.FS().Open("store/STORE")
	if err != nil {
		return acting, promised
	}
	defer f.Close()
	text, _ := io.ReadAll(f)
	turn := -1
	for line := range strings.Lines(string(text)) {
		line = strings.TrimLeft(line, "\x00")
		var at int
		_, rest, ok := strings.Cut(line, " turn=")
		if _, err := fmt.Sscanf(rest, "%d", &at); err != nil || !ok || at < turn {
			continue
		}
		turn = at
		for _, v := range []struct {
			word string
			into *version.Version
		}{{" acting=", &acting}, {" promised=", &promised}} {
			_, text, _ := strings.Cut(line, v.word)
			text, _, _ = strings.Cut(text, " ")
			*v.into, _ = version.Parse(text)
		}
	}
	return acting, promised
}

// rest says whether restarts pause, while others start all nodes that are down or measure how soon they serve. It returns when they do.
func (b *binaries) rest(on bool) {
	for {
		b.mu.Lock()
		b.resting = on
		busy := b.busy
		b.mu.Unlock()
		if !on || !busy {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// ready waits until every node serves. One that stops because the cluster is upgraded beyond its binary is started with the next one meanwhile.
func (b *binaries) ready() {
	for i := range b.c.Len() {
		var err error
		for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(100 * time.Millisecond) {
			n := b.c.Node(i)
			if n == nil {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			err = n.WaitReady(ctx)
			if cancel(); err == nil {
				break
			}
		}
		if err != nil {
			b.problem("n%d is not ready: %v", i+1, err)
		}
	}
}

// complete waits, once all nodes are up, until an intended upgrade is finalized, and starts nodes once more: their stores then refuse the earlier
// binary.
func (b *binaries) complete() {
	for range 900 { // in five regions each step of the next build, which has four, takes seconds
		b.mu.Lock()
		done, wanted := b.done != 0, b.rolling
		b.mu.Unlock()
		switch {
		case done:
			b.rest(true)
			for i := range 2 {
				b.c.StopNode(i)
				b.restart(i)
				b.c.WaitReady(i)
			}
			return
		case !wanted:
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.problem("the upgrade is not finalized 90 s after everyone served again: %s", b.summary())
}

func (b *binaries) summary() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := fmt.Sprintf("%d starts with %s, %d with %s, %d refused", b.boots[0], b.earlier.Own, b.boots[1], b.later.Own, b.refusals)
	if b.done == 0 {
		return s + ", not finalized"
	}
	return fmt.Sprintf("%s, finalized %s after %s", s, b.how, b.done.Round(time.Millisecond))
}
