package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"meridian/host"
)

// mono is a clock whose monotonic reading a test moves.
type mono struct {
	host.Clock
	now time.Duration
}

func (m *mono) Monotonic() time.Duration { return m.now }

// TestSawtooth: epsilon begins with what the source was told and grows by 200 µs in each second; the wall is the middle (clock.C5).
func TestSawtooth(t *testing.T) {
	m := &mono{now: 5 * time.Second}
	d := NewDisciplined(m)
	d.Set(m.now, span(1_000_000_000, 1_002_000_000))
	for s := range 31 {
		m.now = time.Duration(5+s) * time.Second
		wall, i := d.Read()
		if got, want := i.Epsilon(), time.Millisecond+time.Duration(s)*200*time.Microsecond; got != want {
			t.Errorf("after %d s: %s instead of %s", s, got, want)
		}
		if want := 1_001_000_000 + int64(s)*1e9; wall != want {
			t.Errorf("after %d s: the wall is %d instead of %d", s, wall, want)
		}
	}
	m.now = 0
	if _, i := d.Read(); i != span(1_000_000_000, 1_002_000_000) {
		t.Error("a reading from before the last one is not that of its moment", i)
	}
}

// TestDriftWithinTheBound: as long as the monotonic clock is within its bound, the interval has true time in it (clock.C5).
func TestDriftWithinTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &mono{}
		d, true0 := NewDisciplined(m), int64(1_000_000_000_000)
		before := rapid.Int64Range(0, 1e7).Draw(t, "before")
		after := rapid.Int64Range(0, 1e7).Draw(t, "after")
		d.Set(0, span(true0-before, true0+after))
		now := true0
		for range 20 {
			ppm := rapid.Int64Range(-199, 200).Draw(t, "ppm") // the bound is on the clock's own second, which is shorter than true time's if it is slow
			passed := rapid.Int64Range(0, 1e11).Draw(t, "passed") / 1e6 * 1e6
			now += passed
			m.now += time.Duration(passed + passed/1e6*ppm)
			if _, i := d.Read(); i.Earliest.Wall > now || i.Latest.Wall < now {
				t.Fatalf("%d is not in [%d, %d]", now, i.Earliest.Wall, i.Latest.Wall)
			}
		}
	})
}

// TestWall: the clock shows what its source shows, whatever it has heard.
func TestWall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mono{}
		d := NewDisciplined(m)
		d.Set(0, span(1_000, 3_000))
		c := NewFrom(d, m, 100*ms)
		if err := c.Update(Timestamp{Wall: int64(50 * ms)}); err != nil {
			t.Fatal(err)
		}
		if got := c.Wall().UnixNano(); got != 2_000 {
			t.Error("the wall is", got)
		}
		if c.Now().Wall != int64(50*ms) || c.TrueTime() != span(1_000, 3_000) {
			t.Error("the clock's timestamps or its true time are not what they have to be")
		}
	})
}

type real struct {
	host.Clock
	start time.Time
}

func (r real) Now() time.Time           { return time.Now() }
func (r real) Monotonic() time.Duration { return time.Since(r.start) }

// BenchmarkNow compares the sources on the path of each timestamp.
func BenchmarkNow(b *testing.B) {
	h := real{start: time.Now()}
	d := NewDisciplined(h)
	now := time.Now().UnixNano()
	d.Set(h.Monotonic(), span(now-1e6, now+1e6))
	for _, s := range []struct {
		name string
		Source
	}{{"system", System{h, time.Second}}, {"disciplined", d}} {
		b.Run(s.name, func(b *testing.B) {
			c := NewFrom(s.Source, h, time.Second)
			for b.Loop() {
				c.Now()
			}
		})
	}
}
