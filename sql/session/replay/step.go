package replay

import (
	"context"
	"time"

	"meridian/sql/catalog"
	"meridian/sql/session/portal"
	"meridian/sql/session/result"
)

// Sum identifies an error as the client sees it; zero: none.
type Sum [16]byte

// Step is one statement of a transaction, as it takes to run it again.
type Step struct {
	// Run runs it; final says that the implicit transaction may be committed with it.
	Run    func(ctx context.Context, final bool) error
	Text   string
	At     time.Time // statement_timestamp()
	Portal *portal.Portal

	number int // of the statement in its transaction, from 1
	// failed is what a statement failed with that a savepoint made up for.
	failed Sum
	// marker: not a statement, but a message that failed, such as Parse.
	marker bool

	// sum is all of its output, left the part that had left when it was complete; start where it begins.
	sum, left result.Fingerprint
	start     int64
	// The following fields are for the replay. open: it was stopped in between. placed: start, sum and left are right; else
	// gap is to be written before it. whole: the client has all of it; seen: what it has.
	open, placed, whole bool
	seen                result.Fingerprint
	gap                 []byte

	values []value
	next   int
	tape   *Tape
}

// value is a number that a statement drew: of a sequence, or a row id.
type value struct {
	seq catalog.ID // zero: a row id
	v   int64
}

// Marker reports whether the step is a message that failed, and not a statement.
func (st *Step) Marker() bool { return st.marker }

// Seen is what the client has of the step's output.
func (st *Step) Seen() result.Fingerprint { return st.seen }

// Rewind has the step read its numbers and data from their beginning.
func (st *Step) Rewind() {
	st.next = 0
	if st.tape != nil {
		st.tape.at = 0
	}
}

// Copies reports whether the statement has a tape, and Copy gives it one. The client has heard then that it is its turn; what it
// sees of the statement comes after that.
func (st *Step) Copies() *Tape { return st.tape }

// Copy records what the client sends from now on, up to limit bytes.
func (st *Step) Copy(out Output, live result.CopySource, limit int) *Tape {
	st.start = out.Mark().Position()
	out.Watch(result.Fingerprint{})
	st.tape = &Tape{live: live, limit: limit}
	return st.tape
}

// Tape is the data of a COPY, as it takes to read it again; after that it goes on with what the client sends.
type Tape struct {
	live   result.CopySource
	pieces [][]byte
	at     int
	size   int
	limit  int
	full   bool
}

// Next implements result.CopySource.
func (t *Tape) Next() ([]byte, error) {
	if t.at < len(t.pieces) {
		t.at++
		return t.pieces[t.at-1], nil
	}
	p, err := t.live.Next()
	if err != nil || t.full {
		return p, err
	}
	if t.size += len(p); t.size > t.limit {
		t.full, t.pieces = true, nil
		return p, nil
	}
	t.pieces = append(t.pieces, append([]byte(nil), p...))
	t.at = len(t.pieces)
	return p, nil
}
