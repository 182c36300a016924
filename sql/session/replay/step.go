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

// Step is the record of one statement of a transaction.
type Step struct {
	// Run runs it; final says that the implicit transaction may be committed with it.
	Run    func(ctx context.Context, final bool) error
	Text   string
	At     time.Time // statement_timestamp()
	Portal *portal.Portal

	number int // of the statement in its transaction, from 1
	// failed identifies the error of a statement that failed and after which the transaction continued from a savepoint.
	failed Sum
	// marker: not a statement, but a message that failed, such as Parse.
	marker bool

	// sum is the fingerprint of all of its output, and left that of the part that had been sent when it was complete; start is the output's position.
	sum, left result.Fingerprint
	start     int64
	// The following fields are for the replay. open: its output is not complete. placed: start, sum and left are valid; otherwise
	// gap must be written before it. whole: the client has all of its output; seen: the part that the client has.
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

// Seen is the fingerprint of the part of the step's output that the client has.
func (st *Step) Seen() result.Fingerprint { return st.seen }

// Rewind makes the step read its numbers and data from their beginning.
func (st *Step) Rewind() {
	st.next = 0
	if st.tape != nil {
		st.tape.at = 0
	}
}

// Copies returns the statement's tape; nil if it has none.
func (st *Step) Copies() *Tape { return st.tape }

// Copy gives the statement a tape, which records the client's data from now on, up to limit bytes. The client has been sent CopyInResponse by then, so
// the output of the statement that is compared begins here.
func (st *Step) Copy(out Output, live result.CopySource, limit int) *Tape {
	st.start = out.Mark().Position()
	out.Watch(result.Fingerprint{})
	st.tape = &Tape{live: live, limit: limit}
	return st.tape
}

// Tape is the recorded data of a COPY. A COPY that runs again reads first the tape, and then the rest from the client.
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
