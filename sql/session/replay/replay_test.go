package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"meridian/sql/catalog"
	"meridian/sql/memory"
	"meridian/sql/session/result"
)

// wire is a connection's output: what has left, and what is still in the buffer. A fingerprint's Sum is a toy hash.
type wire struct {
	gone, buf string
	watched   string // since Watch, without what was seen
	seen      result.Fingerprint
	from      int // where the statement's output begins
}

func hash(s string) (h uint64) {
	for i := range len(s) {
		h = h*31 + uint64(s[i])
	}
	return h
}

func print(s string) result.Fingerprint {
	if s == "" {
		return result.Fingerprint{}
	}
	return result.Fingerprint{Bytes: int64(len(s)), Sum: hash(s)}
}

func (w *wire) Mark() result.Mark {
	return result.Mark{Flushed: int64(len(w.gone)), Buffered: int64(len(w.buf))}
}

func (w *wire) Watch(seen result.Fingerprint) {
	w.seen, w.watched, w.from = seen, "", len(w.gone)+len(w.buf)
}

// write is what a statement answers; as much as was seen is compared and dropped.
func (w *wire) write(s string) {
	before := len(w.watched)
	w.watched += s
	if n := int(w.seen.Bytes) - before; n > 0 {
		s = s[min(n, len(s)):]
	}
	w.buf += s
}

// writes is write with flushes.
func (w *wire) writes(s string) {
	for j, part := range strings.Split(s, "|") {
		if j > 0 {
			w.flush()
		}
		w.write(part)
	}
}

func (w *wire) Watched(sum bool) (all, left result.Fingerprint, same bool) {
	n := int(w.seen.Bytes)
	same = len(w.watched) >= n && print(w.watched[:min(n, len(w.watched))]) == w.seen
	gone := min(max(len(w.gone)-w.from, 0)+n, len(w.watched))
	return print(w.watched), print(w.watched[:gone]), same
}

func (w *wire) Take(from int64) []byte {
	at := int(from) - len(w.gone)
	p := []byte(w.buf[at:])
	w.buf = w.buf[:at]
	return p
}
func (w *wire) Give(p []byte)     { w.buf += string(p) }
func (w *wire) flush()            { w.gone, w.buf = w.gone+w.buf, "" }
func (w *wire) protocol(s string) { w.buf += s }

var roomy = Limits{Statements: 100, Bytes: 1 << 20, Shown: "1MB"}

func account() *memory.Account { return memory.NewSession(memory.NewNode(0)) }

// play runs statements whose answers are given, and then all of them again with other answers. "|" in the first run says where the
// output is flushed; what the protocol says between statements is ";". The last statement of the first run has lost a conflict.
// It returns the verdicts, and what the client has in the end, or had when they parted.
func play(first []string, rounds ...[]string) (verdicts, client string) {
	var (
		l   Log
		w   wire
		out []string
	)
	l.Forget()
	for i, answer := range first {
		l.Begin(&w, Step{Text: fmt.Sprint("statement ", i+1)})
		w.writes(strings.TrimPrefix(answer, "!"))
		if i == len(first)-1 {
			break
		}
		o := Outcome{Open: true, Keep: l.Keeps()}
		if strings.HasPrefix(answer, "!") {
			o.Failed = Sum{1}
		}
		l.Ended(&w, o, roomy, account())
		w.protocol(";")
	}
	for _, again := range rounds {
		l.SumUp(&w)
		if why := l.Unrepeatable(roomy); why != "" {
			return why, w.gone + w.buf
		}
		if !l.LayOut(&w) {
			return "not laid out", w.gone + w.buf
		}
		l.Start()
		steps := l.Steps()
		for i := range steps {
			st := &steps[i]
			l.Place(&w, st)
			w.Watch(st.Seen())
			var err error
			var sum Sum
			answer, fails := strings.CutPrefix(again[i], "!")
			if fails {
				err, sum = errors.New("failed"), Sum{1}
				if answer, fails = strings.CutPrefix(answer, "!"); fails {
					sum = Sum{2}
				}
			}
			w.writes(answer)
			v := l.Compare(st, st.Watched(&w), err, sum)
			out = append(out, [...]string{"same", "same failure", "new failure", "different"}[v])
			if v >= NewFailure {
				return strings.Join(out, ", "), w.gone // what is in the buffer is the session's to take back
			}
		}
		l.Resume()
		l.Place(&w, l.Current())
		w.Watch(l.Current().Seen())
		w.writes(again[len(again)-1])
		if !l.SumUp(&w) {
			return strings.Join(append(out, "different"), ", "), w.gone
		}
		out = append(out, "same")
		l.Done()
	}
	return strings.Join(out, ", "), w.gone + w.buf
}

