package register

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"

	"github.com/cockroachdb/datadriven"
)

// stage is what a script plays on: a few acceptors, and operations whose messages go where the script says.
type stage struct {
	acceptors []*Acceptor
	base      map[string]Register
	ops       map[string]*Operation
	stamper   *Stamper
	call      uint64
	// generation begins anew with reports.
	generation uint64
}

// TestScripts: see the heads of the files in testdata.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &stage{base: map[string]Register{}, ops: map[string]*Operation{}, stamper: &Stamper{writer: 7}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.command(t, d)
		})
	})
}

func (s *stage) command(t *testing.T, d *datadriven.TestData) string {
	arg := func(name string) (v string) {
		d.MaybeScanArgs(t, name, &v)
		return v
	}
	num := func(name string) (n int) {
		d.MaybeScanArgs(t, name, &n)
		return n
	}
	meta := func() *kv.TxnMeta {
		m := &kv.TxnMeta{Seq: kv.Seq(max(1, num("seq"))), WriteTimestamp: clock.Timestamp{Wall: int64(num("at"))}}
		copy(m.ID[:], arg("txn"))
		return m
	}
	k := keys.Key(arg("key"))
	var name string
	if len(d.CmdArgs) > 0 && len(d.CmdArgs[0].Vals) == 0 {
		name = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "replicas":
		n, _ := strconv.Atoi(name)
		for range n {
			s.acceptors = append(s.acceptors, NewAcceptor(s.generation, clock.Timestamp{}, nil, 0))
		}
		return ""
	case "read":
		return s.begin(name, Read(k))
	case "write":
		now := clock.Timestamp{Wall: int64(num("now"))}
		return s.begin(name, WriteOf(k, []byte(arg("value")), func(seen clock.Timestamp) clock.Timestamp { return s.stamper.Stamp(now, seen) }))
	case "propose":
		return s.begin(name, Propose(k, []byte(arg("value")), meta(), uint64(len(s.ops)+1)))
	case "witness":
		return s.begin(name, Witness(k, meta(), uint64(len(s.ops)+1)))
	case "settle":
		status := kv.Aborted
		if arg("status") == "committed" {
			status = kv.Committed
		}
		return s.begin(name, Settle(k, meta(), status, nil))
	case "deliver":
		return s.deliver(name, arg("to"), s.ops[name])
	case "tell":
		o := s.ops[name]
		status, of := kv.Aborted, o.Asks().Meta
		switch arg("status") {
		case "committed":
			status = kv.Committed
		case "pending":
			status = kv.Pending
		}
		o.Tell(&of, status, nil)
		return s.show(o)
	case "restart":
		s.ops[name].Restart()
		return s.show(s.ops[name])
	case "state":
		var b strings.Builder
		for i, a := range s.acceptors {
			fmt.Fprintf(&b, "r%d", i+1)
			for _, e := range a.Report() {
				fmt.Fprintf(&b, " %s: %s", string(e.Key), showRegister(&e.Register))
			}
			b.WriteString("\n")
		}
		return b.String()
	case "reports":
		var reports [][]Entry
		for _, id := range replicas(arg("of")) {
			reports = append(reports, s.acceptors[id-1].Report())
		}
		var b strings.Builder
		for _, e := range Fold(reports) {
			s.base[string(e.Key)] = e.Register
			fmt.Fprintf(&b, "base %s: %s\n", string(e.Key), showRegister(&e.Register))
		}
		s.generation++
		for i := range s.acceptors {
			s.acceptors[i] = NewAcceptor(s.generation, clock.Timestamp{Wall: int64(num("floor"))}, nil, 0)
		}
		return b.String()
	}
	d.Fatalf(t, "what is %s?", d.Cmd)
	return ""
}

func replicas(list string) (out []int) {
	for _, f := range strings.Split(list, "+") {
		n, _ := strconv.Atoi(f)
		out = append(out, n)
	}
	return out
}

func (s *stage) begin(name string, o *Operation) string {
	s.ops[name] = o
	return s.show(o)
}

func (s *stage) deliver(name, to string, o *Operation) string {
	var b strings.Builder
	for _, id := range replicas(to) {
		if o.Request() == nil {
			break
		}
		a, q := s.acceptors[id-1], *o.Request()
		a.Load(q.Key, s.base[string(q.Key)])
		s.call++
		a.Step(clock.Timestamp{}, Message{ID: s.call, Request: &q})
		fx := a.Effects()
		answers := append(fx.Send, fx.After...)
		if fx.Ticket != 0 {
			a.Durable(fx.Ticket)
		}
		answers = append(answers, a.Effects().Send...)
		r := answers[len(answers)-1].Reply
		fmt.Fprintf(&b, "r%d: %s", id, q.Kind)
		switch q.Kind {
		case Query:
			fmt.Fprintf(&b, ": %s", showRegister(&r.Register))
		case Promise, Accept:
			fmt.Fprintf(&b, ": %s", showDecree(&r.Decree))
		}
		b.WriteString("\n")
		o.Answer(kv.ReplicaID(id), r, func(has func(kv.ReplicaID) bool) bool {
			n := 0
			for i := range s.acceptors {
				if has(kv.ReplicaID(i + 1)) {
					n++
				}
			}
			return n > len(s.acceptors)/2
		})
	}
	return b.String() + name + " " + s.show(o)
}

func (s *stage) show(o *Operation) string {
	switch q := o.Request(); {
	case o.Asks() != nil:
		return "asks for " + txnName(o.Asks().Txn) + "\n"
	case q != nil && q.Kind == Promise, q != nil && q.Kind == Accept:
		return fmt.Sprintf("sends %s: %s\n", q.Kind, showDecree(&q.Decree))
	case q != nil && !q.Version.At.IsZero():
		return fmt.Sprintf("sends %s: %s\n", q.Kind, showVersion(&q.Version))
	case q != nil:
		return fmt.Sprintf("sends %s\n", q.Kind)
	}
	r := o.Result()
	switch {
	case !r.TooOld.IsZero():
		return fmt.Sprintf("is done: too old, there is one at %d\n", r.TooOld.Wall)
	case r.Outcome != Open:
		return fmt.Sprintf("is done: %s\n", r.Outcome)
	case o.purpose == reading:
		return fmt.Sprintf("is done: %s\n", showVersion(&r.Version))
	}
	return "is done\n"
}

func txnName(id kv.TxnID) string { return strings.TrimRight(string(id[:]), "\x00") }

func showVersion(v *Version) string {
	if v.At.IsZero() {
		return "nothing"
	}
	by := ""
	if !v.By.IsZero() {
		by = " by " + txnName(v.By)
	}
	return fmt.Sprintf("%s@%d%s", v.Value, v.At.Wall, by)
}

func showDecree(d *Decree) string {
	s := fmt.Sprintf("%s@%d", txnName(d.Txn), d.At.Wall)
	if d.Outcome == Written {
		s += "=" + string(d.Value)
	}
	s += " " + d.Outcome.String()
	if d.Promised != (Ballot{}) {
		s += fmt.Sprintf(" promised %d.%d", d.Promised.Round, d.Promised.Proposer)
	}
	return s
}

func showRegister(r *Register) string {
	s := showVersion(&r.Newest)
	for i := range r.Decrees {
		s += ", " + showDecree(&r.Decrees[i])
	}
	return s
}
