package lock

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

func strength(s string) kv.LockStrength {
	switch s {
	case "read":
		return kv.NoLock
	case "share":
		return kv.Shared
	}
	return kv.Exclusive
}

func txnName(id kv.TxnID) string {
	if id.IsZero() {
		return "a request"
	}
	return "t" + strconv.Itoa(int(id[0]))
}

type script struct {
	t      *Table
	names  []string
	guards map[string]*Guard
	meta   map[string]*kv.TxnMeta
	looked uint64 // Releases of then
}

func (s *script) txn(name string) *kv.TxnMeta {
	if s.meta[name] == nil {
		n, _ := strconv.Atoi(name[1:])
		s.meta[name] = &kv.TxnMeta{ID: kv.TxnID{byte(n)}, Anchor: keys.Key("anchor")}
	}
	return s.meta[name]
}

func (s *script) wait(w Wait, waits bool) string {
	if !waits {
		return "goes on"
	}
	out := fmt.Sprintf("waits at %s for %s", string(w.Key), txnName(w.Holder.ID))
	if w.Intent {
		out += fmt.Sprintf("'s intent @%d", w.IntentAt.Wall)
	}
	if w.Claim {
		out += ", who comes first"
	}
	if w.Front {
		out += " (front)"
	}
	if w.Ended {
		out += ", " + w.Status.String()
	}
	return out
}

func (s *script) signalled() string {
	var out strings.Builder
	for _, n := range s.names {
		select {
		case <-s.guards[n].Signal():
			fmt.Fprintf(&out, "%s is signalled: %s\n", n, s.wait(s.t.State(s.guards[n])))
		default:
		}
	}
	return out.String()
}

// TestScripts runs testdata. A guard is named by its request, a transaction by t and a number; guards whose name
// starts with a transaction's belong to it.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{t: NewTable(0), guards: map[string]*Guard{}, meta: map[string]*kv.TxnMeta{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			arg := func(name string) (v string) {
				if d.HasArg(name) {
					d.ScanArgs(t, name, &v)
				}
				return v
			}
			at := func() clock.Timestamp {
				n, _ := strconv.Atoi(arg("at"))
				return clock.Timestamp{Wall: int64(n)}
			}
			key := keys.Key(arg("key"))
			switch d.Cmd {
			case "table":
				n, _ := strconv.Atoi(arg("max"))
				s.t = NewTable(n)
				return ""
			case "scan": // scan req=t1a at=N + lines "strength key" or "strength start-end"
				name := arg("req")
				g := s.guards[name]
				if g == nil {
					g = &Guard{ReadAt: at()}
					if name[0] == 't' {
						g.Txn = s.txn(strings.TrimRight(name, "abcdefgh"))
					}
					for _, line := range strings.Split(d.Input, "\n") {
						f := strings.Fields(line)
						start, end, _ := strings.Cut(f[1], "-")
						sp := Span{Strength: strength(f[0])}
						sp.Start = keys.Key(start)
						if end != "" {
							sp.End = keys.Key(end)
						}
						g.Spans = append(g.Spans, sp)
					}
					s.guards[name] = g
					s.names = append(s.names, name)
				}
				return name + " " + s.wait(s.t.Scan(g)) + "\n" + s.signalled()
			case "acquire":
				name := arg("req")
				s.t.Acquire(s.guards[name], key, s.guards[name].Txn, strength(arg("strength")))
			case "discover":
				since := s.t.Releases()
				if d.HasArg("looked") {
					since = s.looked
				}
				if !s.t.Discover(key, s.txn(arg("txn")), at(), since) {
					return "it may be gone\n"
				}
			case "look": // a read that takes no latches begins
				s.looked = s.t.Releases()
			case "release":
				s.t.Release(key, s.txn(arg("txn")).ID)
			case "release-span":
				s.t.ReleaseSpan(keys.Span{Start: key, End: keys.Key(arg("end"))}, s.txn(arg("txn")).ID)
			case "moved":
				s.t.Moved(key, s.txn(arg("txn")).ID, at())
			case "finalized":
				s.t.Finalized(s.txn(arg("txn")).ID, kv.Aborted)
			case "finish":
				name := arg("req")
				s.t.Finish(s.guards[name])
				delete(s.guards, name)
				s.names = slices.DeleteFunc(s.names, func(n string) bool { return n == name })
			case "pushing":
				s.t.Pushing(s.guards[arg("req")], s.txn(arg("txn")).ID)
			case "clear":
				s.t.Clear()
			case "split":
				right := NewTable(0)
				right.Join(s.t.Split(key))
				return fmt.Sprintf("%sleft has %d keys, right has %d\n", s.signalled(), s.t.Len(), right.Len())
			case "len":
				return fmt.Sprintf("%d keys, %d intents\n", s.t.Len(), s.t.Intents())
			default:
				return "unknown command"
			}
			if out := s.signalled(); out != "" {
				return out
			}
			return "ok\n"
		})
	})
}

