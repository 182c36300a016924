package history

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind of an operation on a register.
type Kind uint8

const (
	Read Kind = iota
	Write
	// CAS writes Value if the register holds Expected.
	CAS
	// Add adds Value to a counter, or as an element to a set.
	Add
	// Append adds Value to the end of a list, in transactions.
	Append
)

// Outcome of an operation as its client knows it.
type Outcome uint8

const (
	// Unknown is also the outcome of an operation that never returned.
	Unknown Outcome = iota
	OK
	Failed
)

// Op is one operation on one register.
type Op struct {
	Client          int
	Key             int
	Kind            Kind
	Value, Expected int64
	// Result is the value that a read returned; Swapped whether a CAS found the expected value.
	Result  int64
	Swapped bool
	Outcome Outcome
	// Call and Return are places in the history.
	Call, Return int64
	// When is the time since the run's start, for people.
	When time.Duration
	Note string
}

func (o *Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6d", o.Call)
	if o.Outcome == OK {
		fmt.Fprintf(&b, "-%-6d", o.Return)
	} else {
		b.WriteString("-?     ")
	}
	fmt.Fprintf(&b, " %10s client %-2d key %d: ", o.When.Round(time.Millisecond), o.Client, o.Key)
	switch o.Kind {
	case Read:
		b.WriteString("read")
		if o.Outcome == OK {
			fmt.Fprintf(&b, " = %d", o.Result)
		}
	case Write:
		fmt.Fprintf(&b, "write %d", o.Value)
	case CAS:
		fmt.Fprintf(&b, "cas %d -> %d", o.Expected, o.Value)
		if o.Outcome == OK {
			fmt.Fprintf(&b, ": %v", o.Swapped)
		}
	case Add:
		fmt.Fprintf(&b, "add %d", o.Value)
	}
	switch o.Outcome {
	case Unknown:
		b.WriteString("  outcome unknown")
	case Failed:
		b.WriteString("  failed")
	}
	if o.Note != "" {
		b.WriteString("  (" + o.Note + ")")
	}
	return b.String()
}

// Registers records operations on single keys. It may be used concurrently.
type Registers struct {
	// Initial is every register's first value.
	Initial int64

	mu   sync.Mutex // guards the fields below, and the fields of ops until they returned; nothing is taken after it
	next int64
	ops  []*Op
}

// Begin notes that an operation is about to be called; fill in Client, Key, Kind, Value, Expected and When.
func (r *Registers) Begin(o Op) *Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &o
	r.next++
	p.Call, p.Return, p.Outcome = r.next, 0, Unknown
	r.ops = append(r.ops, p)
	return p
}

// OK notes an answer: the value that a read returned, whether a CAS swapped.
func (r *Registers) OK(o *Op, result int64, swapped bool) {
	r.end(o, OK, "")
	r.mu.Lock()
	o.Result, o.Swapped = result, swapped
	r.mu.Unlock()
}

// Failed notes that the operation had no effect and never will (history.H2).
func (r *Registers) Failed(o *Op, note string) { r.end(o, Failed, note) }

// Unknown notes that no answer came (history.H3).
func (r *Registers) Unknown(o *Op, note string) { r.end(o, Unknown, note) }

func (r *Registers) end(o *Op, how Outcome, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	o.Return, o.Outcome, o.Note = r.next, how, note
}

// Count counts the operations of each outcome.
func (r *Registers) Count() (ok, failed, unknown int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.ops {
		switch o.Outcome {
		case OK:
			ok++
		case Failed:
			failed++
		default:
			unknown++
		}
	}
	return ok, failed, unknown
}

// LinearizabilityError says that no order of one key's operations explains their answers (I4).
type LinearizabilityError struct {
	Key int
	// Ops is the key's history in order of calls, without the failed operations; with Why, only those that contradict each other.
	Ops []*Op
	// Why explains the contradiction, if it is known.
	Why string
	// Stuck is the longest explained part's length.
	Stuck int
	// TimedOut: the search took too long; nothing is proved.
	TimedOut bool
}

func (e *LinearizabilityError) Error() string {
	var b strings.Builder
	if e.TimedOut {
		fmt.Fprintf(&b, "key %d: the search for an order of %d operations took too long", e.Key, len(e.Ops))
		return b.String()
	}
	if e.Why != "" {
		fmt.Fprintf(&b, "key %d is not linearizable: %s", e.Key, e.Why)
		for _, o := range e.Ops {
			b.WriteString("\n" + o.String())
		}
		return b.String()
	}
	fmt.Fprintf(&b, "key %d is not linearizable: at most %d of %d operations can be put in order", e.Key, e.Stuck, len(e.Ops))
	from := max(0, e.Stuck-40)
	for _, o := range e.Ops[from:min(len(e.Ops), e.Stuck+40)] {
		b.WriteString("\n" + o.String())
	}
	return b.String()
}

// Check looks for an order of each key's operations that explains their answers. All operations must have ended. It
// waits in real time, so call it outside of a synctest bubble.
func (r *Registers) Check(limit time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := order(r.ops, func(o *Op) place { return place{o.Client, o.Key, o.Outcome, o.Kind == Read, o.Call, o.Return} }, registerModel(r.Initial), limit)
	if u == nil {
		return nil
	}
	return &LinearizabilityError{Key: u.key, Ops: u.ops, Stuck: u.stuck, TimedOut: u.timedOut}
}

func registerModel(initial int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, in, _ any) (bool, any) {
			v, o := state.(int64), in.(*Op)
			switch o.Kind {
			case Read:
				return v == o.Result, v
			case Write:
				return true, o.Value
			}
			if o.Outcome == Unknown {
				if v == o.Expected {
					return true, o.Value
				}
				return true, v
			}
			if o.Swapped {
				return v == o.Expected, o.Value
			}
			return v != o.Expected, v
		},
		Equal: func(a, b any) bool { return a == b },
	}
}
