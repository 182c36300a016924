package rangeserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"meridian/clock"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/closedts"
)

// TestClosed runs testdata/closed: what the replicas of one range on three nodes have closed. Lines of a command run:
//
//	put | wait 5s                  a write that is served; time passes
//	hold 1s | release              a write is in flight since then, that long in the past
//	transfer n2 | cut n3 | heal    the lease moves; n3 is cut off from the others, or all is well again
//	crash n1 | start n1
//	closed                         how far behind the present each replica's closed timestamp is, in whole seconds
//	read n3 4s                     whether n3 serves a read that far in the past without the lease
//
// Each command also checks that no replica's closed timestamp has gone back (closedts.CT4).
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := three(t)
		defer c.stop()
		s := &closedScript{t: t, c: c, last: map[*replica.Replica]clock.Timestamp{}}
		defer s.release()
		datadriven.RunTest(t, "testdata/closed", func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				if text := s.run(strings.Fields(line)); text != "" {
					fmt.Fprintf(&out, "%s: %s\n", line, text)
				}
				for _, n := range c.nodes {
					if r := s.replica(n); r != nil {
						now := r.ClosedTimestamp()
						if now.Less(s.last[r]) {
							fmt.Fprintf(&out, "%s: n%d goes back\n", line, n.id)
						}
						s.last[r] = now
					}
				}
			}
			if out.Len() == 0 {
				return "ok\n"
			}
			return out.String()
		})
	})
}

const closedRange kv.RangeID = 2

type closedScript struct {
	t    *testing.T
	c    *cluster
	last map[*replica.Replica]clock.Timestamp
	// held is a write in flight at a leaseholder.
	held *closedts.Tracker
	tok  closedts.Token
}

func (s *closedScript) replica(n *node) *replica.Replica {
	if !n.isUp() {
		return nil
	}
	return n.store.Replica(closedRange)
}

func (s *closedScript) release() {
	if s.held != nil {
		s.held.Untrack(s.tok)
	}
	s.held = nil
}

func (s *closedScript) run(f []string) string {
	node := func(i int) *node { return s.c.nodes[f[i][1]-'1'] }
	ago := func(i int) time.Duration {
		d, err := time.ParseDuration(f[i])
		check(s.t, err)
		return d
	}
	switch f[0] {
	case "put":
		check(s.t, s.c.put("a", "v"))
	case "wait":
		time.Sleep(ago(1))
	case "hold":
		n := s.c.leaseholder(closedRange)
		s.held = s.replica(n).Closer()
		var floor clock.Timestamp
		if s.tok, floor = s.held.Track(n.clock.Now().Add(-ago(1))); n.clock.Now().Add(-ago(1)).LessEq(floor) {
			return "moves above what is closed"
		}
	case "release":
		s.release()
	case "transfer":
		check(s.t, s.c.leaseholder(closedRange).store.TransferLease(context.Background(), closedRange, node(1).id))
	case "cut", "heal":
		for _, a := range s.c.nodes {
			for _, b := range s.c.nodes {
				if f[0] == "heal" {
					s.c.net.Heal(a.machine.Name, b.machine.Name)
				} else if a != b && (a == node(1) || b == node(1)) {
					s.c.net.Partition(a.machine.Name, b.machine.Name)
				}
			}
		}
	case "crash":
		node(1).crash(0)
	case "start":
		node(1).start(false)
	case "closed":
		var out []string
		for _, n := range s.c.nodes {
			if r := s.replica(n); r != nil {
				behind := time.Duration(n.clock.Now().Wall - r.ClosedTimestamp().Wall)
				text := fmt.Sprintf("n%d %d s", n.id, behind/time.Second)
				if l, good := r.Lease(); good && l.Holder.Node == n.id {
					text += " (leaseholder)"
				}
				out = append(out, text)
			}
		}
		return strings.Join(out, ", ")
	case "read":
		if _, _, ok := s.replica(node(1)).Follow(node(1).clock.Now().Add(-ago(2))); ok {
			return "served"
		}
		return "not closed"
	default:
		s.t.Fatalf("%q", f)
	}
	return ""
}
