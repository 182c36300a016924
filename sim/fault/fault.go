package fault

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"meridian/host"
)

// Kind is the kind of an action.
type Kind string

const (
	// Crash kills the process of A; its disk loses unsynced data, and connections are reset.
	Crash Kind = "crash"
	// PowerOff is a crash of which the peers get no reset.
	PowerOff Kind = "poweroff"
	// Restart starts A again after Crash or PowerOff.
	Restart Kind = "restart"
	// Isolate cuts A off from all others, as a long pause does; Rejoin undoes it.
	Isolate Kind = "isolate"
	Rejoin  Kind = "rejoin"
	// Cut stalls both ways between A and B, CutOneWay the way from A to B; Heal opens both ways.
	Cut       Kind = "cut"
	CutOneWay Kind = "cutoneway"
	Heal      Kind = "heal"
	// Slow adds Amount of delay to messages from A to B; zero ends it.
	Slow Kind = "slow"
	// Reset breaks the connections between A and B.
	Reset Kind = "reset"
	// Skew sets A's clock off by Amount; zero ends it.
	Skew Kind = "skew"
	// SlowDisk makes A's syncs take Amount; zero ends it.
	SlowDisk Kind = "slowdisk"
	// Pause stops A as SIGSTOP does: nothing goes in or out, and its clock stands still; after Resume the clock is right
	// again, and bytes that had arrived are read.
	Pause  Kind = "pause"
	Resume Kind = "resume"
	// CrashSync is a Crash in the middle of a sync of A's disk: that many syncs from now, as many as Amount has
	// nanoseconds. The data of that sync is lost.
	CrashSync Kind = "crashsync"
	// Revive is Restart if A is down, and nothing otherwise.
	Revive Kind = "revive"

	// Flap cuts the link between A and B, in one or both directions, and heals it, several times. It is for
	// Options.Kinds; a plan has Cut, CutOneWay and Heal instead.
	Flap Kind = "flap"
	// SkewFar is a Skew beyond what nodes may tolerate: A has to stop itself. It is for Options.Kinds as well.
	SkewFar Kind = "skewfar"
	// Behind is a Skew into the past of a node that gets messages late, so that it does not learn the time from them: the
	// values that it reads were written in its future. It is for Options.Kinds as well; a plan has Skew and Slow instead.
	Behind Kind = "behind"
	// Brownout makes A's syncs slow, and then A loses its power: replies that did not wait for a sync have promised data that is lost.
	// It is for Options.Kinds as well; a plan has SlowDisk, PowerOff and Restart instead.
	Brownout Kind = "brownout"
)

// operands says how many nodes the kind names and whether it has an amount; false if there is no such kind.
func (k Kind) operands() (nodes int, amount, ok bool) {
	switch k {
	case Crash, PowerOff, Restart, Isolate, Rejoin, Pause, Resume, Revive, Behind, Brownout:
		return 1, false, true
	case Cut, CutOneWay, Heal, Reset, Flap:
		return 2, false, true
	case Skew, SlowDisk, CrashSync, SkewFar:
		return 1, true, true
	case Slow:
		return 2, true, true
	}
	return 0, false, false
}

// Action is one fault, or its repair.
type Action struct {
	At     time.Duration
	Kind   Kind
	A, B   string
	Amount time.Duration
}

func (a Action) String() string {
	s := fmt.Sprintf("%-8s %s %s", a.At, a.Kind, a.A)
	if a.B != "" {
		s += " " + a.B
	}
	if _, amount, _ := a.Kind.operands(); amount {
		s += " " + a.Amount.String()
	}
	return s
}

// Plan is actions in order of time.
type Plan []Action