// TestRandom drives a table as requests would and checks exclusion, that nobody is forgotten (lock.K3), and that the
// table is empty in the end. The steps of all requests are interleaved by one seeded choice.
func TestRandom(t *testing.T) {
	type request struct {
		g       *Guard
		txn     *kv.TxnMeta
		waiting bool
		want    []Span
	}
	for seed := range int64(200) {
		rng := rand.New(rand.NewSource(seed))
		tbl := NewTable(1 << 10)
		held := map[string]map[kv.TxnID]kv.LockStrength{}
		var reqs []*request
		step := func(r *request) (done bool) {
			if r.waiting {
				select {
				case <-r.g.Signal():
				default:
					return false
				}
				if _, blocked := tbl.State(r.g); blocked {
					return false
				}
				r.waiting = false
			}
			if _, waits := tbl.Scan(r.g); waits {
				r.waiting = true
				return false
			}
			for _, s := range r.want {
				k := string(s.Start)
				for id, st := range held[k] {
					if id != r.txn.ID && !st.Compatible(s.Strength) {
						t.Fatalf("seed %d: %s locked %s although %s has it", seed, txnName(r.txn.ID), k, txnName(id))
					}
				}
				if held[k] == nil {
					held[k] = map[kv.TxnID]kv.LockStrength{}
				}
				if held[k][r.txn.ID] < s.Strength {
					held[k][r.txn.ID] = s.Strength
				}
				tbl.Acquire(r.g, s.Start, r.txn, s.Strength)
			}
			tbl.Finish(r.g)
			return true
		}
		end := func(id kv.TxnID) {
			for k, h := range held {
				if _, ok := h[id]; ok {
					delete(h, id)
					tbl.Release(keys.Key(k), id)
				}
			}
		}
		live := map[kv.TxnID]bool{}
		for i := range 400 {
			switch n := rng.Intn(10); {
			case n < 4 && len(reqs) < 30:
				// One request for each transaction at a time; its keys come in order, so no deadlock.
				id := kv.TxnID{byte(i), byte(i >> 8), 1}
				r := &request{txn: &kv.TxnMeta{ID: id}}
				for k := range 6 {
					if rng.Intn(3) == 0 {
						r.want = append(r.want, Span{Span: keys.Span{Start: keys.Key{byte('a' + k)}},
							Strength: kv.LockStrength(1 + rng.Intn(2))})
					}
				}
				r.g = &Guard{Txn: r.txn, Spans: r.want}
				live[id] = true
				reqs = append(reqs, r)
			case n < 8 && len(reqs) > 0:
				j := rng.Intn(len(reqs))
				if step(reqs[j]) {
					reqs = slices.Delete(reqs, j, j+1)
				}
			case len(reqs) > 0 && n == 8: // gives up
				j := rng.Intn(len(reqs))
				tbl.Finish(reqs[j].g)
				end(reqs[j].txn.ID)
				reqs = slices.Delete(reqs, j, j+1)
			default:
				for id := range live {
					busy := slices.ContainsFunc(reqs, func(r *request) bool { return r.txn.ID == id })
					if !busy {
						end(id)
						delete(live, id)
						break
					}
				}
			}
		}
		for range 10_000 {
			if len(reqs) == 0 {
				break
			}
			for j := len(reqs) - 1; j >= 0; j-- {
				if step(reqs[j]) {
					end(reqs[j].txn.ID)
					reqs = slices.Delete(reqs, j, j+1)
				}
			}
			for id := range live {
				if !slices.ContainsFunc(reqs, func(r *request) bool { return r.txn.ID == id }) {
					end(id)
					delete(live, id)
				}
			}
		}
		if len(reqs) > 0 {
			t.Fatalf("seed %d: %d requests wait for ever", seed, len(reqs))
		}
		for id := range live {
			end(id)
		}
		if tbl.Len() != 0 {
			t.Fatalf("seed %d: %d keys left", seed, tbl.Len())
		}
	}
}

func BenchmarkLockUnlock(b *testing.B) {
	tbl := NewTable(0)
	txn := &kv.TxnMeta{ID: kv.TxnID{1}}
	k := keys.Key("\x10table/index/00000001")
	txn.Anchor = k
	g := &Guard{Txn: txn, Spans: []Span{{keys.Span{Start: k}, kv.Exclusive}}}
	for i := range 20 {
		tbl.Acquire(nil, keys.Key(fmt.Sprintf("\x10table/%d", i)), txn, kv.Exclusive)
	}
	b.ReportAllocs()
	for range b.N {
		tbl.Scan(g)
		tbl.Acquire(g, k, txn, kv.Exclusive)
		tbl.Finish(g)
		tbl.Release(k, txn.ID)
	}
}

// TestJoinReplaces: a request that read before its range was split has put an intent into the left side's table since. When
// the sides are merged again, the right side's table knows that key too, and who waits at the first is not forgotten there.
func TestJoinReplaces(t *testing.T) {
	k, holder, at := keys.Key("k"), kv.TxnMeta{ID: kv.TxnID{1}}, clock.Timestamp{Wall: 5}
	left, right := NewTable(0), NewTable(0)
	left.Discover(k, &holder, at, left.Releases())
	right.Discover(k, &holder, at, right.Releases())
	g := &Guard{Spans: []Span{{Span: keys.Span{Start: k}}}, ReadAt: clock.Timestamp{Wall: 10}}
	if _, waits := left.Scan(g); !waits {
		t.Fatal("does not wait")
	}
	left.Join(right.Split(nil))
	select {
	case <-g.Signal():
	default:
		t.Error("not told to ask anew")
	}
	left.Release(k, holder.ID)
	if w, waits := left.State(g); waits {
		t.Errorf("waits for %+v, which is gone", w)
	}
	left.Finish(g)
	if left.Len() != 0 || left.Intents() != 0 {
		t.Errorf("%d keys and %d intents are left", left.Len(), left.Intents())
	}
}
