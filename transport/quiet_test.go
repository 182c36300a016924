package transport_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"meridian/kv"
	"meridian/transport"
)

// TestQuiet: a call to a node that fell silent ends as soon as its caller has found out that waiting has no purpose, or at once if any node could answer it, and otherwise when the
// link is lost (transport.T12).
func TestQuiet(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		n1 := c.nodes[1]
		entered := make(chan struct{}, 8)
		c.nodes[3].Handle("wait", func(ctx context.Context, _ kv.NodeID, _ []byte) ([]byte, error) {
			entered <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		n1.echo(t, 3)
		n1.echo(t, 3)
		over := errors.New("over")
		type ended struct {
			what string
			err  error
			at   time.Time
		}
		results := make(chan ended, 3)
		asked := make(chan struct{}, 1)
		call := func(what string, ctx context.Context) {
			go func() {
				_, err := n1.Call(ctx, 3, "wait", nil)
				results <- ended{what, err, time.Now()}
			}()
			<-entered
		}
		call("elsewhere", transport.Elsewhere(t.Context()))
		call("asks", transport.WhenQuiet(t.Context(), func(ctx context.Context) error {
			asked <- struct{}{}
			time.Sleep(300 * ms)
			return over
		}))
		call("waits", t.Context())
		time.Sleep(5 * time.Second) // the node is there: a call that takes long is not given up
		if len(asked) != 0 || len(results) != 0 {
			t.Error("a node that answers pings was taken for silent")
		}
		start := time.Now()
		c.net.Isolate("n3")
		got := map[string]ended{}
		for range 3 {
			r := <-results
			got[r.what] = r
			t.Logf("%s: %v after %v", r.what, r.err, r.at.Sub(start))
			var u *transport.UnreachableError
			if !errors.As(r.err, &u) || !u.Sent {
				t.Errorf("%s: %v", r.what, r.err)
			}
		}
		// 0.2 s of silence after the last answer, a ping, 0.25 s and five fourths of the round trip; the monitor looks 16 times a second.
		const quiet, tick = 200*ms + 250*ms + 87*ms*5/4, 500 * ms / 8
		for what, want := range map[string]time.Duration{"elsewhere": quiet, "asks": quiet + 300*ms, "waits": 2 * time.Second} {
			if d := got[what].at.Sub(start); d < want-200*ms || d > want+2*tick {
				t.Errorf("%s: ended after %v, want about %v", what, d, want)
			}
		}
		if !errors.Is(got["asks"].err, over) {
			t.Errorf("the reason is lost: %v", got["asks"].err)
		}
	})
}

// TestQuietCalls: while a link is quiet, a call that any node could answer is refused before it is sent; when answers come again all is as before.
func TestQuietCalls(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		n1 := c.nodes[1]
		n1.echo(t, 3)
		n1.echo(t, 3)
		c.net.Isolate("n3")
		waiting := make(chan error, 1)
		go func() {
			_, err := n1.Call(t.Context(), 3, "echo", nil)
			waiting <- err
		}()
		time.Sleep(time.Second)
		var u *transport.UnreachableError
		took(t, 0, "a call that any node could answer", func() {
			if _, err := n1.Call(transport.Elsewhere(t.Context()), 3, "echo", nil); !errors.As(err, &u) || u.Sent {
				t.Error(err)
			}
		})
		c.net.Rejoin("n3")
		if err := <-waiting; err != nil {
			t.Errorf("the call that waited: %v", err)
		}
		time.Sleep(200 * ms)
		if _, err := n1.Call(transport.Elsewhere(t.Context()), 3, "echo", nil); err != nil {
			t.Errorf("after the silence: %v", err)
		}
	})
}

// TestStarvedWatch: a node that was not running for a while, and finds then that an answer to its ping is overdue, gives the answer the time that was missing (transport.T13).
func TestStarvedWatch(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		n1 := c.nodes[1]
		n1.echo(t, 3)
		n1.echo(t, 3)
		c.net.Isolate("n1")
		time.Sleep(900 * ms) // a ping is on its way
		// Now n1 does not run: its clock stands, and goes on three seconds later.
		n1.machine.Clock.Freeze()
		time.Sleep(3 * time.Second)
		c.net.Rejoin("n1")
		n1.machine.Clock.Thaw()
		time.Sleep(time.Second)
		if s := n1.Stats(); s.LinkFailures != 0 {
			t.Errorf("%d links were given up", s.LinkFailures)
		}
	})
}