// String is one line for each action; Parse reads it.
func (p Plan) String() string {
	var b strings.Builder
	for _, a := range p {
		b.WriteString(a.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Parse reads what String printed. Empty lines and lines that begin with # are skipped.
func Parse(s string) (Plan, error) {
	var p Plan
	for i, line := range strings.Split(s, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || f[0][0] == '#' {
			continue
		}
		bad := func(why string) (Plan, error) {
			return nil, fmt.Errorf("fault: line %d %q: %s", i+1, line, why)
		}
		if len(f) < 3 {
			return bad("want a time, a kind and a node")
		}
		at, err := time.ParseDuration(f[0])
		if err != nil {
			return bad(err.Error())
		}
		a := Action{At: at, Kind: Kind(f[1]), A: f[2]}
		nodes, amount, ok := a.Kind.operands()
		if !ok {
			return bad("unknown kind")
		}
		f = f[3:]
		want := nodes - 1
		if amount {
			want++
		}
		if len(f) != want {
			return bad("wrong number of operands")
		}
		if nodes == 2 {
			a.B, f = f[0], f[1:]
		}
		if amount {
			if a.Amount, err = time.ParseDuration(f[0]); err != nil {
				return bad(err.Error())
			}
		}
		p = append(p, a)
	}
	if !slices.IsSortedFunc(p, byTime) {
		return nil, fmt.Errorf("fault: the plan is not in order of time")
	}
	return p, nil
}

func byTime(a, b Action) int { return cmp.Compare(a.At, b.At) }

// Options shape a generated plan.
type Options struct {
	// Nodes are the names of the nodes that may fail.
	Nodes []string
	// Duration is the plan's length; the last tenth is for repairs only.
	Duration time.Duration
	// Every is the mean time between two faults; default 1 s.
	Every time.Duration
	// Lasting is the mean time until a fault is repaired; default 3 s.
	Lasting time.Duration
	// Kinds of faults, of Crash, CrashSync, PowerOff, Isolate, Pause, Cut, CutOneWay, Flap, Slow, Reset, Skew, SkewFar,
	// Behind, SlowDisk and Brownout; default: Crash, PowerOff, Isolate, Cut, CutOneWay, Slow, Reset and Skew.
	Kinds []Kind
	// MaxDown bounds nodes that are crashed or isolated at once (fault.F1); default: the largest minority.
	MaxDown int
	// MaxSkew bounds a clock's error (fault.F2); default 200 ms.
	MaxSkew time.Duration
	// FarSkew is the least error of SkewFar, which goes up to twice as much; default 1 s.
	FarSkew time.Duration
	// MaxSlow bounds additional delay; default 500 ms.
	MaxSlow time.Duration
	// MaxSlowDisk bounds the time of a sync; default 2 s. Half of the slow disks are that slow, the others ten times
	// faster.
	MaxSlowDisk time.Duration
}

// Generate makes the plan of a seed. Same seed and options, same plan.
func Generate(seed uint64, o Options) Plan {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Every, time.Second)
	def(&o.Lasting, 3*time.Second)
	def(&o.MaxSkew, 200*time.Millisecond)
	def(&o.MaxSlow, 500*time.Millisecond)
	def(&o.MaxSlowDisk, 2*time.Second)
	def(&o.FarSkew, time.Second)
	if o.Kinds == nil {
		o.Kinds = []Kind{Crash, PowerOff, Isolate, Cut, CutOneWay, Slow, Reset, Skew}
	}
	if o.MaxDown == 0 {
		o.MaxDown = (len(o.Nodes) - 1) / 2
	}
	r := rand.New(rand.NewPCG(seed, 0xfa017))
	var p Plan
	if len(o.Nodes) == 0 {
		return p
	}
	const grain = time.Millisecond
	around := func(mean time.Duration) time.Duration {
		return (mean/2 + time.Duration(r.Int64N(int64(mean)+1))).Truncate(grain)
	}
	last := o.Duration - o.Duration/10
	// busy has the time until which each node, pair, clock or disk is broken: none is broken twice, so that one repair
	// does not undo two faults.
	busy := map[string]time.Duration{}
	var down []time.Duration // ends of the spans in which a node is down
	for at := around(o.Every); at < last; at += around(o.Every) {
		kind := o.Kinds[r.IntN(len(o.Kinds))]
		a := o.Nodes[r.IntN(len(o.Nodes))]
		b := a
		if nodes, _, _ := kind.operands(); nodes == 2 {
			if len(o.Nodes) < 2 {
				continue
			}
			for b == a {
				b = o.Nodes[r.IntN(len(o.Nodes))]
			}
		}
		end := min(at+max(around(o.Lasting), grain), last)
		act := Action{At: at, Kind: kind, A: a}
		fix := Action{At: end, A: a}
		var key string
		switch kind {
		case Crash, PowerOff, Isolate, Pause, CrashSync, SkewFar, Brownout:
			down = slices.DeleteFunc(down, func(t time.Duration) bool { return t < at })
			if len(down) >= o.MaxDown {
				continue
			}
			key = "node " + a
			switch fix.Kind = Restart; kind {
			case Isolate:
				fix.Kind = Rejoin
			case Pause:
				fix.Kind = Resume
			case CrashSync:
				fix.Kind = Revive
				act.Amount = time.Duration(r.Int64N(200) + 1)
			case SkewFar:
				act.Kind, act.Amount = Skew, (o.FarSkew + time.Duration(r.Int64N(int64(o.FarSkew/grain)+1))*grain).Truncate(grain)
				if r.IntN(2) == 0 {
					act.Amount = -act.Amount
				}
				fix.Kind = Revive
			case Brownout:
				act.Kind = PowerOff
			}
		case Cut, CutOneWay:
			// A machine's isolation heals all its links, so a cut may not overlap with one.
			key = "link " + min(a, b) + " " + max(a, b)
			act.B, fix.B, fix.Kind = b, b, Heal
		case Flap:
			key = "link " + min(a, b) + " " + max(a, b)
			act.B, fix.B, fix.Kind = b, b, Heal
			if act.Kind = Cut; r.IntN(2) == 0 {
				act.Kind = CutOneWay
			}
		case Slow:
			key = "slow " + a + " " + b
			act.B, fix.B, fix.Kind = b, b, Slow
			act.Amount = time.Duration(r.Int64N(int64(o.MaxSlow/grain))+1) * grain
		case Reset:
			act.B = b
			p = append(p, act)
			continue
		case Skew:
			key = "clock " + a
			fix.Kind = Skew
			act.Amount = time.Duration(r.Int64N(2*int64(o.MaxSkew/grain)+1))*grain - o.MaxSkew.Truncate(grain)
		case Behind:
			key = "clock " + a
			fix.Kind = Skew
			act.Kind, act.Amount = Skew, -(o.MaxSkew - time.Duration(r.Int64N(int64(o.MaxSkew/grain)/2+1))*grain).Truncate(grain)
		case SlowDisk:
			key = "disk " + a
			fix.Kind = SlowDisk
			slowest := o.MaxSlowDisk
			if r.IntN(2) == 0 {
				slowest = max(slowest/10, grain)
			}
			act.Amount = time.Duration(r.Int64N(int64(slowest/grain))+1) * grain
		default:
			panic(fmt.Sprintf("fault: %s is not a fault", kind))
		}
		if busy[key] >= at && busy[key] != 0 {
			continue
		}
		if kind == SkewFar {
			clock := "clock " + a
			if busy[clock] >= at && busy[clock] != 0 {
				continue
			}
			busy[clock] = end
			p = append(p, Action{At: end, Kind: Skew, A: a}) // the clock is right before the node comes back
		}
		if kind == Brownout {
			disk, slow := "disk "+a, max(o.MaxSlowDisk/20+time.Duration(r.Int64N(int64(o.MaxSlowDisk/8)+1)), grain).Truncate(grain)
			// The disk is at its second or third slow sync when the power fails.
			act.At = at + 2*slow + time.Duration(r.Int64N(int64(slow)+1)).Truncate(grain)
			if act.At >= end || busy[disk] >= at && busy[disk] != 0 {
				continue
			}
			// It comes back soon, before all data that it has lost is replicated elsewhere.
			end = min(end, act.At+around(500*time.Millisecond))
			fix.At, busy[disk] = end, end
			p = append(p, Action{At: at, Kind: SlowDisk, A: a, Amount: slow}, Action{At: end, Kind: SlowDisk, A: a})
		}
		if kind == Behind {
			for _, from := range o.Nodes {
				link := "slow " + from + " " + a
				if from == a || busy[link] >= at && busy[link] != 0 {
					continue
				}
				busy[link] = end
				p = append(p, Action{At: at, Kind: Slow, A: from, B: a, Amount: (2 * o.MaxSkew).Truncate(grain)},
					Action{At: end, Kind: Slow, A: from, B: a})
			}
		}
		switch fix.Kind {
		case Restart, Rejoin, Resume, Revive:
			down = append(down, end)
		}
		busy[key] = end
		p = append(p, act, fix)
		if kind == Flap {
			for t := at + around(300*time.Millisecond); t < end; t += around(300 * time.Millisecond) {
				heal, again := fix, act
				heal.At = t
				t += around(200 * time.Millisecond)
				if again.At = t; t < end {
					p = append(p, heal, again)
				}
			}
		}
	}
	slices.SortStableFunc(p, byTime)
	return p
}

// Target is the cluster on which a plan is carried out.
type Target interface {
	// Crash ends a node's process; silent means that its peers get no reset.
	Crash(node string, silent bool) error
	Restart(node string) error
	Isolate(node string)
	Rejoin(node string)
	Cut(a, b string, oneWay bool)
	Heal(a, b string)
	Slow(from, to string, extra time.Duration)
	Reset(a, b string)
	Skew(node string, offset time.Duration)
	SlowDisk(node string, delay time.Duration)
	Pause(node string)
	Resume(node string)
	CrashSync(node string, syncs int)
	Revive(node string) error
}

// Run carries out a plan; it calls log, if not nil, with each action as it happens. It stops at the first error or when
// ctx ends, without repairs.
func Run(ctx context.Context, clock host.Clock, p Plan, t Target, log func(Action)) error {
	start := clock.Monotonic()
	for _, a := range p {
		if err := clock.Sleep(ctx, a.At-(clock.Monotonic()-start)); err != nil {
			return err
		}
		if log != nil {
			log(a)
		}
		var err error
		switch a.Kind {
		case Crash, PowerOff:
			err = t.Crash(a.A, a.Kind == PowerOff)
		case Restart:
			err = t.Restart(a.A)
		case Isolate:
			t.Isolate(a.A)
		case Rejoin:
			t.Rejoin(a.A)
		case Cut, CutOneWay:
			t.Cut(a.A, a.B, a.Kind == CutOneWay)
		case Heal:
			t.Heal(a.A, a.B)
		case Slow:
			t.Slow(a.A, a.B, a.Amount)
		case Reset:
			t.Reset(a.A, a.B)
		case Skew:
			t.Skew(a.A, a.Amount)
		case SlowDisk:
			t.SlowDisk(a.A, a.Amount)
		case Pause:
			t.Pause(a.A)
		case Resume:
			t.Resume(a.A)
		case CrashSync:
			t.CrashSync(a.A, int(a.Amount))
		case Revive:
			err = t.Revive(a.A)
		default:
			err = fmt.Errorf("fault: unknown kind %q", a.Kind)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	return nil
}
