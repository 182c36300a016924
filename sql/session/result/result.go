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
	// Table and Attribute identify the table's column from which it comes; zero: it is computed.
	Table     uint32
	Attribute uint16
}

// Format is the form of a value on the wire.
type Format int16

const (
	Text   Format = 0
	Binary Format = 1
)

// Results receives the results of statements. Package pgwire implements it over a connection: output stays in a buffer until the buffer is full or
// the client waits for it, so a statement whose results have not left the gateway can be run again without its client's notice.
type Results interface {
	// Describe announces the columns (RowDescription).
	Describe(cols []Column, formats []Format)
	// Row sends one row of the given columns; formats as for Describe.
	Row(row types.Row, cols []Column, formats []Format) error
	// Complete ends a statement with its command tag.
	Complete(tag string)
	// Empty answers an empty query string.
	Empty()
	// Suspend ends an execution that stopped at its row limit.
	Suspend()
	Notice(n *sqlstate.Error)
	// Parameter reports a setting that has changed (ParameterStatus).
	Parameter(name, value string)
	// Mark returns the present position; Rewind drops the output since then and reports true, or reports
	// false because a part of it has been sent already.
	Mark() Mark
	Rewind(m Mark) bool
	// Watch begins a statement's output, of which the client has seen a part already: the same length is compared with that part, and
	// dropped. Once it differs, rows are refused with ErrDiffers.
	Watch(seen Fingerprint)
	// Watched ends the statement's output, and returns the fingerprints of all of it and of the part that has been sent. Without sum only all.Bytes is
	// valid. It reports false if the part that was seen has not been written again; then nothing has been written.
	Watched(sum bool) (all, left Fingerprint, same bool)
	// Take removes the unsent output from a position on; Give writes it again. Positions count all bytes ever written.
	Take(from int64) []byte
	Give(p []byte)
	// CopyIn requests data from the client, in text or binary, and returns its source.
	CopyIn(format Format, columns int) (CopySource, error)
	// CopyOut announces data; CopyData sends a piece of it; CopyDone ends it.
	CopyOut(format Format, columns int)
	CopyData(p []byte) error
	CopyDone()
}

// Mark is a position in a connection's output.
type Mark struct{ Flushed, Buffered int64 }

// Position is the mark as a count of bytes.
func (m Mark) Position() int64 { return m.Flushed + m.Buffered }

// Fingerprint identifies a piece of one connection's output: Sum is a hash with a secret seed, so that another piece of
// the same length has the same hash with a probability of 2^-64, whatever a client does. It is compared with others of the
// same connection only. All output that is sent before its statement is complete is hashed, so the hash has to be fast.
type Fingerprint struct {
	Bytes int64
	Sum   uint64
}

// ErrDiffers ends a statement that runs again and whose output differs from the part that the client has seen.
var ErrDiffers = errors.New("session: a statement that ran again has another result")

// CopySource yields the client's copy data, piece by piece; io.EOF ends it. A client's CopyFail is an
// *sqlstate.Error with code 57014.
type CopySource interface {
	Next() ([]byte, error)
}
