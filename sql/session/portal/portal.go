package portal

import (
	"context"
	"slices"

	"meridian/sql/memory"
	"meridian/sql/session/plan"
	"meridian/sql/session/result"
	"meridian/sql/types"
)

// Rows are the rows of a running query; exec.Cursor implements it.
type Rows interface {
	// Next returns the next row, or nil at the end. The row is valid until the next call, its values for ever.
	Next(context.Context) (types.Row, error)
	// Hold reads the remaining rows into memory, so that the transaction may use another snapshot.
	Hold(context.Context) error
	RowsAffected() int64
	Close()
}

// Portal is a bound statement, which may have run in part.
type Portal struct {
	Name      string
	Statement *Statement // nil: the portal is a SQL cursor
	Plan      *plan.Plan
	Params    []types.Datum
	Formats   []result.Format
	// Size is the size of the arguments in bytes.
	Size int
	// Declared portals are SQL cursors.
	Declared bool
	cursor

	rows  Rows // nil before the first Execute and after the end
	ended bool
	made  int64 // number of portals that were made before it
	// running accounts for the query's memory; held is the portal's memory in the session's account, owner.
	running *memory.Account
	owner   *memory.Account
	held    int64
}

// Take reserves memory of the session until the portal is dropped.
func (p *Portal) Take(owner *memory.Account, bytes int64) error {
	if err := owner.Grow(bytes); err != nil {
		return err
	}
	p.owner, p.held = owner, p.held+bytes
	return nil
}

// Open gives the portal the rows of its query, and the account of the query's memory.
func (p *Portal) Open(rows Rows, running *memory.Account) { p.rows, p.running = rows, running }

// Rows returns the rows of the running query; nil if it does not run.
func (p *Portal) Rows() Rows { return p.rows }

// Running reports whether the query has begun and not ended.
func (p *Portal) Running() bool { return p.rows != nil }

// Ended reports whether the query has run to its end, or was stopped.
func (p *Portal) Ended() bool { return p.ended }

// End notes that a portal has run to its end in one call.
func (p *Portal) End() { p.ended = true }

// stop ends the query.
func (p *Portal) stop() {
	if p.rows != nil {
		p.rows.Close()
		p.rows = nil
		p.running.Close()
	}
}

// Stop ends the query for good.
func (p *Portal) Stop() {
	p.stop()
	p.ended = true
}

// Rewind ends the query, and lets the portal run from its beginning.
func (p *Portal) Rewind() {
	p.stop()
	p.ended = false
	if !p.Declared {
		p.read, p.pos = 0, 0
	}
}

// Drop ends the query, and releases the memory of the arguments and the kept rows.
func (p *Portal) Drop() {
	p.Stop()
	p.owner.Shrink(p.held)
	p.held = 0
}

// keepRow keeps a row that a cursor has read, so that it can go back to it.
func (p *Portal) keepRow(row types.Row) error {
	n := int64(64 + 48*len(row))
	for i := range row {
		n += row[i].Weight()
	}
	err := p.Take(p.owner, n)
	if err == nil {
		p.bytes += n
		p.kept = append(p.kept, slices.Clone(row))
	}
	if !p.asked && (err != nil || p.bytes > scrollBytes) { // portal.PO3
		p.forgetRows()
		err = nil
	}
	return err
}

// forgetRows drops the kept rows: from then on the cursor only moves forward.
func (p *Portal) forgetRows() {
	p.owner.Shrink(p.bytes)
	p.held -= p.bytes
	p.kept, p.bytes, p.keep = nil, 0, false
}
