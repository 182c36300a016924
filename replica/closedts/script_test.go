package closedts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"meridian/clock"
	"meridian/kv"
)

// TestScripts runs testdata. Timestamps are small numbers, ranges r7, positions in a log r7@90, nodes n2. A line of a
// command run is one of
//
//	track w 20 | untrack w          a write of that name begins at a timestamp or later, and was applied or given up
//	lead 40 at 100                  the range leads from now on, by the clock's reading; lead 0 ends that
//	close 30 | raise 30             what the leaseholder wants to close; what was promised elsewhere
//	freeze | thaw                   promises end for the time being
//	advance 30 r7@90=n2,n3 -r9      the group closes 30; r7 is in it now, with replicas there, and r9 is not
//	tell n2 | lose n2 | deaf n2     the next message arrives; gets lost; arrives, and only the news of that gets lost
//	stale n2                        the message before the last one arrives again
//	ask n2 r7                       what n2 may believe
//
// The leaseholder of all ranges is n1.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{writes: map[string]Token{}, group: NewGroup(100), heard: map[kv.NodeID]*Heard{}, sent: map[kv.NodeID][]Update{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				fmt.Fprintf(&out, "%s: %s\n", line, s.run(t, strings.Fields(line)))
			}
			return out.String()
		})
	})
}

type script struct {
	tracker Tracker
	writes  map[string]Token
	group   *Group
	heard   map[kv.NodeID]*Heard
	sent    map[kv.NodeID][]Update
}

func (s *script) run(t *testing.T, f []string) string {
	number := func(v string) int64 {
		n, err := strconv.ParseInt(strings.TrimLeft(v, "rn-"), 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", f, err)
		}
		return n
	}
	show := func(ts clock.Timestamp) string {
		switch ts {
		case at(ts.Wall):
		case at(ts.Wall + 1).Prev():
			return fmt.Sprintf("all below %d", ts.Wall+1)
		default:
			return ts.String()
		}
		return fmt.Sprint(ts.Wall)
	}
	switch f[0] {
	case "track":
		tok, floor := s.tracker.Track(at(number(f[2])))
		s.writes[f[1]] = tok
		if w := at(number(f[2])); w.LessEq(floor) {
			return "moves above " + show(floor)
		}
		return "ok"
	case "lead":
		now := at(number(f[3]))
		s.tracker.Lead(time.Duration(number(f[1])), func() clock.Timestamp { return now })
		return fmt.Sprint("leads by ", int64(s.tracker.Leads()))
	case "untrack":
		s.tracker.Untrack(s.writes[f[1]])
		delete(s.writes, f[1])
		return fmt.Sprint(s.tracker.InFlight(), " in flight")
	case "close":
		return "closed " + show(s.tracker.Close(at(number(f[1]))))
	case "raise":
		s.tracker.Raise(at(number(f[1])))
		return "closed " + show(s.tracker.Closed())
	case "freeze", "thaw":
		return "closed " + show(s.tracker.Freeze(f[0] == "freeze"))
	case "advance":
		var changed []Member
		var left []kv.RangeID
		for _, a := range f[2:] {
			if a[0] == '-' {
				left = append(left, kv.RangeID(number(a)))
				continue
			}
			where, nodes, _ := strings.Cut(a, "=")
			r, index, _ := strings.Cut(where, "@")
			m := Member{Position: Position{Range: kv.RangeID(number(r)), Index: uint64(number(index))}}
			for _, n := range strings.Split(nodes, ",") {
				m.Peers = append(m.Peers, kv.NodeID(number(n)))
			}
			changed = append(changed, m)
		}
		if fresh := s.group.Advance([Policies]clock.Timestamp{at(number(f[1]))}, changed, left); len(fresh) > 0 {
			return fmt.Sprint("there are peers to be told: ", fresh)
		}
		return "ok"
	case "tell", "lose", "deaf":
		n := kv.NodeID(number(f[1]))
		u, ok := s.group.Next(n)
		if !ok {
			return "nothing to say"
		}
		s.sent[n] = append(s.sent[n], u)
		out := message(&u)
		if f[0] != "lose" {
			out += s.receive(n, u)
		}
		if f[0] != "tell" {
			s.group.Restart(n)
		}
		return out
	case "stale":
		n := kv.NodeID(number(f[1]))
		u := s.sent[n][len(s.sent[n])-2]
		return message(&u) + s.receive(n, u)
	case "ask":
		closed, index := s.listener(kv.NodeID(number(f[1]))).Closed(1, kv.RangeID(number(f[2])))
		if index == 0 {
			return "nothing"
		}
		return fmt.Sprintf("%s, once %d is applied", show(closed), index)
	}
	t.Fatalf("%q", f)
	return ""
}

func (s *script) listener(n kv.NodeID) *Heard {
	if s.heard[n] == nil {
		s.heard[n] = NewHeard()
	}
	return s.heard[n]
}

func (s *script) receive(n kv.NodeID, u Update) string {
	old, err := s.listener(n).Receive(1, &u)
	if err != nil {
		s.group.Restart(n)
		return "; refused, begins anew"
	}
	slices.SortFunc(old, func(a, b Promise) int { return int(a.Range) - int(b.Range) })
	out := ""
	for _, p := range old {
		out += fmt.Sprintf("; r%d@%d stays closed up to %d", p.Range, p.Index, p.Closed.Wall)
	}
	return out
}

// message shows an update: its number within its stream, what it closes, and what it says of ranges.
func message(u *Update) string {
	out := fmt.Sprintf("#%d closes %d", u.Seq, u.Closed[Lag].Wall)
	for _, p := range u.Changed {
		out += fmt.Sprintf(" r%d@%d", p.Range, p.Index)
	}
	for _, id := range u.Removed {
		out += fmt.Sprintf(" -r%d", id)
	}
	return out
}
