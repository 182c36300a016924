package result

import (
	"errors"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Column describes one result column to a client.
type Column struct {
	Name string
	Type *types.T
	// Table and Attribute say where the column comes from; zero: computed.
	Table     uint32
	Attribute uint16
}

// Format is how a value is written on the wire.
type Format int16

const (
	Text   Format = 0
	Binary Format = 1
)

// Results receives what a statement answers. Package pgwire implements it over a connection; what is written
// stays in a buffer until the buffer is full or the client has to hear, so a statement whose results have not left
// the gateway can be run again without anybody noticing.
type Results interface {
	// Describe announces the columns (RowDescription).
	Describe(cols []Column, formats []Format)
	// Row sends one row of the columns given; formats as for Describe.
	Row(row types.Row, cols []Column, formats []Format) error
	// Complete ends a statement with its command tag.
	Complete(tag string)
	// Empty answers an empty query string.
	Empty()
	// Suspend ends an execution that stopped at its row limit.
	Suspend()
	Notice(n *sqlstate.Error)
	// Parameter tells the client that a reported setting changed.
	Parameter(name, value string)
	// Mark returns the present position; Rewind forgets all that was written since and reports true, or reports
	// false because some of it has left already.
	Mark() Mark
	Rewind(m Mark) bool
	// Watch begins a statement's output, of which the client has seen a part already: as much is compared with it, and
	// dropped. Once it is clear that it differs, rows are refused with ErrDiffers.
	Watch(seen Fingerprint)
	// Watched ends the statement's output: all of it, and what has left of it. Without sum only all.Bytes is right. It
	// reports false if what was seen has not come again; then nothing has been written.
	Watched(sum bool) (all, left Fingerprint, same bool)
	// Take removes what has not left from a position on; Give writes it again. Positions count all bytes ever written.
	Take(from int64) []byte
	Give(p []byte)
	// CopyIn asks the client for data, in text or binary, and returns where to read it.
	CopyIn(format Format, columns int) (CopySource, error)
	// CopyOut announces data; CopyData sends a piece of it; CopyDone ends it.
	CopyOut(format Format, columns int)
	CopyData(p []byte) error
	CopyDone()
}

// Mark is a position in a connection's output.
type Mark struct{ Flushed, Buffered int64 }

// position is the mark as a count of bytes.
func (m Mark) Position() int64 { return m.Flushed + m.Buffered }

// Fingerprint identifies a piece of one connection's output: Sum is a hash whose seed nobody else knows, so that another piece of
// the same length has the same one with a probability of 2^-64, whatever a client does. It is compared with others of the
// same connection only. All that leaves before its statement is complete is hashed, so the hash has to be fast.
type Fingerprint struct {
	Bytes int64
	Sum   uint64
}

// ErrDiffers ends a statement that runs again and answers something else than what the client has seen.
var ErrDiffers = errors.New("session: a statement that ran again has another result")

// CopySource yields the client's copy data, piece by piece; io.EOF ends it. A client's CopyFail is an
// *sqlstate.Error with code 57014.
type CopySource interface {
	Next() ([]byte, error)
}