// TestRunAgain: what a client has after its transaction was run again is what one run would have given; where it has heard something
// else, the Log says so.
func TestRunAgain(t *testing.T) {
	for _, v := range []struct {
		about        string
		first, again []string
		verdicts     string
		client       string
	}{
		{"nothing has left: everything is written anew", []string{"a1", "b1"}, []string{"A22", "B2"}, "same, same", "A22;B2"},
		{"the first has left, and is the same", []string{"a1|", "b1"}, []string{"a1", "B2"}, "same, same", "a1;B2"},
		{"the first has left, and is another", []string{"a1|", "b1"}, []string{"a2", "B2"}, "different", "a1"},
		{"or longer", []string{"a1|", "b1"}, []string{"a11", "B2"}, "different", "a1"},
		{"or shorter", []string{"a1|", "b1"}, []string{"a", "B2"}, "different", "a1"},
		{"a part has left, and comes again", []string{"a|b", "c"}, []string{"axy", "d"}, "same, same", "axy;d"},
		{"a part has left, and is another", []string{"a|b", "c"}, []string{"xy", "d"}, "different", "a"},
		{"a part of the present one", []string{"a", "b|c"}, []string{"a", "bxyz"}, "same, same", "a;bxyz"},
		{"which is another", []string{"a", "b|c"}, []string{"a", "z"}, "same, different", "a;b"},
		{"gaps are written again where they were", []string{"a|", "b", "c"}, []string{"a", "BB", "C"}, "same, same, same", "a;BB;C"},
		{"a failure that a savepoint made up for", []string{"!", "b"}, []string{"!", "c"}, "same failure, same", ";c"},
		{"that does not come again, and left nothing", []string{"!|", "b|"}, []string{"", "b"}, "different", ";b"},
		{"a new failure, of which nobody has heard", []string{"a", "b"}, []string{"!", "b"}, "new failure", ""},
		{"a new failure, of which the client has heard otherwise", []string{"a|", "b"}, []string{"!a", "b"}, "different", "a"},
		{"another failure", []string{"!a|", "b"}, []string{"!!a", "b"}, "different", "a"},
		{"a new failure, of which the client has heard the beginning otherwise", []string{"a|b", "c"}, []string{"!a", "d"}, "different", "a"},
	} {
		verdicts, client := play(v.first, v.again)
		if verdicts != v.verdicts || client != v.client {
			t.Errorf("%s:\n got %s; client %q\nwant %s; client %q", v.about, verdicts, client, v.verdicts, v.client)
		}
	}
}

// TestRunAgainTwice: what a client has heard while its transaction ran again counts when that loses a conflict too.
func TestRunAgainTwice(t *testing.T) {
	for _, v := range []struct {
		about                string
		first, second, third []string
		verdicts, client     string
	}{
		{"more of the first has left", []string{"a|b", "c"}, []string{"axy|", "c"}, []string{"axy", "D"}, "same, same, same, same", "axy;D"},
		{"and is another the next time", []string{"a|b", "c"}, []string{"axy|", "c"}, []string{"axz", "D"}, "same, same, different", "axy"},
		{"more of the present one has left", []string{"a", "b|c"}, []string{"a", "bx|y"}, []string{"a", "bxz"}, "same, same, same, same", "a;bxz"},
		{"nothing has left", []string{"a", "b"}, []string{"aa", "bb"}, []string{"A", "B"}, "same, same, same, same", "A;B"},
	} {
		verdicts, client := play(v.first, v.second, v.third)
		if verdicts != v.verdicts || client != v.client {
			t.Errorf("%s:\n got %s; client %q\nwant %s; client %q", v.about, verdicts, client, v.verdicts, v.client)
		}
	}
}

