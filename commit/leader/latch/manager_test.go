package latch

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"

	"meridian/clock"
	"meridian/keys"
)

func parse(t *testing.T, line string) Latch {
	var l Latch
	f := strings.Fields(line)
	if len(f) < 2 {
		t.Fatalf("bad latch %q", line)
	}
	switch f[0] {
	case "write":
		l.Mode = Write
	case "resolve":
		l.Mode = Resolve
	}
	if i := slices.IndexFunc(f, func(s string) bool { return s[0] == '#' }); i > 0 {
		fmt.Sscanf(f[i], "#%d", &l.Owner)
		f = slices.Delete(f, i, i+1)
	}
	start, end, _ := strings.Cut(f[1], "-")
	l.Span.Start = keys.Key(start)
	if end != "" {
		l.Span.End = keys.Key(end)
	}
	if len(f) > 2 {
		switch f[2] {
		case "@max":
			l.At = clock.MaxTimestamp
		default:
			var n int64
			fmt.Sscanf(f[2], "@%d", &n)
			l.At = clock.Timestamp{Wall: n}
		}
	}
	return l
}

// TestScripts runs testdata: acquire name, release name, cancel name; the output is what every request is doing.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			m := NewManager()
			type req struct {
				name   string
				g      *Guard
				err    error
				done   atomic.Bool
				cancel context.CancelFunc
				ahead  *Ahead
			}
			var reqs []*req
			find := func(n string) *req {
				for _, r := range reqs {
					if r.name == n {
						return r
					}
				}
				t.Fatalf("no request %s", n)
				return nil
			}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "acquire", "read":
					ctx, cancel := context.WithCancel(context.Background())
					r := &req{cancel: cancel}
					d.ScanArgs(t, "name", &r.name)
					var ls []Latch
					for _, line := range strings.Split(d.Input, "\n") {
						ls = append(ls, parse(t, line))
					}
					reqs = append(reqs, r)
					go func() {
						if d.Cmd == "read" {
							_, r.err = m.WaitRead(ctx, ls[0].Span, ls[0].At)
						} else {
							r.g, r.err = m.Acquire(ctx, ls)
						}
						r.done.Store(true)
					}()
				case "release":
					r := find(d.CmdArgs[0].Key)
					m.Release(r.g)
					reqs = slices.DeleteFunc(reqs, func(o *req) bool { return o == r })
				case "cancel":
					find(d.CmdArgs[0].Key).cancel()
				case "queue":
					ctx, cancel := context.WithCancel(context.Background())
					r := &req{cancel: cancel}
					d.ScanArgs(t, "name", &r.name)
					reqs = append(reqs, r)
					if r.g, r.ahead = m.Queue([]Latch{parse(t, d.Input)}); r.ahead == nil {
						r.done.Store(true)
						break
					}
					go func() {
						<-ctx.Done() // await
						r.err = m.Await(context.Background(), r.g, r.ahead)
						r.done.Store(true)
					}()
				case "await":
					find(d.CmdArgs[0].Key).cancel()
				case "touches":
					a := find(d.CmdArgs[0].Key).ahead
					if !a.Few() {
						return "too many to tell\n"
					}
					var out strings.Builder
					for _, line := range strings.Split(d.Input, "\n") {
						fmt.Fprintf(&out, "%s: %t\n", line, a.Touches(parse(t, "read "+line).Span))
					}
					return out.String()
				default:
					return "unknown command"
				}
				synctest.Wait()
				var out strings.Builder
				for _, r := range reqs {
					switch {
					case !r.done.Load():
						fmt.Fprintf(&out, "%s waits\n", r.name)
					case r.err != nil:
						fmt.Fprintf(&out, "%s: %v\n", r.name, r.err)
					case r.g == nil:
						fmt.Fprintf(&out, "%s may read\n", r.name)
					default:
						fmt.Fprintf(&out, "%s holds\n", r.name)
					}
				}
				reqs = slices.DeleteFunc(reqs, func(o *req) bool { return o.done.Load() && o.g == nil })
				if out.Len() == 0 {
					return "nothing\n"
				}
				return out.String()
			})
			for _, r := range reqs {
				r.cancel()
			}
			synctest.Wait()
		})
	})
}

// TestRandom runs many requests side by side and checks exclusion against a list of what is held.
func TestRandom(t *testing.T) {
	for seed := range int64(20) {
		synctest.Test(t, func(t *testing.T) {
			m := NewManager()
			var held []*[]Latch // goroutines of the bubble take turns at it under mu
			mu := make(chan struct{}, 1)
			for w := range 24 {
				rng := rand.New(rand.NewSource(seed<<8 + int64(w)))
				go func() {
					for range 60 {
						ls := make([]Latch, 1+rng.Intn(6))
						for i := range ls {
							a, b := rng.Intn(30), rng.Intn(30)
							ls[i] = Latch{Span: keys.Span{Start: keys.Key(fmt.Sprintf("%02d", a))},
								Mode: Mode(rng.Intn(3)), At: clock.Timestamp{Wall: int64(rng.Intn(4))}, Owner: uint64(rng.Intn(3))}
							if rng.Intn(4) == 0 && a < b {
								ls[i].Span.End = keys.Key(fmt.Sprintf("%02d", b))
							}
						}
						ctx, cancel := context.WithCancel(context.Background())
						if rng.Intn(5) == 0 {
							cancel()
						}
						g, err := m.Acquire(ctx, ls)
						if err != nil {
							if !errors.Is(err, context.Canceled) {
								t.Error(err)
							}
							cancel()
							continue
						}
						mu <- struct{}{}
						for _, o := range held {
							for i := range *o {
								for j := range ls {
									a, b := &(*o)[i], &ls[j]
									if a.Span.Overlaps(b.Span) && a.conflicts(b) {
										t.Errorf("held together: %v and %v", a, b)
									}
								}
							}
						}
						held = append(held, &ls)
						<-mu
						for range rng.Intn(3) {
							ch := make(chan struct{})
							go close(ch)
							<-ch
						}
						mu <- struct{}{}
						held = slices.DeleteFunc(held, func(o *[]Latch) bool { return o == &ls })
						<-mu
						m.Release(g)
						cancel()
					}
				}()
			}
			synctest.Wait()
			if m.Len() != 0 {
				t.Fatalf("%d latches left", m.Len())
			}
		})
	}
}

