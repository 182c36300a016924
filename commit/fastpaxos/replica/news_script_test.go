package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
	"meridian/storage/engine"
)

// TestNewsScripts plays what stores tell each other, question by question (fastpaxos.FP85, fastpaxos.FP86). All stores have a voter of one range.
//
//	stores N                          so many
//	accept N row=K at=(A, ...)        the replicas of these stores accept option N of a row; its outcome is open
//	execute N row=K at=(A, ...)       they hear that it has committed, abort that it has not
//	absorb at=(A, ...)                all options so far are in the log, and these stores have applied it
//	wait D                            time passes
//	ask A to=(B, ...) [lose=answer]   store A asks these, or all; what it asks of others, and maybe the answers, are lost
//	restart A                         its process begins anew, with the same disk
//	read A [within=D]                 what its replica tells a reader of rows a to z, and which rows a gateway reads again that allows so much
func TestNewsScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/news", func(t *testing.T, path string) {
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "a", Network: sim.NewNetwork(sim.NetworkOptions{})})
		defer h.Group.Stop()
		w := &newsScript{h: h}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return w.run(t, d) })
	})
}

type newsScript struct {
	h      *host.Host
	now    time.Duration
	stores []*scriptStore
	log    []newsItem // by index, from 1 on
	items  map[string]newsItem
	names  map[int]core.Name
	wire   strings.Builder
	lose   bool
}

// scriptStore has what its replica has accepted or executed on its disk, in order.
type scriptStore struct {
	w       *newsScript
	n       *News
	applied int
	disk    []newsItem
}

// handClock is a clock that the script moves.
type handClock struct {
	host.Clock
	w *newsScript
}

func (c handClock) Monotonic() time.Duration { return c.w.now }

func (c handClock) Now() time.Time { return time.Unix(0, int64(c.w.now)) }

func (c handClock) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// tell implements teller.
func (x *scriptStore) tell() (items []newsItem, applied uint64, err error) {
	for _, i := range x.disk {
		if at := x.w.index(i.Name); at == 0 || at > x.applied {
			items = append(items, i)
		}
	}
	return items, uint64(x.applied), nil
}

func (w *newsScript) index(n core.Name) int {
	return 1 + slices.IndexFunc(w.log, func(i newsItem) bool { return i.Name == n })
}

func (w *newsScript) start(i int) {
	x, h := w.stores[i], *w.h
	h.Clock = handClock{h.Clock, w}
	x.n = NewNews(NewsOptions{Host: &h, NodeID: func() kv.NodeID { return kv.NodeID(i + 1) }, Ask: func(ctx context.Context, to kv.NodeID, msg []byte) ([]byte, error) {
		b, err := w.stores[to-1].n.Serve(ctx, kv.NodeID(i+1), msg)
		if err != nil {
			return nil, err
		}
		q, _ := decodeHear(msg)
		a, _ := decodeTidings(b)
		since := fmt.Sprintf("all since %d", q.Next)
		if q.Incarnation == 0 {
			since = "for the first time"
		}
		if len(q.Want) > 0 {
			since += ", and for all of the range"
		}
		fmt.Fprintf(&w.wire, "%d asks %d %s: %s", i+1, to, since, inWords(a))
		if w.lose {
			w.wire.WriteString(" (lost)\n")
			return nil, errors.New("lost")
		}
		w.wire.WriteString("\n")
		return b, nil
	}})
	x.n.running = true // the script asks
	d := &kv.RangeDescriptor{ID: 1, Start: keys.Key("a"), End: keys.Key("z")}
	for i := range w.stores {
		d.Replicas = append(d.Replicas, kv.ReplicaDescriptor{Node: kv.NodeID(i + 1), Replica: kv.ReplicaID(i + 1), Type: kv.Voter})
	}
	x.n.join(d, kv.NodeID(i+1), x)
}

// inWords is an answer in words.
func inWords(a tidings) string {
	var parts []string
	for _, i := range a.Items {
		parts = append(parts, fmt.Sprintf("%s %s %s", string(i.Key), optionName(i.Name), [...]string{"", "accepted", "executed", "aborted"}[i.Kind]))
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing")
	}
	for _, c := range a.Complete {
		parts = append(parts, fmt.Sprintf("that is all, with the log up to %d", c.Applied))
	}
	if a.Lost {
		parts = append(parts, "earlier ones are not remembered")
	}
	return fmt.Sprintf("%s; next is %d", strings.Join(parts, ", "), a.Next)
}

func optionName(n core.Name) string {
	return "option " + strconv.FormatInt(n.At.Wall%int64(time.Millisecond), 10)
}

// name is that of an option with a number, which is made when it is first spoken of.
func (w *newsScript) name(number int) core.Name {
	n, ok := w.names[number]
	if !ok {
		n = core.Name{At: clock.Timestamp{Wall: int64(w.now) + int64(number)}}
		w.names[number] = n
	}
	return n
}

