package history

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Access is one step of a transaction.
type Access struct {
	// Kind is Read, Write or Append.
	Kind Kind
	Key  string
	// Value is the value that was written or appended, or that a read of a register returned. Values of one key are
	// distinct, and not zero; zero is a register's first value.
	Value int64
	// List is the list that a read returned.
	List []int64
}

func (a *Access) String() string {
	switch a.Kind {
	case Write:
		return fmt.Sprintf("w %s %d", a.Key, a.Value)
	case Append:
		return fmt.Sprintf("a %s %d", a.Key, a.Value)
	}
	if a.List != nil {
		return "r " + a.Key + " " + showList(a.List)
	}
	return fmt.Sprintf("r %s %d", a.Key, a.Value)
}

// shownElements bounds a list's text.
const shownElements = 12

func showList(l []int64) string {
	if n := len(l); n > shownElements {
		return fmt.Sprintf("[%d more%s", n-shownElements, strings.Replace(fmt.Sprint(l[n-shownElements:]), "[", " ", 1))
	}
	return fmt.Sprint(l)
}

// Txn is one transaction as its client saw it: the steps in order, those that were answered.
type Txn struct {
	ID       int // counted from one
	Client   int
	Accesses []Access
	Outcome  Outcome
	// Call and Return are places in the history, as Op's.
	Call, Return int64
	// Past says that the transaction read a snapshot of the past, of which no place in the history is known: in the order of time
	// and of sessions it comes neither before nor after another one. A snapshot that is known to be of a certain moment has that as its Call and its Return instead.
	Past bool
	// When is the time since the run's start, for people.
	When time.Duration
	Note string
}

// Name is the transaction's name in explanations.
func (t *Txn) Name() string { return fmt.Sprintf("T%d", t.ID) }

func (t *Txn) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (client %d, %d-", t.Name(), t.Client, t.Call)
	if t.Outcome == OK {
		fmt.Fprint(&b, t.Return)
	} else {
		b.WriteByte('?')
	}
	if t.When > 0 {
		fmt.Fprintf(&b, ", %s", t.When.Round(time.Millisecond))
	}
	if t.Past {
		b.WriteString(", of the past")
	}
	b.WriteString("):")
	for i := range t.Accesses {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte(' ')
		b.WriteString(t.Accesses[i].String())
	}
	switch t.Outcome {
	case Failed:
		b.WriteString("; failed")
	case Unknown:
		b.WriteString("; unknown")
	}
	if t.Note != "" {
		b.WriteString(" (" + t.Note + ")")
	}
	return b.String()
}

// Transactions records transactions. It may be used concurrently; a transaction's Accesses belong to its client until
// it has ended.
type Transactions struct {
	mu   sync.Mutex // guards the fields below; nothing is taken after it
	next int64
	txns []*Txn
}

// Begin notes that a transaction is about to begin.
func (h *Transactions) Begin(client int, when time.Duration) *Txn {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	t := &Txn{ID: len(h.txns) + 1, Client: client, Call: h.next, When: when}
	h.txns = append(h.txns, t)
	return t
}

// End notes the outcome of a transaction.
func (h *Transactions) End(t *Txn, how Outcome, note string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	t.Return, t.Outcome, t.Note = h.next, how, note
}

// All returns the recorded transactions, in the order of the calls. All must have ended, or never be continued.
func (h *Transactions) All() []*Txn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*Txn(nil), h.txns...)
}

// Class names an anomaly, as Adya's thesis and the Elle paper do.
type Class string

const (
	// G0: a cycle of writes over writes (dirty write).
	G0 Class = "G0"
	// G1a: a committed transaction read what a failed one wrote (aborted read).
	G1a Class = "G1a"
	// G1b: a committed transaction read what another one wrote first and replaced later (intermediate read).
	G1b Class = "G1b"
	// G1c: a cycle of writes over writes and reads of writes (circular information flow).
	G1c Class = "G1c"
	// GSingle: a cycle with exactly one anti-dependency (read skew).
	GSingle Class = "G-single"
	// GNonadjacent: a cycle with several anti-dependencies, no two of them one after the other (long fork).
	GNonadjacent Class = "G-nonadjacent"
	// G2: a cycle with adjacent anti-dependencies (write skew). Items only: phantoms are not detected.
	G2 Class = "G2-item"
	// LostUpdate: two committed transactions read one version of a register and both replaced it.
	LostUpdate Class = "lost update"
	// Internal: a transaction did not see its own write.
	Internal Class = "internal"
	// Garbage: a value that no transaction wrote.
	Garbage Class = "garbage"
	// Duplicate: an element that was appended once is in a list twice.
	Duplicate Class = "duplicate"
	// IncompatibleOrder: two reads of a list of which neither is the beginning of the other.
	IncompatibleOrder Class = "incompatible order"
	// CyclicVersions: the known parts of the order of a register's versions contradict each other.
	CyclicVersions Class = "cyclic versions"
)

// realtime is added to the class of a cycle that needs the order of sessions or of time.
const realtime = "-realtime"

// Level is a level of isolation by which a history is judged.
type Level uint8

