package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"meridian/clock"
	"meridian/keys"
)

// TestScripts plays the situations of the paper's section 3 about one record, message by message: its acceptors, and each transaction's gateway with its master.
//
//	record replicas=N base=V                  a record with version 1, of that value
//	propose N [set=V|remove|add=D min=M]      transaction N proposes an update of version 1 (or seen=V), to all; nothing has arrived yet
//	deliver N to=(A, ...)                     the next message of N's gateway arrives at each of these acceptors, and its reply at the gateway
//	all N                                     all messages of N's gateway arrive, those that it sends because of them too
//	lose N to=(A, ...)                        the next message of N's gateway to each of these is lost
//	master N                                  N's gateway, or somebody who takes it for dead, begins a classic ballot
//	retry N                                   it tries again, with a later ballot
//
// Each command answers what the acceptors that got something have now, and all that has been learned.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var m *model
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "record" {
				var n int
				var base string
				d.ScanArgs(t, "replicas", &n)
				d.ScanArgs(t, "base", &base)
				m = newModel(n, base, nil, 0)
				return fmt.Sprintf("fast quorum %d, classic %d\n", m.q.Fast, m.q.Classic)
			}
			n, err := strconv.ParseInt(d.CmdArgs[0].Key, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if d.Cmd == "propose" {
				m.proposeFor(t, d, n)
				return ""
			}
			i := slices.IndexFunc(m.parts, func(p *part) bool { return p.option.At.Wall == n })
			return m.play(t, d, i)
		})
	})
}

func (m *model) proposeFor(t *testing.T, d *datadriven.TestData, n int64) {
	o := physical(n)
	for _, a := range d.CmdArgs[1:] {
		var v int64
		if len(a.Vals) > 0 {
			v, _ = strconv.ParseInt(a.Vals[0], 10, 64)
		}
		switch a.Key {
		case "set":
			o.Value = []byte(a.Vals[0])
		case "remove":
			o.Value = nil
		case "add":
			o.Value, o.Deltas = nil, []Delta{{Amount: v, Max: 1 << 40}}
		case "min":
			o.Deltas[0].Min = v
		case "seen":
			o.Seen.Base = clock.Timestamp{Wall: v}
		default:
			t.Fatalf("%s: argument %s", d.Pos, a.Key)
		}
	}
	o.Keys = []keys.Key{keys.Key(theKey)}
	m.options[o.Name] = &o
	p := &part{commit: NewCommit([]Option{o}, m.q), option: o, master: NewMaster(keys.Key(theKey), uint64(len(m.parts)+1), m.q, plain{}, 0)}
	m.parts = append(m.parts, p)
	m.toAll(len(m.parts)-1, p.commit.Request(0))
}

func (m *model) play(t *testing.T, d *datadriven.TestData, i int) string {
	var b strings.Builder
	var to []int
	var seen []arrival
	if d.HasArg("to") {
		for _, v := range d.CmdArgs[1].Vals {
			a, err := strconv.Atoi(v)
			if err != nil {
				t.Fatal(err)
			}
			to = append(to, a-1)
		}
	}
	next := func(a int) int {
		return slices.IndexFunc(m.sent, func(e envelope) bool { return e.from == i && (a < 0 || e.to == a) })
	}
	arrive := func(j int) {
		e := m.sent[j]
		m.deliver(j)
		name, now := messageName(e.q), described(m.acceptors[e.to].records[theKey])
		if n := len(seen); n > 0 && seen[n-1].name == name && seen[n-1].now == now {
			seen[n-1].at = append(seen[n-1].at, strconv.Itoa(e.to+1))
		} else {
			seen = append(seen, arrival{name, []string{strconv.Itoa(e.to + 1)}, now})
		}
	}
	for _, a := range to {
		switch j := next(a); {
		case j < 0:
			t.Fatalf("%s: there is no message to %d", d.Pos, a+1)
		case d.Cmd == "lose":
			m.sent = slices.Delete(m.sent, j, j+1)
		default:
			arrive(j)
		}
	}
	switch d.Cmd {
	case "all":
		for j := next(-1); j >= 0; j = next(-1) {
			arrive(j)
		}
	case "master":
		m.ask(i)
	case "retry":
		m.parts[i].master.Resume()
		m.drive(i)
	}
	for _, a := range seen {
		fmt.Fprintf(&b, "%s to %s: %s\n", a.name, strings.Join(a.at, ", "), a.now)
	}
	var learned []string
	for n, v := range m.learned {
		learned = append(learned, fmt.Sprintf("%d %s", n.At.Wall, v))
	}
	if slices.Sort(learned); len(learned) > 0 {
		fmt.Fprintf(&b, "learned: %s\n", strings.Join(learned, ", "))
	}
	if m.broken != "" {
		fmt.Fprintf(&b, "broken: %s\n", m.broken)
	}
	return b.String()
}

// arrival is a message that has left acceptors in the same state.
type arrival struct {
	name string
	at   []string
	now  string
}

func messageName(q *Request) string {
	switch q.Kind {
	case Propose:
		return "proposal"
	case Prepare:
		return "question"
	case Dictate:
		return "decision"
	case End:
		return "outcome"
	}
	return fmt.Sprint(q.Kind)
}

// described is a record in words.
func described(r *Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version %d is ", r.Base.At.Wall)
	if b.WriteString(string(r.Base.Data)); r.Base.Data == nil {
		b.WriteString("removed")
	}
	for _, a := range r.Added {
		fmt.Fprintf(&b, ", %d added %d", a.At.Wall, a.Deltas[0].Amount)
	}
	for _, v := range r.Votes {
		fmt.Fprintf(&b, "; %d %s", v.At.Wall, v.Verdict)
		if v.Fixed {
			b.WriteString(" by the master")
		}
	}
	if !r.Promised.Default() {
		fmt.Fprintf(&b, "; promised %s", ballotName(r.Promised))
	}
	return b.String()
}

func ballotName(x Ballot) string {
	if x.Fast {
		return fmt.Sprintf("ballot %d, open to all", x.Round)
	}
	return fmt.Sprintf("ballot %d", x.Round)
}
