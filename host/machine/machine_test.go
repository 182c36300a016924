package machine

import (
	"context"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"meridian/host"
)

func TestClockOffsetMovesWallReadingsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(300 * time.Millisecond)
		if d := time.Until(c.Now()); d != 300*time.Millisecond {
			t.Fatalf("offset %s", d)
		}
		m := c.Monotonic()
		if err := c.Sleep(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if d := c.Monotonic() - m; d != time.Second {
			t.Fatalf("slept %s", d)
		}
		<-c.NewTimer(time.Second).C()
		if d := c.Monotonic() - m; d != 2*time.Second {
			t.Fatalf("slept %s", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Sleep(ctx, time.Hour); err != context.Canceled {
			t.Fatal(err)
		}
	})
}

func TestDice(t *testing.T) {
	d := NewDice()
	seen := map[uint64]bool{}
	var count [3]int
	for range 3000 {
		seen[d.Uint64()] = true
		count[d.Int64N(3)]++
		if f := d.Float64(); f < 0 || f >= 1 {
			t.Fatal(f)
		}
	}
	if len(seen) != 3000 {
		t.Fatal("repeated values")
	}
	for i, n := range count {
		if n < 800 || n > 1200 {
			t.Errorf("face %d: %d of 3000", i, n)
		}
	}
	for _, n := range []int{1, 8, 33} {
		p := make([]byte, n)
		if got, err := d.Read(p); got != n || err != nil {
			t.Fatal(got, err)
		}
	}
}

func TestNetworkCarriesBytes(t *testing.T) {
	h := New(t.Context(), Options{})
	defer h.Group.Stop()
	l, err := h.Network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h.Group.Go(func(context.Context) {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c)
	})
	c, err := h.Network.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("hello"))
	b := make([]byte, 5)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
		t.Fatal(string(b), err)
	}
}

// TestHungUp: a connection tells whether the other end has closed it, also while what it has sent has not been read.
func TestHungUp(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can tell")
	}
	h := New(t.Context(), Options{})
	l, err := h.Network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accept := func() (ours host.Hanger, theirs *net.TCPConn) {
		t.Helper()
		there, err := h.Network.Dial(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		here, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { here.Close(); there.Close() })
		return here.(host.Hanger), there.(*net.TCPConn)
	}
	for name, end := range map[string]func(c *net.TCPConn){
		"closed":      func(c *net.TCPConn) { c.Close() },
		"half closed": func(c *net.TCPConn) { c.CloseWrite() },
		"reset":       func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
	} {
		ours, theirs := accept()
		if _, err := theirs.Write([]byte("not read")); err != nil {
			t.Fatal(err)
		}
		if ours.HungUp() {
			t.Errorf("%s: gone before it went", name)
		}
		end(theirs)
		for range 1000 { // the loopback device may take a moment
			if ours.HungUp() {
				break
			}
			runtime.Gosched()
		}
		if !ours.HungUp() {
			t.Errorf("%s: not noticed", name)
		}
	}
	ours, _ := accept()
	ours.(net.Conn).Close()
	if !ours.HungUp() {
		t.Error("closed here: not noticed")
	}
}
