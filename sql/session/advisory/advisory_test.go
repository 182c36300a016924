package advisory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/memory"
	"meridian/sql/sqlstate"
)

// world stands in for a session: its holders record the calls that they get.
type world struct {
	log    []string
	taken  map[string]bool // by other sessions
	fails  error           // of the next Lock
	beside Holder
	held   map[string]bool // what holders have
	lives  int             // holders that are not closed
	made   int
}

func newWorld() (*world, *Locks, *memory.Account) {
	w := &world{taken: map[string]bool{}, held: map[string]bool{}}
	account := memory.Limited(1 << 20)
	return w, New(w, account), account
}

func (w *world) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) NewHolder() Holder {
	w.made, w.lives = w.made+1, w.lives+1
	return &fakeHolder{w: w, n: w.made}
}
func (w *world) Beside(h Holder)                  { w.beside = h }
func (w *world) Waits() func()                    { w.say("waits"); return func() { w.say("waits no more") } }
func (w *world) Deadlocked(err *kv.DeadlockError) { w.say("deadlocked") }
func (w *world) Taken()                           {}
func (w *world) TurnOff(reason string)            { w.say("no replay") }
func (w *world) Now() time.Time                   { return time.Unix(1, 0) }
func (w *world) Context() context.Context         { return context.Background() }

type fakeHolder struct {
	w *world
	n int
}

func name(l keys.AdvisoryLock, shared bool) string {
	if shared {
		return fmt.Sprint(l.ID, "s")
	}
	return fmt.Sprint(l.ID)
}

func (h *fakeHolder) ID() (id kv.TxnID) { id[0] = byte(h.n); return id }
func (h *fakeHolder) Lock(_ context.Context, l keys.AdvisoryLock, shared, try bool) error {
	if err := h.w.fails; err != nil {
		h.w.fails = nil
		return err
	}
	if h.w.taken[name(l, shared)] {
		return &kv.LockNotAvailableError{Timeout: !try}
	}
	if h.w.held[name(l, shared)] {
		panic("taken twice")
	}
	h.w.held[name(l, shared)] = true
	return nil
}
func (h *fakeHolder) Unlock(_ context.Context, l keys.AdvisoryLock, shared bool) {
	if !h.w.held[name(l, shared)] {
		panic("given back twice")
	}
	delete(h.w.held, name(l, shared))
}
func (h *fakeHolder) Close() { h.w.lives-- }

func lock(id uint64) keys.AdvisoryLock { return keys.AdvisoryLock{Sub: 1, ID: id} }

