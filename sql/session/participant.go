package session

import (
	"context"

	"meridian/sql/catalog/lease"
	"meridian/sql/session/parameter"
	"meridian/sql/session/portal"
)

// participant is a part of a session that takes part in its transactions. A new kind of state that a rollback has to undo is one more of them.
type participant interface {
	// Begin is called when a transaction has begun.
	Begin()
	// Mark is the part's position, for a savepoint, and RollbackTo goes back there.
	Mark() any
	RollbackTo(mark any)
	// Restart goes back to the beginning, before the transaction is run again (session.S2).
	Restart(ctx context.Context)
	// End is called when the transaction has committed, or is being rolled back. It can't fail.
	End(committed bool)
}

// participants are the parts in the order in which they are told. Portals come before what their operators read; the transaction itself is in the middle: parts before it find it open at
// its end, those behind it find it closed. The memory of the transaction goes after what is counted there.
func (s *Session) participants() [9]participant {
	p := part{s}
	return [...]participant{portalPart{p}, temporaryPart{p}, corePart{p}, catalogPart{p}, deferredPart{p}, parameterPart{p}, notifyPart{p}, memoryPart{p}, advisoryPart{p}}
}

// part is a participant for which there is nothing to do.
type part struct{ s *Session }

func (part) Begin()                  {}
func (part) Mark() any               { return nil }
func (part) RollbackTo(any)          {}
func (part) Restart(context.Context) {}
func (part) End(bool)                {}

// temporaryPart has temporary relations and their rows.
type temporaryPart struct{ part }

func (p temporaryPart) Mark() any               { return p.s.temp.mark() }
func (p temporaryPart) RollbackTo(mark any)     { p.s.temp.rollbackTo(mark.(tempMark)) }
func (p temporaryPart) Restart(context.Context) { p.s.temp.rollback() }
func (p temporaryPart) End(committed bool) {
	if committed {
		p.s.temp.commit()
	} else {
		p.s.temp.rollback()
	}
}

// portalPart has portals, cursors among them. The steps of a transaction that is run again make cursors again, and run portals again.
type portalPart struct{ part }

func (p portalPart) Begin()                  { p.s.portals.Begin() }
func (p portalPart) Mark() any               { return p.s.portals.Mark() }
func (p portalPart) RollbackTo(mark any)     { p.s.portals.CloseSince(mark.(portal.Mark)) }
func (p portalPart) Restart(context.Context) { p.s.portals.Restart() }
func (p portalPart) End(committed bool)      { p.s.portals.EndTransaction(committed) }

// corePart has the transaction itself, its savepoints, what was drawn from sequences, and the record of its statements.
type corePart struct{ part }

func (p corePart) Begin() {
	p.s.replay.Forget()
	p.s.env.before = nil
	p.s.showTxn()
}

func (p corePart) Restart(context.Context) {
	p.s.showTxn()
	p.s.state.Restart()
	p.s.savepoints.Clear() // the steps make savepoints again
	p.s.replay.Rewind()
	p.s.env.restart()
}

func (p corePart) End(bool) {
	s := p.s
	s.state.End()
	s.tx, s.bound = nil, nil
	s.savepoints.Clear()
	s.replay.Forget()
	s.env.before, s.env.txnNumber = nil, 0
}

// catalogPart has the transaction's view of the catalogue, and its changes there. The session itself calls lease.Txn.Finish after the end, since that waits for others.
type catalogPart struct{ part }

func (p catalogPart) Begin()    { p.s.beginCatalog() }
func (p catalogPart) Mark() any { return p.s.cat.Mark() }
func (p catalogPart) RollbackTo(mark any) {
	p.s.cat.RollbackTo(mark.(lease.Mark))
	p.s.viewCache = nil
}

func (p catalogPart) Restart(ctx context.Context) {
	p.s.cat.Reset(ctx)
	p.s.viewCache = nil
}

func (p catalogPart) End(bool) { p.s.cat, p.s.viewCache = nil, nil }

// deferredPart has the deferred checks of constraints.
type deferredPart struct{ part }

func (p deferredPart) Mark() any               { return p.s.deferred.mark() }
func (p deferredPart) RollbackTo(mark any)     { p.s.deferred.deferralState = mark.(deferralState) }
func (p deferredPart) Restart(context.Context) { p.s.deferred.reset() }
func (p deferredPart) End(bool)                { p.s.deferred.reset() }

// parameterPart has the settings.
type parameterPart struct{ part }

func (p parameterPart) Begin()              { p.s.params.Begin() }
func (p parameterPart) Mark() any           { return p.s.params.Mark() }
func (p parameterPart) RollbackTo(mark any) { p.changed(p.s.params.RollbackTo(mark.(parameter.Mark))) }

func (p parameterPart) Restart(context.Context) {
	p.changed(p.s.params.End(false))
	p.s.params.Begin()
}

func (p parameterPart) End(committed bool) {
	p.changed(p.s.params.End(committed))
	p.s.params.Settle()
}

func (p parameterPart) changed(names []string) {
	for _, n := range names {
		p.s.settingChanged(n)
	}
}

// notifyPart has LISTEN, UNLISTEN and NOTIFY, which take effect at the commit.
type notifyPart struct{ part }

func (p notifyPart) Mark() any               { return p.s.notifying.mark() }
func (p notifyPart) RollbackTo(mark any)     { p.s.notifying.rollbackTo(mark.(notifyMark)) }
func (p notifyPart) Restart(context.Context) { p.s.notifying.reset() }
func (p notifyPart) End(committed bool)      { p.s.notifying.end(committed) }

// memoryPart has the transaction's memory.
type memoryPart struct{ part }

func (p memoryPart) End(bool) { p.s.endTxn() }

// advisoryPart has the advisory locks, of the transaction and of the session.
type advisoryPart struct{ part }

func (p advisoryPart) Begin()    { p.s.advisory.Begin() }
func (p advisoryPart) Mark() any { return p.s.advisory.Mark() }
func (p advisoryPart) RollbackTo(mark any) {
	p.s.advisory.Undo(mark.(int), true)
	p.s.advisory.Settle()
}

func (p advisoryPart) Restart(context.Context) { p.s.advisory.Restart() }
func (p advisoryPart) End(bool)                { p.s.advisory.End() }
