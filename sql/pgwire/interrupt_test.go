package pgwire

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/host"
	"meridian/sim"
	"meridian/sql/sqlstate"
)

// TestLateAnswers: a cancelled statement that ends late tells its client how, and one whose client does not read ends.
func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{opts: Options{Host: &host.Host{Clock: sim.NewClock()}}}
		server, client := net.Pipe()
		c := newConn(s, server)
		got := make(chan string, 1)
		go func() {
			all, _ := io.ReadAll(client)
			got <- string(all)
		}()
		c.interrupt()
		time.Sleep(time.Minute)
		c.fail(sqlstate.New(sqlstate.QueryCanceled, "canceling statement due to user request"))
		if err := c.out.flush(); err != nil {
			t.Errorf("the answer can't be written a minute after the cancellation: %v", err)
		}
		server.Close()
		if all := <-got; !strings.Contains(all, "57014") {
			t.Errorf("the client received %q", all)
		}

		// A write that nobody takes, whether it began before the cancellation or after.
		for _, before := range []bool{true, false} {
			server, client := net.Pipe()
			c := newConn(s, server)
			began := time.Now()
			var took atomic.Int64
			write := func() {
				c.out.buf = append(c.out.buf, make([]byte, flushBytes)...)
				if c.out.flush() == nil {
					t.Error("a write that nobody takes ends well")
				}
				took.Store(int64(time.Since(began)))
			}
			if before {
				go write()
				synctest.Wait()
				c.interrupt()
			} else {
				c.interrupt()
				go write()
			}
			time.Sleep(time.Minute)
			if d := time.Duration(took.Load()); d != interruptedWrite {
				t.Errorf("a write that nobody takes ends after %v (begun before the cancellation: %v)", d, before)
			}
			client.Close()
			server.Close()
		}
	})
}
