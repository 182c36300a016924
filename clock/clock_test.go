package clock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/host"
)

const ms = time.Millisecond

// wall is a host's clock that shows what a test says, and sleeps in virtual time.
type wall struct {
	host.Clock
	ahead time.Duration
}

func (w *wall) Now() time.Time { return time.Now().Add(w.ahead) }

func (w *wall) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestInterval: what one clock says of the present holds for every other one that is within the offset.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(&wall{}, 100*ms)
		i := a.Interval()
		for _, d := range []time.Duration{-100 * ms, -1, 0, 1, 100 * ms} {
			at := FromTime((&wall{ahead: d}).Now())
			if i.After(at) || i.Before(at) {
				t.Errorf("a clock that is %s ahead is outside of the interval", d)
			}
		}
		if early := FromTime(time.Now().Add(-100*ms - 1)); !i.After(early) || i.Before(early) {
			t.Error("what every clock has passed is not in the past")
		}
		if late := FromTime(time.Now().Add(100*ms + 1)); i.After(late) || !i.Before(late) {
			t.Error("what no clock has got to is not in the future")
		}
	})
}

// TestRead: a reading is issued once and lies in its interval, also on a node whose clock is behind those that it hears.
func TestRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast, slow := New(&wall{ahead: 100 * ms}, 100*ms), New(&wall{}, 100*ms)
		if err := slow.Update(fast.Now()); err != nil {
			t.Fatal(err)
		}
		last := Timestamp{}
		for range 3 {
			r := slow.Read()
			if !last.Less(r.Now) || r.Latest.Less(r.Now) || r.Now.Less(r.Earliest) {
				t.Fatalf("%s after %s, in [%s, %s]", r.Now, last, r.Earliest, r.Latest)
			}
			last = r.Now
		}
		if !last.Less(slow.Now()) {
			t.Fatal("a timestamp is issued twice (clock.C1)")
		}
		var offset *OffsetError
		if err := slow.Update(FromTime(time.Now().Add(101 * ms))); !errors.As(err, &offset) {
			t.Fatal("a reading too far ahead is taken (clock.C3)", err)
		}
	})
}
