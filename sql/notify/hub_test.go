package notify_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/sim"
	"meridian/sql/notify"
)

// cluster is hubs that talk to each other. lose has the answer to a message lost, cut the message itself.
type cluster struct {
	hubs []*notify.Hub
	lose func() bool
	cut  atomic.Bool
}

func newCluster(t *testing.T, nodes int, o notify.Options) *cluster {
	c := &cluster{lose: func() bool { return false }}
	network := sim.NewNetwork(sim.NetworkOptions{})
	for i := range nodes {
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: fmt.Sprint("n", i+1), Network: network, Seed: uint64(i), Log: slog.New(slog.DiscardHandler)})
		t.Cleanup(h.Group.Stop)
		own := o
		own.Host = h
		own.Peers = func() (peers []kv.NodeID) {
			for j := range nodes {
				if j != i {
					peers = append(peers, kv.NodeID(j+1))
				}
			}
			return peers
		}
		own.Send = func(ctx context.Context, to kv.NodeID, m []byte) error {
			if err := h.Clock.Sleep(ctx, 10*time.Millisecond); err != nil {
				return err
			}
			if c.cut.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			if err := c.hubs[to-1].Receive(kv.NodeID(i+1), m); err != nil {
				return err
			}
			if c.lose() {
				return errors.New("the answer is lost")
			}
			return nil
		}
		c.hubs = append(c.hubs, notify.New(own))
	}
	return c
}

func nothing() {}

func payloads(l *notify.Listener) string {
	var all []string
	for _, n := range l.Take() {
		all = append(all, n.Payload)
	}
	return strings.Join(all, " ")
}

func one(payload string) []notify.Notification {
	return []notify.Notification{{Process: 1, Channel: "c", Payload: payload}}
}

// Messages whose answers are lost are sent again, and taken once, in order (notify.NT2, notify.NT3).
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, notify.Options{})
		var n atomic.Int64 // messages to two nodes leave at once
		c.lose = func() bool { return n.Add(1)%3 != 0 }
		l := c.hubs[1].NewListener("db", nothing, nothing)
		l.Listen("c")
		other := c.hubs[1].NewListener("other", nothing, nothing)
		other.Listen("c")
		var want []string
		for i := range 40 {
			c.hubs[0].Publish("db", one(fmt.Sprint(i)))
			want = append(want, fmt.Sprint(i))
			time.Sleep(3 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		if got := payloads(l); got != strings.Join(want, " ") {
			t.Errorf("heard %s", got)
		}
		if got := payloads(other); got != "" {
			t.Errorf("a listener in another database heard %s", got)
		}
		if n.Load() == 0 {
			t.Error("no answer was lost")
		}
	})
}

// While a node does not answer, what waits for it is bounded, and NOTIFY is told; after RetainFor it is dropped, and the node hears
// what comes later (notify.NT3, notify.NT4).
func TestSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, notify.Options{OutboxBytes: 4000})
		l := c.hubs[1].NewListener("db", nothing, nothing)
		l.Listen("c")
		c.cut.Store(true)
		full := 0
		for i := range 60 {
			if err := c.hubs[0].Room(); err != nil {
				full++
				continue
			}
			c.hubs[0].Publish("db", one(fmt.Sprint(i)+strings.Repeat(" ", 100)))
		}
		if full < 20 || full > 55 {
			t.Errorf("there was no room for %d of 60", full)
		}
		time.Sleep(time.Minute)
		c.cut.Store(false)
		if err := c.hubs[0].Room(); err != nil {
			t.Error("no room after a minute")
		}
		c.hubs[0].Publish("db", one("later"))
		time.Sleep(time.Second)
		if got := payloads(l); got != "later" {
			t.Errorf("heard %q", got)
		}
	})
}

// A node that starts again numbers anew, and is heard.
func TestStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, notify.Options{})
		l := c.hubs[1].NewListener("db", nothing, nothing)
		l.Listen("c")
		for range 3 {
			c.hubs[0].Publish("db", one("x"))
		}
		time.Sleep(time.Second)
		again := sim.NewHost(context.Background(), sim.MachineOptions{Name: "n1", Network: sim.NewNetwork(sim.NetworkOptions{}), Seed: 99})
		defer again.Group.Stop()
		h := notify.New(notify.Options{Host: again, Peers: func() []kv.NodeID { return []kv.NodeID{2} },
			Send: func(_ context.Context, _ kv.NodeID, m []byte) error { return c.hubs[1].Receive(1, m) }})
		h.Publish("db", one("y"))
		time.Sleep(time.Second)
		if got := payloads(l); got != "x x x y" {
			t.Errorf("heard %q", got)
		}
	})
}

// A listener that takes nothing is told once that it has overflowed, and others are not disturbed (notify.NT4).
func TestOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, notify.Options{ListenerBytes: 1000})
		overflows, rings := 0, 0
		slow := c.hubs[0].NewListener("db", nothing, func() { overflows++ })
		slow.Listen("c")
		quick := c.hubs[0].NewListener("db", func() { rings++ }, func() { t.Error("the one that takes them has overflowed") })
		quick.Listen("c")
		for i := range 100 {
			c.hubs[0].Publish("db", one(fmt.Sprint(i)))
			if got := payloads(quick); got != fmt.Sprint(i) {
				t.Fatalf("heard %q, want %d", got, i)
			}
		}
		if overflows != 1 || rings != 100 || slow.Pending() {
			t.Errorf("%d overflows, %d rings, pending %v", overflows, rings, slow.Pending())
		}
		slow.UnlistenAll()
		quick.Unlisten("c")
		if len(slow.Channels())+len(quick.Channels()) != 0 {
			t.Error("they still listen")
		}
		c.hubs[0].Publish("db", one("z"))
		if quick.Pending() {
			t.Error("heard after UNLISTEN")
		}
	})
}
