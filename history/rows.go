package history

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// RowKind is the kind of a statement on one row, which is there or not, and has a number if it is.
type RowKind uint8

const (
	// RowInsert makes the row, with Number. If it is there, the statement changes nothing and its client is told so: zero rows.
	RowInsert RowKind = iota
	// RowUpdate adds one to the number of a row that is there, and tells the new one.
	RowUpdate
	// RowDelete removes it.
	RowDelete
	// RowUpsert is RowInsert if the row is not there, and RowUpdate if it is; it tells the number.
	RowUpsert
	// RowRead tells whether the row was there at some moment between its end and Within before its call, and its number.
	RowRead
)

// Untold is the number of an answer that has none.
const Untold = math.MinInt64

// RowOp is one statement on one row. A statement that changes several rows is one for each: nothing is said about their atomicity.
type RowOp struct {
	Client, Key int
	Kind        RowKind
	// Number is what an insertion writes, or what an answer has told.
	Number int64
	// Rows is the count that the client was told, 0 or 1.
	Rows int
	// Within is how old a read's answer may be.
	Within  time.Duration
	Outcome Outcome
	// Call and Return are moments of the run, since its start.
	Call, Return time.Duration
	Note         string

	call, ret int64 // places in the history: those of one moment are in the order in which they came
}

func (o *RowOp) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%12s - ", o.Call.Round(time.Microsecond))
	if o.Outcome == OK {
		fmt.Fprintf(&b, "%-12s", o.Return.Round(time.Microsecond))
	} else {
		fmt.Fprintf(&b, "%-12s", "?")
	}
	fmt.Fprintf(&b, " client %-3d row %d: %s", o.Client, o.Key, [...]string{"insert", "update", "delete", "upsert", "read"}[o.Kind])
	switch {
	case o.Outcome != OK:
		b.WriteString(", outcome unknown")
	case o.Number != Untold && o.Rows > 0:
		fmt.Fprintf(&b, ": %d row, %d", o.Rows, o.Number)
	default:
		fmt.Fprintf(&b, ": %d rows", o.Rows)
	}
	if o.Note != "" {
		b.WriteString("  (" + o.Note + ")")
	}
	return b.String()
}

// Rows records statements on rows, with the counts that their clients were told. It may be used concurrently.
type Rows struct {
	mu   sync.Mutex // guards the fields below, and the fields of ops until they returned; nothing is taken after it
	next int64
	ops  []*RowOp
}

// momentBits is by how many bits a moment is shifted, to make room for the number of an event.
const momentBits = 24

// Begin notes that a statement is about to be sent; fill in all but what its answer tells.
func (r *Rows) Begin(o RowOp) *RowOp {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &o
	p.call, p.ret, p.Outcome = r.place(o.Call-o.Within), 0, Unknown
	r.ops = append(r.ops, p)
	return p
}

// place is that of a moment; later events of the same moment have later ones.
func (r *Rows) place(at time.Duration) int64 {
	r.next++
	return int64(max(at, 0))<<momentBits | r.next
}

// OK notes an answer: a count, and the number of the row if it was told.
func (r *Rows) OK(o *RowOp, rows int, number int64, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Outcome, o.Rows = OK, rows; o.Kind != RowInsert {
		o.Number = number
	}
	o.Return, o.ret = at, r.place(at)
}

// Failed notes that the statement had no effect and never will (history.H2), and was told nothing about the row.
func (r *Rows) Failed(o *RowOp, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.Outcome, o.Note = Failed, note
}

// Unknown notes that no answer came (history.H3).
func (r *Rows) Unknown(o *RowOp, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.Note = note
}

// Count counts the statements of each outcome, and those that were told of no row.
func (r *Rows) Count() (ok, failed, unknown, none int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.ops {
		switch o.Outcome {
		case OK:
			if ok++; o.Rows == 0 {
				none++
			}
		case Failed:
			failed++
		default:
			unknown++
		}
	}
	return ok, failed, unknown, none
}

// RowsError says that no order of the statements on one row explains the counts and numbers that clients were told.
type RowsError struct {
	Key int
	// Ops are the statements on it, in order of calls, without those that failed; Stuck is how many of them can be put in order.
	Ops   []*RowOp
	Stuck int
	// TimedOut: the search took too long; nothing is proved.
	TimedOut bool
}

func (e *RowsError) Error() string {
	if e.TimedOut {
		return fmt.Sprintf("row %d: the search for an order of %d statements took too long", e.Key, len(e.Ops))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "row %d: at most %d of %d statements can be put in order", e.Key, e.Stuck, len(e.Ops))
	for _, o := range e.Ops[max(0, e.Stuck-25):min(len(e.Ops), e.Stuck+15)] {
		b.WriteString("\n" + o.String())
	}
	return b.String()
}

// Check looks for an order of the statements on each row that explains their answers; no row is there at first. It waits in real time, so call it outside of a synctest
// bubble.
func (r *Rows) Check(limit time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := order(r.ops, func(o *RowOp) place { return place{o.Client, o.Key, o.Outcome, o.Kind == RowRead, o.call, o.ret} }, rowModel(), limit)
	if u == nil {
		return nil
	}
	return &RowsError{Key: u.key, Ops: u.ops, Stuck: u.stuck, TimedOut: u.timedOut}
}

// absent is the state of a row that is not there.
const absent = int64(math.MinInt64)

// rowModel is a row as a sequence of statements sees it.
func rowModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return absent },
		Step: func(state, in, _ any) (bool, any) {
			v, o := state.(int64), in.(*RowOp)
			next, rows := o.after(v)
			switch {
			case o.Outcome == Unknown:
				return true, next
			case rows != o.Rows:
				return false, v
			case rows == 0 || o.Number == Untold || o.Kind == RowDelete || o.Kind == RowInsert:
				return true, next
			}
			return o.Number == next, next
		},
		Equal: func(a, b any) bool { return a == b },
	}
}

// after is the row after a statement, and the count that it tells.
func (o *RowOp) after(v int64) (next int64, rows int) {
	there := v != absent
	switch o.Kind {
	case RowInsert:
		if there {
			return v, 0
		}
		return o.Number, 1
	case RowUpsert:
		if !there {
			return 0, 1
		}
		return v + 1, 1
	}
	switch {
	case !there:
		return v, 0
	case o.Kind == RowUpdate:
		return v + 1, 1
	case o.Kind == RowDelete:
		return absent, 1
	}
	return v, 1
}
