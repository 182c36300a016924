package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// bubble runs f in virtual time with machines us (us-east1), us2 (us-east1) and eu (europe-west1), 87 ms apart.
func bubble(t *testing.T, o NetworkOptions, f func(t *testing.T, n *Network)) {
	synctest.Test(t, func(t *testing.T) {
		o.Regions = ThreeRegions()
		n := NewNetwork(o)
		n.Node("us", "us-east1")
		n.Node("us2", "us-east1")
		n.Node("eu", "europe-west1")
		f(t, n)
	})
}

// pair connects us to eu and returns both ends.
func pair(t *testing.T, n *Network) (us, eu net.Conn) {
	t.Helper()
	l, err := n.Node("eu", "").Listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	us, err = n.Node("us", "").Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	eu, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return us, eu
}

func took(t *testing.T, want time.Duration, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if d := time.Since(start); d != want {
		t.Errorf("%s took %s, want %s", what, d, want)
	}
}

func mustRead(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v; want %q", b, err, want)
	}
}

const ms = time.Millisecond

func TestDelayIsHalfTheRoundTrip(t *testing.T) {
	bubble(t, NetworkOptions{}, func(t *testing.T, n *Network) {
		var us, eu net.Conn
		took(t, 87*ms, "dial", func() { us, eu = pair(t, n) })
		took(t, 43500*time.Microsecond, "one way", func() {
			us.Write([]byte("ping"))
			mustRead(t, eu, "ping")
		})
		took(t, 43500*time.Microsecond, "the other", func() {
			eu.Write([]byte("pong"))
			mustRead(t, us, "pong")
		})
		// The end of the stream travels as bytes do, behind them.
		took(t, 43500*time.Microsecond, "close", func() {
			us.Write([]byte("bye"))
			us.Close()
			mustRead(t, eu, "bye")
			if _, err := eu.Read(make([]byte, 1)); err != io.EOF {
				t.Error(err)
			}
		})
		if _, err := eu.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
		if s := n.Stats("us", "eu"); s.Bytes != 7 {
			t.Errorf("carried %d bytes", s.Bytes)
		}
	})
}

func TestDialRefusedAndUnknown(t *testing.T) {
	bubble(t, NetworkOptions{}, func(t *testing.T, n *Network) {
		us := n.Node("us", "")
		took(t, 87*ms, "refusal", func() {
			if _, err := us.Dial(t.Context(), "eu:1"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Error(err)
			}
		})
		if _, err := us.Dial(t.Context(), "mars:1"); !errors.Is(err, errNoHost) {
			t.Error(err)
		}
		l, _ := us.Listen(":7")
		defer l.Close()
		if _, err := us.Listen("us:7"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Error(err)
		}
	})
}

func TestPartitionStallsAndHealDelivers(t *testing.T) {
	bubble(t, NetworkOptions{}, func(t *testing.T, n *Network) {
		us, eu := pair(t, n)
		us.Write([]byte("before"))
		n.PartitionOneWay("us", "eu")
		us.Write([]byte(" during"))
		// The other direction is open.
		eu.Write([]byte("hi"))
		mustRead(t, us, "hi")
		eu.SetReadDeadline(time.Now().Add(time.Hour))
		took(t, time.Hour, "nothing for an hour", func() {
			if _, err := eu.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		})
		eu.SetReadDeadline(time.Time{})
		// A dial waits as well, and goes through when the link heals.
		l, _ := n.Node("eu", "").Listen(":0")
		defer l.Close()
		dialed := make(chan time.Duration)
		start := time.Now()
		go func() {
			_, err := n.Node("us", "").Dial(context.Background(), l.Addr().String())
			if err != nil {
				t.Error(err)
			}
			dialed <- time.Since(start)
		}()
		time.Sleep(time.Minute)
		n.Heal("us", "eu")
		took(t, 43500*time.Microsecond, "delivery after heal", func() { mustRead(t, eu, "before during") })
		if d := <-dialed; d != time.Minute+87*ms {
			t.Errorf("dial took %s", d)
		}
	})
}

