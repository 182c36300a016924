package sim

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/host"
)

func TestClockOffsetDriftAndJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		if c.Error() != 0 {
			t.Fatal(c.Error())
		}
		c.SetOffset(200 * ms)
		c.SetOffset(300 * ms)
		c.Jump(-50 * ms)
		if c.Error() != 250*ms {
			t.Fatal(c.Error())
		}
		c.SetOffset(0)
		c.SetDrift(1000) // one millisecond per second
		m := c.Monotonic()
		time.Sleep(10 * time.Second)
		if e := c.Error(); e.Round(time.Microsecond) != 10*ms {
			t.Fatal(e)
		}
		if d := c.Monotonic() - m; d.Round(time.Microsecond) != 10*time.Second+10*ms {
			t.Fatal(d)
		}
		// A fast clock's second is short.
		start := time.Now()
		c.Sleep(t.Context(), 1001*ms)
		if d := time.Since(start); d.Round(time.Microsecond) != time.Second {
			t.Fatal(d)
		}
		start = time.Now()
		<-c.NewTimer(1001 * ms).C()
		if d := time.Since(start); d.Round(time.Microsecond) != time.Second {
			t.Fatal(d)
		}
		start = time.Now()
		ctx, cancel := c.WithTimeout(t.Context(), 1001*ms)
		<-ctx.Done()
		cancel()
		if d := time.Since(start); d.Round(time.Microsecond) != time.Second || ctx.Err() != context.DeadlineExceeded {
			t.Fatal(d, ctx.Err())
		}
		// A loop that waits for a reading gets there, nanosecond by nanosecond.
		for due := c.Monotonic() + time.Second; c.Monotonic() < due; {
			start := time.Now()
			<-c.NewTimer(due - c.Monotonic()).C()
			if time.Since(start) == 0 {
				t.Fatal("a timer that takes no time")
			}
		}
		c.SetDrift(0)
		if e := c.Error(); e < 10*ms || e > 15*ms {
			t.Fatal("drift gained so far is lost:", e)
		}
	})
}

func TestDiceRepeatPerSeedAndName(t *testing.T) {
	a, b, c, d := NewDice(1, "n1"), NewDice(1, "n1"), NewDice(1, "n2"), NewDice(2, "n1")
	x := a.Uint64()
	if x != b.Uint64() || x == c.Uint64() || x == d.Uint64() {
		t.Fatal("dice")
	}
}

func TestRegions(t *testing.T) {
	r := FiveRegions()
	for _, c := range []struct {
		a, b string
		want time.Duration
	}{
		{"us-east1", "us-west1", 63 * ms},
		{"europe-west1", "us-east1", 87 * ms},
		{"us-west1", "asia-northeast1", 90 * ms},
		{"europe-west1", "australia-southeast1", 274 * ms},
		{"australia-southeast1", "asia-northeast1", 113 * ms},
		{"us-east1", "us-east1", 0},
	} {
		if got := r.RTT(c.a, c.b); got != c.want {
			t.Errorf("%s-%s: %s, want %s", c.a, c.b, got, c.want)
		}
	}
	if _, err := NewRegions([]string{"a", "b", "c"}, 1, 2); err == nil {
		t.Error("two round trips for three regions")
	}
	if _, err := NewRegions([]string{"a", "a"}, 1); err == nil {
		t.Error("one region twice")
	}
	if r.WithoutLatency().RTT("us-east1", "us-west1") != 0 {
		t.Error("latency")
	}
}

func write(t *testing.T, fs vfs.FS, name, text string, sync bool) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if sync {
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		dir, err := fs.OpenDir("")
		if err != nil {
			t.Fatal(err)
		}
		dir.Sync()
	}
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := NewMachine(MachineOptions{Name: "n1", Network: NewNetwork(NetworkOptions{})})
	h := m.Boot(t.Context())
	write(t, h.FS, "synced", "1", true)
	write(t, h.FS, "lost", "2", false)
	m.Crash(0, false)
	write(t, h.FS, "ghost", "3", true) // the dead incarnation does not know yet
	h2 := m.Boot(t.Context())
	if names, err := h2.FS.List(""); err != nil || len(names) != 1 || names[0] != "synced" {
		t.Fatal(names, err)
	}
	f, err := h2.FS.Open("synced")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); string(b) != "1" || err != nil {
		t.Fatal(string(b), err)
	}
	h.Group.Stop()
	h2.Group.Stop()
}

// TestSlowDisk: one sync takes place at a time, and serves all requests made before it began; a crash ends all waits.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk(1)
		slow := d.FS().(host.SlowDisk)
		if slow.BeginSync() != nil {
			t.Error("a fast disk makes one wait")
		}
		d.SetSyncDelay(time.Second)
		wait := slow.BeginSync()
		time.Sleep(300 * time.Millisecond)
		next, same := slow.BeginSync(), slow.BeginSync()
		took(t, 700*time.Millisecond, "sync that began at once", wait)
		took(t, time.Second, "sync that had to wait for another", next)
		took(t, 0, "sync of the same lot", same)
		wait = slow.BeginSync()
		took(t, time.Second, "sync of an idle disk", wait)
		slow.BeginSync()
		d.SetSyncDelay(0)
		took(t, time.Second, "fast sync after a slow one", slow.BeginSync())
		if slow.BeginSync() != nil {
			t.Error("a disk that is fast again makes one wait")
		}
		d.SetSyncDelay(time.Hour)
		wait = slow.BeginSync()
		time.AfterFunc(time.Minute, func() { d.Crash(0) })
		took(t, time.Minute, "sync of a machine that crashes", wait)
		took(t, time.Hour, "sync after the crash", d.FS().(host.SlowDisk).BeginSync())
	})
}

func TestDiskFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk(1)
		fs := d.FS()
		f, err := fs.Create("f.log", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		d.SetSyncError(true)
		if err := f.SyncData(); !errors.Is(err, ErrDisk) {
			t.Error(err)
		}
		d.SetFull(true)
		if _, err := f.Write([]byte("x")); !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
		if u, _ := fs.GetDiskUsage(""); u.AvailBytes != 0 {
			t.Error(u)
		}
		d.SetFull(false)
		d.SetReadError(true)
		if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrDisk) {
			t.Error(err)
		}
		if d.Syncs() != 1 {
			t.Error(d.Syncs())
		}
	})
}