// has lists what holders have, for comparisons.
func (w *world) has() string {
	var out []string
	for n := range w.held {
		out = append(out, n)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestCounts plays short histories: which locks the session has after each step.
func TestCounts(t *testing.T) {
	for _, h := range []string{
		// Each word is a call; after the equals sign come the locks that the holder has then.
		"lock1=1 lock1=1 unlock1=1 settle=1 unlock1=1 settle=",
		"xact1=1 end=",
		"lock1=1 xact1=1 unlock1=1 settle=1 end=",
		"lock1=1 shared1=1,1s unlock1=1,1s settle=1s",
		"lock1=1 end=1 all=1 settle=",
		"xact1=1 all=1 settle=1 end=",
		// A savepoint: the transaction's level goes back, the session's stays.
		"mark=|xact1=1 lock2=1,2 undo=1,2 settle=2 end=2",
		// A statement that runs again: both levels go back, and its locks stay held for its next run.
		"mark= lock1=1 rewind=1 lock1=1 settle=1 end=1",
		// A transaction that runs again keeps its locks until it ends.
		"xact1=1 lock2=1,2 restart=1,2 settle=1,2 lock2=1,2 end=2",
		"lock1=1 end=1 unlock1=1 restart=1 settle=1 end=1",
	} {
		w, a, account := newWorld()
		mark := 0
		for _, step := range strings.Fields(strings.ReplaceAll(h, "|", " ")) {
			do, want, _ := strings.Cut(step, "=")
			var err error
			switch do {
			case "lock1":
				_, err = a.Lock(t.Context(), lock(1), Exclusive, true, false)
			case "lock2":
				_, err = a.Lock(t.Context(), lock(2), Exclusive, true, false)
			case "shared1":
				_, err = a.Lock(t.Context(), lock(1), Shared, true, false)
			case "xact1":
				_, err = a.Lock(t.Context(), lock(1), Exclusive, false, false)
			case "unlock1":
				if !a.Unlock(lock(1), Exclusive) {
					t.Errorf("%s: nothing to unlock", h)
				}
			case "all":
				a.UnlockAll()
			case "mark":
				mark = a.Mark()
			case "undo":
				a.Undo(mark, true)
			case "rewind":
				a.Undo(mark, false)
			case "restart":
				a.Restart()
			case "settle":
				a.Settle()
			case "end":
				a.End()
			default:
				t.Fatal(do)
			}
			if got := strings.ReplaceAll(w.has(), " ", ","); err != nil || got != want {
				t.Errorf("%s, at %s: %s %v", h, step, got, err)
				break
			}
		}
		if (len(w.held) == 0) != (account.Used() == 0) || (w.lives == 0) != (len(w.held) == 0) {
			t.Errorf("%s: the holder has %s, %d bytes are taken, %d holders live", h, w.has(), account.Used(), w.lives)
		}
		a.Close()
		if account.Used() != 0 || w.lives != 0 {
			t.Errorf("%s: %d bytes and %d holders are left", h, account.Used(), w.lives)
		}
	}
}

// TestNotGiven: a lock that could not be taken leaves nothing behind, whatever the reason.
func TestNotGiven(t *testing.T) {
	w, a, account := newWorld()
	w.taken["1"] = true
	ok, err := a.Lock(t.Context(), lock(1), Exclusive, true, true)
	if ok || err != nil || len(w.log) != 0 {
		t.Error("a try: ", ok, err, w.log)
	}
	var unavailable *kv.LockNotAvailableError
	if _, err := a.Lock(t.Context(), lock(1), Exclusive, true, false); !errors.As(err, &unavailable) || strings.Join(w.log, ", ") != "waits, waits no more" {
		t.Error("a wait that lasts too long: ", err, w.log)
	}
	w.log, w.fails = nil, &kv.DeadlockError{}
	if _, err := a.Lock(t.Context(), lock(1), Exclusive, true, false); err == nil || strings.Join(w.log, ", ") != "waits, no replay, deadlocked, waits no more" {
		t.Error("a deadlock: ", err, w.log)
	}
	if list, _ := a.List(); account.Used() != 0 || w.lives != 0 || w.beside != nil || len(list) != 0 || a.Counted() {
		t.Error(account.Used(), "bytes,", w.lives, "holders and", list, "are left")
	}
	if a.Unlock(lock(1), Exclusive) {
		t.Error("a lock that was not given is given back")
	}
	// Bounds: a session's memory, and the number of its locks.
	for _, room := range []int64{1 << 20, 1 << 30} {
		a := New(w, memory.Limited(room))
		n := 0
		for err = nil; err == nil && n <= Max; n++ {
			_, err = a.Lock(t.Context(), lock(uint64(room)+uint64(n)), Exclusive, true, true)
		}
		if full := n == Max+1; !sqlstate.Is(err, sqlstate.OutOfMemory) || full != (room == 1<<30) || n < 1000 {
			t.Errorf("%d locks in %d bytes: %v", n, room, err)
		}
	}
}

// TestNoReplay: a transaction that has released a lock, which others may have taken, can't be run again; one that still holds it can.
func TestNoReplay(t *testing.T) {
	w, a, _ := newWorld()
	for range 2 {
		a.Lock(t.Context(), lock(1), Exclusive, true, false)
	}
	w.log = nil
	if a.Unlock(lock(1), Exclusive); len(w.log) != 0 {
		t.Error("one of two counts: ", w.log)
	}
	if a.Unlock(lock(1), Exclusive); strings.Join(w.log, ", ") != "no replay" {
		t.Error("the last count: ", w.log)
	}
	w.log = nil
	if a.UnlockAll(); len(w.log) != 0 {
		t.Error("no locks: ", w.log)
	}
	a.Lock(t.Context(), lock(1), Shared, true, true)
	if a.UnlockAll(); strings.Join(w.log, ", ") != "no replay" {
		t.Error("all locks: ", w.log)
	}
}

// TestOthersSee: pg_locks shows a session's locks, and the session is found by its holder's transaction.
func TestOthersSee(t *testing.T) {
	w, a, _ := newWorld()
	if a.Holds(kv.TxnID{}) {
		t.Error("it holds the transaction that is none")
	}
	a.Lock(t.Context(), keys.AdvisoryLock{Database: 7, Sub: 2, ID: 3<<32 | 4}, Shared, true, false)
	list, id := a.List()
	if len(list) != 1 || list[0].Database != 7 || list[0].Class != 3 || list[0].Object != 4 || list[0].Sub != 2 || !list[0].Shared || !list[0].Granted {
		t.Error(list)
	}
	if !a.Holds(id) || id != a.holder.ID() || w.beside != a.holder {
		t.Error(id)
	}
	w.beside = nil
	if a.Begin(); w.beside != a.holder {
		t.Error("a transaction begins without the holder beside it")
	}
}

// TestCountsAgainstModel: after any sequence of locks, unlocks and undos the holder has the locks with a count when a transaction has ended.
func TestCountsAgainstModel(t *testing.T) {
	type key struct {
		id   uint64
		mode Mode
	}
	rapid.Check(t, func(t *rapid.T) {
		w, a, account := newWorld()
		session := map[key]int{} // at the session's level
		begun := map[key]int{}   // as the transaction began
		copyOf := func(m map[key]int) map[key]int {
			c := map[key]int{}
			for k, n := range m {
				c[k] = n
			}
			return c
		}
		mark, marked := a.Mark(), copyOf(session)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			k := key{uint64(rapid.IntRange(1, 3).Draw(t, "lock")), Mode(rapid.IntRange(0, 1).Draw(t, "mode"))}
			switch rapid.SampledFrom([]string{"session", "session", "xact", "unlock", "all", "settle", "mark", "undo", "rewind", "restart", "end"}).Draw(t, "do") {
			case "session":
				if _, err := a.Lock(t.Context(), lock(k.id), k.mode, true, false); err != nil {
					t.Fatal(err)
				}
				session[k]++
			case "xact":
				if _, err := a.Lock(t.Context(), lock(k.id), k.mode, false, false); err != nil {
					t.Fatal(err)
				}
			case "unlock":
				if a.Unlock(lock(k.id), k.mode) != (session[k] > 0) {
					t.Fatalf("%v is taken %d times", k, session[k])
				}
				session[k] = max(session[k]-1, 0)
			case "all":
				a.UnlockAll()
				clear(session)
			case "settle":
				a.Settle()
				marked = nil // a statement runs again before its end only
			case "mark":
				mark, marked = a.Mark(), copyOf(session)
			case "undo": // ROLLBACK TO
				a.Undo(mark, true)
			case "rewind":
				if marked == nil {
					continue
				}
				a.Undo(mark, false)
				session = copyOf(marked)
			case "restart":
				if slices.Contains(w.log, "no replay") {
					continue // a lock was given back, so the transaction can't run again
				}
				a.Restart()
				session = copyOf(begun)
				mark, marked = a.Mark(), copyOf(session)
			case "end":
				a.End()
				w.log = nil
				begun = copyOf(session)
				mark, marked = a.Mark(), copyOf(session)
				want := map[string]bool{}
				for k, n := range session {
					if n > 0 {
						want[name(lock(k.id), k.mode == Shared)] = true
					}
				}
				if fmt.Sprint(want) != fmt.Sprint(w.held) {
					t.Fatalf("the holder has %v, the session counts %v", w.held, want)
				}
				if (len(want) == 0) != (account.Used() == 0) || (len(want) == 0) != (w.lives == 0) {
					t.Fatalf("%d locks, %d bytes, %d holders", len(want), account.Used(), w.lives)
				}
			}
		}
	})
}