func TestKillResetsAndPowerLossIsSilent(t *testing.T) {
	bubble(t, NetworkOptions{}, func(t *testing.T, n *Network) {
		us, _ := pair(t, n)
		old := n.Node("eu", "")
		n.Kill("eu")
		took(t, 43500*time.Microsecond, "reset", func() {
			if _, err := us.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Error(err)
			}
		})
		if _, err := old.Dial(t.Context(), "us:1"); !errors.Is(err, errDead) {
			t.Error("a killed process dialled:", err)
		}

		us, _ = pair(t, n)
		n.PowerOff("eu")
		time.Sleep(time.Second)
		if _, err := us.Write([]byte("anybody?")); err != nil {
			t.Error("told of a power loss:", err)
		}
		us.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := us.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		us.SetReadDeadline(time.Time{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Node("us", "").Dial(ctx, "eu:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		n.PowerOn("eu")
		if _, err := us.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
}

func TestResetAndSlow(t *testing.T) {
	bubble(t, NetworkOptions{}, func(t *testing.T, n *Network) {
		us, eu := pair(t, n)
		n.Slow("us", "eu", time.Second)
		took(t, time.Second+43500*time.Microsecond, "slow", func() {
			us.Write([]byte("x"))
			mustRead(t, eu, "x")
		})
		n.Reset("us", "eu")
		for _, c := range []net.Conn{us, eu} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Error(err)
			}
		}
	})
}

// TestSetRTT: bytes that leave after the change take half of the new round trip, and HealAll brings the first one back.
func TestSetRTT(t *testing.T) {
	bubble(t, NetworkOptions{}, func(t *testing.T, n *Network) {
		us, eu := pair(t, n)
		there := func(want time.Duration, what string) {
			took(t, want, what, func() {
				us.Write([]byte("x"))
				mustRead(t, eu, "x")
			})
		}
		n.SetRTT("us-east1", "europe-west1", 20*time.Millisecond)
		there(10*time.Millisecond, "nearer")
		n.SetRTT("us-east1", "europe-west1", 200*time.Millisecond)
		there(100*time.Millisecond, "farther")
		n.HealAll()
		there(43500*time.Microsecond, "as at first")
		n.Partition("us", "eu")
		if !n.Cut("us", "eu") || !n.Cut("eu", "us") || n.Cut("us", "us") {
			t.Error("a cut is not seen")
		}
	})
}

// sim.N6: an end that learned from a write that the connection is gone need not wait for a read to say so.
func TestResetSeenByWriter(t *testing.T) {
	bubble(t, NetworkOptions{}, func(t *testing.T, n *Network) {
		us, eu := pair(t, n)
		for name, end := range map[string]func(){"reset": func() { n.Reset("us", "eu") }, "closed": func() {
			us, eu = pair(t, n)
			n.Slow("eu", "us", time.Minute)
			eu.Write(make([]byte, 100)) // under way for long, and the end of the stream behind it
			n.Slow("eu", "us", 0)
			eu.Close()
			time.Sleep(time.Second)
		}} {
			end()
			if _, err := us.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("%s: %v", name, err)
			}
			took(t, 0, name, func() {
				if _, err := us.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	})
}

func TestBandwidthAndWindow(t *testing.T) {
	bubble(t, NetworkOptions{BytesPerSecond: 1 << 20, WindowBytes: 1 << 20}, func(t *testing.T, n *Network) {
		us, eu := pair(t, n)
		go func() {
			us.Write(make([]byte, 4<<20))
			us.Close()
		}()
		took(t, 4*time.Second+43500*time.Microsecond, "4 MiB at 1 MiB/s", func() {
			if m, err := io.Copy(io.Discard, eu); m != 4<<20 || err != nil {
				t.Error(m, err)
			}
		})
		// A reader that does not read stops the writer after a window (sim.N5).
		us, eu = pair(t, n)
		us.SetWriteDeadline(time.Now().Add(time.Minute))
		m, err := us.Write(make([]byte, 4<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) || m < 1<<20 || m > 1<<20+pieceBytes {
			t.Error(m, err)
		}
		eu.Close()
	})
}

func TestCloseWakesReaderAndListener(t *testing.T) {
	bubble(t, NetworkOptions{}, func(t *testing.T, n *Network) {
		us, _ := pair(t, n)
		l, _ := n.Node("us", "").Listen(":0")
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := us.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
		synctest.Wait()
		us.Close()
		l.Close()
		wg.Wait()
	})
}

// With any writes, reads and faults that do not break a connection, the bytes arrive in order and complete (sim.N1).
func TestBytesSurviveStallsAndJitter(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 300<<10), 1, 20).Draw(r, "sizes")
		seed := rapid.Uint64().Draw(r, "seed")
		bubble(t, NetworkOptions{Jitter: 50 * ms, Seed: seed, WindowBytes: 256 << 10}, func(t *testing.T, n *Network) {
			us, eu := pair(t, n)
			var sent bytes.Buffer
			dice := NewDice(seed, "test")
			go func() {
				for i, size := range sizes {
					b := make([]byte, size)
					dice.Read(b)
					sent.Write(b)
					if i%3 == 1 {
						n.Partition("us", "eu")
						time.AfterFunc(time.Duration(i)*ms*70, func() { n.Heal("us", "eu") })
					}
					us.Write(b)
				}
				us.Close()
			}()
			got, err := io.ReadAll(eu)
			if err != nil || !bytes.Equal(got, sent.Bytes()) {
				t.Fatalf("sent %d bytes, got %d: %v", sent.Len(), len(got), err)
			}
			eu.Close()
		})
	})
}

// In real time, as `meridian demo` uses it.
func BenchmarkRoundTrip(b *testing.B) {
	n := NewNetwork(NetworkOptions{})
	a, z := n.Node("a", ""), n.Node("z", "")
	l, _ := z.Listen(":1")
	go func() {
		c, err := l.Accept()
		if err == nil {
			io.Copy(c, c)
		}
	}()
	c, err := a.Dial(b.Context(), "z:1")
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		c.Write(buf)
		io.ReadFull(c, buf)
	}
	c.Close()
	l.Close()
}

func BenchmarkThroughput(b *testing.B) {
	n := NewNetwork(NetworkOptions{LocalRTT: 20 * ms})
	a, z := n.Node("a", ""), n.Node("z", "")
	l, _ := z.Listen(":1")
	go func() {
		c, err := l.Accept()
		if err == nil {
			io.Copy(io.Discard, struct{ io.Reader }{c})
		}
	}()
	c, err := a.Dial(b.Context(), "z:1")
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 32<<10)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		c.Write(buf)
	}
	c.Close()
	l.Close()
}