const (
	// ReadUncommitted forbids G0 and impossible values.
	ReadUncommitted Level = iota
	// ReadCommitted forbids G1 too.
	ReadCommitted
	// RepeatableRead forbids all cycles but those with adjacent anti-dependencies; that is snapshot isolation, as in
	// PostgreSQL.
	RepeatableRead
	// Serializable forbids all cycles.
	Serializable
	// Strict forbids cycles with the order of time among their edges, too.
	Strict
)

func (l Level) String() string {
	return [...]string{"read uncommitted", "read committed", "repeatable read", "serializable", "strict serializable"}[l]
}

// Level is the weakest level that forbids the class.
func (c Class) Level() Level {
	switch c {
	case G0, Internal, Garbage, Duplicate, IncompatibleOrder, CyclicVersions:
		return ReadUncommitted
	case G1a, G1b, G1c:
		return ReadCommitted
	case GSingle, GNonadjacent, LostUpdate:
		return RepeatableRead
	case G2:
		return Serializable
	}
	return Strict
}

// EdgeKind is why one transaction comes before another.
type EdgeKind uint8

const (
	// WW: it wrote the version that the other one replaced.
	WW EdgeKind = iota
	// WR: the other one read its version.
	WR
	// RW: it read the version that the other one replaced.
	RW
	// Session: the same client began the other one afterwards.
	Session
	// Realtime: it returned before the other one was called.
	Realtime
)

func (k EdgeKind) String() string { return [...]string{"ww", "wr", "rw", "session", "realtime"}[k] }

// Edge of a cycle.
type Edge struct {
	From, To *Txn
	Kind     EdgeKind
	Key      string
	// Before and After are the versions concerned: a list's last element, a register's value. Zero: the first version.
	Before, After int64
}

func (e *Edge) String() string {
	var why string
	version := func(v int64) string {
		if v == 0 {
			return "the first version"
		}
		return fmt.Sprint(v)
	}
	switch e.Kind {
	case WW:
		why = fmt.Sprintf("%s put %d upon %s's %s", e.To.Name(), e.After, e.From.Name(), version(e.Before))
	case WR:
		why = fmt.Sprintf("%s read %s's %d", e.To.Name(), e.From.Name(), e.Before)
	case RW:
		why = fmt.Sprintf("%s read %s, and did not see %s's %d", e.From.Name(), version(e.Before), e.To.Name(), e.After)
	case Session:
		return fmt.Sprintf("%s -session-> %s: client %d began it later", e.From.Name(), e.To.Name(), e.To.Client)
	case Realtime:
		return fmt.Sprintf("%s -realtime-> %s: returned at %d, before the call at %d", e.From.Name(), e.To.Name(), e.From.Return, e.To.Call)
	}
	return fmt.Sprintf("%s -%s %s-> %s: %s", e.From.Name(), e.Kind, e.Key, e.To.Name(), why)
}

// Anomaly is a phenomenon in a history that a level of isolation forbids.
type Anomaly struct {
	Class Class
	// Text explains an anomaly without a cycle.
	Text  string
	Cycle []Edge
	// Txns are the transactions concerned.
	Txns []*Txn
}

func (a *Anomaly) String() string {
	var b strings.Builder
	b.WriteString(string(a.Class))
	if a.Text != "" {
		b.WriteString(": " + a.Text)
	}
	for i := range a.Cycle {
		b.WriteString("\n  " + a.Cycle[i].String())
	}
	for _, t := range a.Txns {
		b.WriteString("\n  " + t.String())
	}
	return b.String()
}

// Report is the result of a checker.
type Report struct {
	// Txns that count as committed, and Edges between them.
	Txns, Edges int
	Anomalies   []*Anomaly
	seen        map[Class]int
}

// maxPerClass bounds the anomalies that are reported of one class; the others are counted.
const maxPerClass = 8

func (r *Report) add(a *Anomaly) {
	if r.seen == nil {
		r.seen = map[Class]int{}
	}
	if r.seen[a.Class]++; r.seen[a.Class] <= maxPerClass {
		r.Anomalies = append(r.Anomalies, a)
	}
}

// Counts lists the classes found, with their numbers.
func (r *Report) Counts() string {
	var out []string
	done := map[Class]bool{}
	for _, a := range r.Anomalies {
		if !done[a.Class] {
			done[a.Class] = true
			out = append(out, fmt.Sprintf("%s %d", a.Class, r.seen[a.Class]))
		}
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, ", ")
}

// IsolationError says that a history shows anomalies that its level forbids.
type IsolationError struct {
	Level     Level
	Anomalies []*Anomaly // those that the level forbids
}

func (e *IsolationError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the history is not %s", e.Level)
	for _, a := range e.Anomalies {
		b.WriteString("\n" + a.String())
	}
	return b.String()
}

// At returns an IsolationError if the history shows an anomaly that a level forbids.
func (r *Report) At(l Level) error {
	var bad []*Anomaly
	for _, a := range r.Anomalies {
		if a.Class.Level() <= l {
			bad = append(bad, a)
		}
	}
	if bad == nil {
		return nil
	}
	return &IsolationError{Level: l, Anomalies: bad}
}

// Ordering tells which edges a check adds to those that follow from the values.
type Ordering uint8

const (
	// ByValues adds none.
	ByValues Ordering = iota
	// BySession puts each client's transactions in order.
	BySession
	// ByTime puts in order all transactions that do not overlap.
	ByTime
)