// TestManyPoints says that a guard may have thousands of keys, and that the table shrinks again.
func TestManyPoints(t *testing.T) {
	m := NewManager()
	ls := make([]Latch, 20_000)
	for i := range ls {
		ls[i] = Latch{Span: keys.Span{Start: keys.Key(fmt.Sprintf("key%06d", i))}, Mode: Write}
	}
	g, err := m.Acquire(t.Context(), ls)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.WaitRead(ctx, ls[777].Span, clock.Timestamp{Wall: 1}); err == nil {
		t.Fatal("a read passed a writer")
	}
	if waited, err := m.WaitRead(ctx, keys.Span{Start: keys.Key("other")}, clock.MaxTimestamp); waited || err != nil {
		t.Fatal("a read waited for a writer of other keys")
	}
	m.Release(g)
	if m.Len() != 0 || len(m.buckets) != minBuckets {
		t.Fatalf("%d latches, %d buckets left", m.Len(), len(m.buckets))
	}
}

func BenchmarkAcquirePoint(b *testing.B) {
	m := NewManager()
	ls := []Latch{{Span: keys.Span{Start: keys.Key("\x10table/index/00000001")}, Mode: Write}}
	b.ReportAllocs()
	for range b.N {
		g, _ := m.Acquire(context.Background(), ls)
		m.Release(g)
	}
}

func BenchmarkWaitRead(b *testing.B) {
	m := NewManager()
	g, _ := m.Acquire(context.Background(), []Latch{{Span: keys.Span{Start: keys.Key("x")}, Mode: Write}})
	defer m.Release(g)
	s := keys.Span{Start: keys.Key("\x10table/index/00000001")}
	b.ReportAllocs()
	for range b.N {
		m.WaitRead(context.Background(), s, clock.Timestamp{Wall: 1})
	}
}

// BenchmarkSpanPastManyPoints is a scan's latch together with a request with many keys, none of which it wants.
func BenchmarkSpanPastManyPoints(b *testing.B) {
	m := NewManager()
	ls := make([]Latch, 10_000)
	for i := range ls {
		ls[i] = Latch{Span: keys.Span{Start: keys.Key(fmt.Sprintf("key%06d", i))}, Mode: Write}
	}
	g, _ := m.Acquire(context.Background(), ls)
	defer m.Release(g)
	span := []Latch{{Span: keys.Span{Start: keys.Key("other"), End: keys.Key("p")}, Mode: Read, At: clock.MaxTimestamp}}
	for range b.N {
		g, _ := m.Acquire(context.Background(), span)
		m.Release(g)
	}
}

// TestTry: what would wait gets nothing, holds nothing, and lets others pass.
func TestTry(t *testing.T) {
	m := NewManager()
	write := func(k string) []Latch { return []Latch{{Span: keys.Span{Start: keys.Key(k)}, Mode: Write}} }
	a := m.Try(write("a"))
	if a == nil || a.Waited() {
		t.Fatal("a free key was refused")
	}
	if m.Try(append(write("b"), write("a")...)) != nil || m.Len() != 1 {
		t.Errorf("a held key was given; %d latches are held", m.Len())
	}
	b := m.Try(write("b"))
	if b == nil {
		t.Fatal("the refused request holds a key")
	}
	m.Release(a)
	m.Release(b)
	if a = m.Try(write("a")); a == nil || m.Len() != 1 {
		t.Error("a released key was refused")
	}
}

// TestFirst: the first latches that nobody has or waits for are taken; the others are passed over.
func TestFirst(t *testing.T) {
	m := NewManager()
	point := func(k string) Latch { return Latch{Span: keys.Span{Start: keys.Key(k)}, Mode: Write} }
	var all []Latch
	for _, k := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		all = append(all, point(k))
	}
	var held []*Guard
	take := func(n int, want ...int) {
		t.Helper()
		g, got := m.First(all, n)
		if !slices.Equal(got, want) || (g == nil) != (len(want) == 0) {
			t.Errorf("%d of the first %d were taken", got, n)
		}
		if g != nil {
			held = append(held, g)
		}
	}
	held = append(held, m.Try([]Latch{point("b")}), m.Try([]Latch{{Span: keys.Span{Start: keys.Key("d"), End: keys.Key("f")}, Mode: Write}}))
	take(2, 0, 2)
	take(1, 5)
	if m.Len() != 5 || m.Waits() != 0 {
		t.Errorf("%d latches are held, %d had to wait", m.Len(), m.Waits())
	}
	waiting, _ := m.Queue([]Latch{{Span: keys.Span{Start: keys.Key("a"), End: keys.Key("h")}, Mode: Write}})
	take(5, 7, 8, 9)
	take(1)
	for _, g := range append(held, waiting) {
		m.Release(g)
	}
	take(10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
}
