package leader

import (
	"meridian/clock"
	"meridian/kv"
)

// call is a batch in progress: its properties and its timestamps. Every stage knows it.
type call struct {
	p *Participant
	b *kv.Batch
	traits
	// txn is the batch's transaction; a copy once its timestamps were moved here.
	txn   *kv.Txn
	moved bool
	now   clock.Timestamp // this node's clock, at the last evaluation
	first clock.Reading   // and at the first: later ones would widen the uncertainty interval
	// at is the timestamp at which a batch without a transaction reads and writes.
	at      clock.Timestamp
	visible clock.Timestamp // up to where plain reads look for intents
	limit   clock.Timestamp // up to where they may be uncertain
	told    bool            // the answer tells of a value that writes have met
	unled   bool            // the present is read without the lease
	choice  choice
}

// request is a batch with its stages, in their order (doc.go). Each stage has its own state, and references to the earlier stages whose
// results it needs; it can't reach other parts of the request. Requests are pooled.
type request struct {
	call
	latching   latching
	locking    locking
	evaluation evaluation
	proposal   proposal
	effects    effects
}

// wire sets the references between stages.
func (q *request) wire() {
	c := &q.call
	q.latching.call, q.locking.call, q.effects.call = c, c, c
	q.evaluation.call, q.evaluation.latching, q.evaluation.locking, q.evaluation.effects = c, &q.latching, &q.locking, &q.effects
	q.proposal.call, q.proposal.latching, q.proposal.locking = c, &q.latching, &q.locking
	q.proposal.evaluation, q.proposal.effects = &q.evaluation, &q.effects
}