// TestNotKept: when a transaction can't be run again, and why its client is told so.
func TestNotKept(t *testing.T) {
	for _, v := range []struct {
		about  string
		limits Limits
		room   *memory.Account
		do     func(l *Log)
		want   string
	}{
		{"three statements", roomy, account(), nil, ""},
		{"too many", Limits{Statements: 2, Bytes: 1 << 20}, account(), nil, "it has more than 2 statements (transaction_replay_statements)"},
		{"too large", Limits{Statements: 9, Bytes: 3*stepSize + 200, Shown: "1kB"}, account(), nil,
			"its statements, their arguments and data have more than 1kB (transaction_replay_size)"},
		{"no memory", roomy, memory.Limited(700), nil, "there is no memory to record its statements"},
		{"for a reason", roomy, account(), func(l *Log) { l.TurnOff("setval() can't be undone"); l.TurnOff("and another") }, "setval() can't be undone"},
	} {
		var l Log
		var w wire
		l.Forget()
		for range 3 {
			l.Begin(&w, Step{})
			l.Ended(&w, Outcome{Open: true, Keep: l.Keeps(), Size: 100}, v.limits, v.room)
		}
		if v.do != nil {
			v.do(&l)
		}
		if got := l.Unrepeatable(v.limits); got != v.want || (got != "") != l.First() || l.Keeps() != (got == "") {
			t.Errorf("%s: %q, want %q; %d steps", v.about, got, v.want, len(l.Steps()))
		}
		if l.Forget(); l.Off() != "" {
			t.Errorf("%s: the next transaction has it too", v.about)
		}
	}
}

// TestOpenedIsNotKept: BEGIN is no step of the transaction that it opens.
func TestOpenedIsNotKept(t *testing.T) {
	var l Log
	var w wire
	l.Begin(&w, Step{Text: "BEGIN"})
	l.Forget()
	l.Opened()
	l.Ended(&w, Outcome{Open: true, Keep: l.Keeps()}, roomy, account())
	l.Begin(&w, Step{Text: "SELECT 1"})
	l.Ended(&w, Outcome{Open: true, Keep: l.Keeps()}, roomy, account())
	if steps := l.Steps(); len(steps) != 1 || steps[0].Text != "SELECT 1" || steps[0].number != 1 {
		t.Errorf("%+v", steps)
	}
}

// TestDraw: a statement that runs again has the numbers that it had, as long as it asks for those of the same sequences.
func TestDraw(t *testing.T) {
	var l Log
	var w wire
	next := int64(0)
	draw := func(seq uint32) int64 {
		v, err := l.Draw(catalog.ID(1000+seq), func() (int64, error) { next++; return next, nil })
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	l.Begin(&w, Step{})
	first := []int64{draw(1), draw(2), draw(1)}
	l.Current().Rewind()
	if again := []int64{draw(1), draw(2), draw(1), draw(1)}; fmt.Sprint(again) != fmt.Sprint(append(first, 4)) {
		t.Error("first", first, "then", again)
	}
	l.Current().Rewind()
	if again := []int64{draw(1), draw(1), draw(2)}; fmt.Sprint(again) != "[1 5 6]" {
		t.Error("of other sequences", again)
	}
	l.Current().Rewind()
	if again := []int64{draw(1), draw(1), draw(2)}; fmt.Sprint(again) != "[1 5 6]" {
		t.Error("which it keeps to", again)
	}
}

// client sends pieces of COPY's data.
type client struct{ n int }

func (c *client) Next() ([]byte, error) {
	if c.n++; c.n > 3 {
		return nil, io.EOF
	}
	return []byte{byte('0' + c.n)}, nil
}

// TestTape: COPY's data is read again, and then goes on; beyond its bound it is not kept, and the transaction can't be run again.
func TestTape(t *testing.T) {
	for _, limit := range []int{10, 2} {
		var l Log
		var w wire
		l.Begin(&w, Step{Run: func(context.Context, bool) error { return nil }})
		tape := l.Step().Copy(&w, &client{}, limit)
		read := func(n int) (out string) {
			for range n {
				p, err := tape.Next()
				if errors.Is(err, io.EOF) {
					return out + "."
				}
				out += string(p)
			}
			return out
		}
		if got := read(2); got != "12" {
			t.Fatal(got)
		}
		l.Step().Rewind()
		if got := read(9); got != "123." {
			t.Error(got)
		}
		if why := l.Unrepeatable(roomy); (why != "") != (limit == 2) {
			t.Errorf("limit %d: %q", limit, why)
		}
		l.Ended(&w, Outcome{Open: true, Keep: true}, roomy, account())
		if (l.Off() != "") != (limit == 2) {
			t.Errorf("limit %d: kept, %q", limit, l.Off())
		}
	}
}