func (w *newsScript) run(t *testing.T, d *datadriven.TestData) string {
	list := func(key string) (out []int) {
		for _, a := range d.CmdArgs {
			if a.Key == key {
				for _, v := range a.Vals {
					n, err := strconv.Atoi(v)
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, n-1)
				}
			}
		}
		return out
	}
	first := func() int {
		n, err := strconv.Atoi(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	w.wire.Reset()
	switch d.Cmd {
	case "stores":
		*w = newsScript{h: w.h, now: time.Hour, items: map[string]newsItem{}, names: map[int]core.Name{}}
		for range first() {
			w.stores = append(w.stores, &scriptStore{w: w})
		}
		for i := range w.stores {
			w.start(i)
		}
	case "accept", "execute", "abort":
		var row string
		d.ScanArgs(t, "row", &row)
		i := newsItem{Range: 1, Kind: map[string]newsKind{"accept": accepted, "execute": carriedOut, "abort": aborted}[d.Cmd], Key: keys.Key(row), Name: w.name(first())}
		for _, at := range list("at") {
			x := w.stores[at]
			x.n.of(1).note(i.Key, i.Name, i.Kind)
			x.disk = slices.DeleteFunc(x.disk, func(o newsItem) bool { return o.Name == i.Name })
			if d.Cmd != "abort" {
				x.disk = append(x.disk, newsItem{1, accepted, i.Key, i.Name})
				w.items[row+strconv.Itoa(first())] = i
			} else {
				delete(w.items, row+strconv.Itoa(first()))
			}
		}
	case "absorb":
		var all []newsItem
		for _, i := range w.items {
			if w.index(i.Name) == 0 {
				all = append(all, i)
			}
		}
		slices.SortFunc(all, func(a, b newsItem) int { return a.Name.Compare(b.Name) })
		w.log = append(w.log, all...)
		for _, at := range list("at") {
			w.stores[at].applied = len(w.log)
		}
	case "wait":
		by, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		w.now += by
	case "ask":
		x, to := w.stores[first()-1], list("to")
		w.lose = d.HasArg("lose")
		qs, _ := x.n.questions(w.now)
		slices.SortFunc(qs, func(a, b newsQuestion) int { return int(a.to) - int(b.to) })
		for _, q := range qs {
			if to == nil || slices.Contains(to, int(q.to)-1) {
				x.n.ask(context.Background(), q.to, &q.q, w.now)
				continue
			}
			x.n.mu.Lock()
			x.n.peers[q.to].asking = false // as after a time-out
			x.n.mu.Unlock()
		}
		return w.wire.String()
	case "restart":
		w.start(first() - 1)
	case "read":
		return w.read(t, d, w.stores[first()-1])
	default:
		t.Fatalf("%s: command %s", d.Pos, d.Cmd)
	}
	return ""
}

func (w *newsScript) read(t *testing.T, d *datadriven.TestData, x *scriptStore) string {
	within := core.StalenessMost
	if d.HasArg("within") {
		var s string
		d.ScanArgs(t, "within", &s)
		var err error
		if within, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	g := x.n.of(1)
	if _, err := g.caughtUp(nil, func(engine.Reader) (uint64, error) { return uint64(x.applied), nil }); err != nil {
		t.Fatal(err)
	}
	rows, err := g.lackingIn(&core.Look{Span: keys.Span{Start: keys.Key("a"), End: keys.Key("z")}}, w.now, func(k keys.Key) (*core.Record, error) {
		r := &core.Record{}
		for _, i := range w.log[:x.applied] {
			if i.Key.Equal(k) {
				r.Base.At = r.Base.At.Forward(i.Name.At)
			}
		}
		for _, i := range x.disk {
			if i.Key.Equal(k) && r.Base.At.Less(i.Name.At) {
				r.Votes = append(r.Votes, core.Vote{Option: core.Option{Name: i.Name}, Verdict: core.Accepted})
			}
		}
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l := core.Looked{Age: g.age(w.now), Stale: rows}
	var b strings.Builder
	if g.at.Load() == 0 {
		b.WriteString("it has not heard from a quorum")
	} else {
		fmt.Fprintf(&b, "it has heard all up to %v ago", l.Age)
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "; %s lacks something, known for %v", string(r.Key), r.For.Round(time.Millisecond))
	}
	var again []string
	for _, k := range l.StaleRows(within) {
		again = append(again, string(k))
	}
	switch {
	case l.Age > within:
		b.WriteString("\na gateway reads all again")
	case len(again) > 0:
		fmt.Fprintf(&b, "\na gateway reads %s again", strings.Join(again, ", "))
	}
	return b.String() + "\n"
}
