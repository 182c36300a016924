package replica

import (
	"fmt"

	"meridian/clock"
	"meridian/commit/protocol"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
	"meridian/wire"
)

// A range's generation is its descriptor's: each change of the descriptor begins another one. In a range whose protocol keeps its
// data out of the log, a generation is ended before the change (docs/ranges.md):
//
//	open ----Seal----> sealed ----folds----> folded ----change of the descriptor----> the next one, open
//
// All of these are commands of the log, so every replica goes through them in the same order. A range of the leader protocol has
// no such state, and none is written for it.

// Stage is the progress of the end of a generation.
type Stage uint8

const (
	// Open: replicas act.
	Open Stage = iota
	// Sealed: a replica that has applied the seal no longer acts. Its promises are to be reported.
	Sealed
	// Folded: the base has all promises. Only the change of the descriptor remains.
	Folded
)

func (s Stage) String() string { return [...]string{"open", "sealed", "folded"}[s] }

// Generation is the generation of a range as of a replica's last applied command.
type Generation struct {
	Number uint64
	Stage  Stage
	// Floor is at or above all reads and writes in the range under its protocols of earlier generations.
	Floor clock.Timestamp
}

// seal is a replica's stored state of the generation: for another one than the descriptor's, only Floor counts.
type seal struct {
	generation uint64
	stage      Stage
	floor      clock.Timestamp
}

// Generation is the range's generation, and the progress of its end. A replica without a descriptor has none.
func (r *Replica) Generation() (g Generation) {
	d := r.desc.Load() // first: a generation that is sealed after this is not shown as open
	if d == nil {
		return g
	}
	g.Number = d.Generation
	s := r.sealNow.Load()
	if s == nil {
		return g
	}
	g.Floor = s.floor
	switch {
	case s.generation == d.Generation:
		g.Stage = s.stage
	case s.generation > d.Generation:
		g.Stage = Folded // the descriptor has just changed
	}
	return g
}

// Acts reports whether a replica may act in a generation: it has applied the command that began it, and none that ends it.
//
// After a promise has been written to the engine, the caller has to check Acts again before it gives the promise: if it still holds, a
// report of the sealed replica finds the promise (replica.R8).
func (r *Replica) Acts(generation uint64) bool {
	g := r.Generation()
	return g.Number == generation && g.Stage == Open && !r.barred.Load() && !r.gone.Load()
}

func (s *seal) append(b []byte) []byte { return wire.Append(b, s, (*seal).fields) }

func (s *seal) fields(c *wire.Coder) {
	c.Message("replica.Seal", wire.Refuses)
	wire.Uint64(c, 1, &s.generation)
	wire.Enum(c, 3, &s.stage, Folded)
	c.Timestamp(5, &s.floor)
}

// loadSeal shows what the engine has.
func (r *Replica) loadSeal() error {
	v, err := r.o.Engine.Get(keys.SealKey(r.rangeID))
	if err != nil {
		return err
	}
	if v == nil {
		r.sealNow.Store(nil)
		return nil
	}
	s, err := wire.Decoded(v, (*seal).fields)
	if err == nil {
		r.sealNow.Store(&s)
	}
	return err
}

// Row is a part of a range's base, which a fold writes.
type Row struct {
	Key keys.Key
	// Value is nil where the row is removed.
	Value []byte
	// Timestamp is that of the version. Zero: the key is a keys.ProtocolKey, which has no versions.
	Timestamp clock.Timestamp
	// Txn makes it a provisional write, an intent, of a transaction: with the sequence number that Txn has, at its write timestamp.
	// With a final Status it gives this outcome to the intent, which an earlier fold has written.
	Txn    *kv.TxnMeta
	Status kv.Status
}

// Step is one step on the way from a generation to the next. A repeated step has no effect.
type Step struct {
	Generation uint64
	// To is Sealed, or Folded: the base is complete. A step that has Rows and no Floor adds them to the base of a generation that is sealed,
	// or folded, and does not change the stage; one to Open adds them to that of an open one.
	To   Stage
	Rows []Row
	// Floor, of a step to Folded, is at or above all reads and writes in this generation. A later step may raise it. With Rows, these are the last ones that the base lacks, in the
	// same command.
	Floor clock.Timestamp
}

// StepError says that a generation can't make a step, since it is over, or was not sealed.
type StepError struct {
	Range kv.RangeID
	Step  Stage
	Of    uint64
	Is    Generation
}

func (e *StepError) Error() string {
	return fmt.Sprintf("replica: r%d: generation %d can't become %s: it is %d that is %s", e.Range, e.Of, e.Step, e.Is.Number, e.Is.Stage)
}

// EvaluateStep adds the effects of a step to a batch and to its command. The leaseholder calls it, and evaluates nothing else in the range
// until the command was applied. done says that the step was made already.
func (r *Replica) EvaluateStep(src engine.Reader, b *engine.Batch, c *Command, step *Step) (done bool, err error) {
	g, d := r.Generation(), r.desc.Load()
	refused := &StepError{Range: r.rangeID, Step: step.To, Of: step.Generation, Is: g}
	if g.Number != step.Generation || protocol.Leased(d.Protocol) {
		return false, refused
	}
	if len(step.Rows) > 0 && (g.Stage == Open) != (step.To == Open) || len(step.Rows) == 0 && step.To == Open {
		return false, refused
	}
	if len(step.Rows) > 0 {
		if c.Delta, err = FoldRows(src, b, d, step.Rows); err != nil || step.Floor.IsZero() {
			return false, err
		}
	}
	switch {
	case g.Stage >= step.To && step.Floor.LessEq(g.Floor):
		return len(step.Rows) == 0, nil
	case g.Stage >= step.To: // decisions since the fold may be above its floor
		step.To = g.Stage
	case g.Stage+1 < step.To:
		return false, refused
	}
	next := seal{generation: g.Number, stage: step.To, floor: g.Floor.Forward(step.Floor)}
	b.Put(keys.SealKey(r.rangeID), next.append(nil))
	c.Trigger = &kv.CommitTrigger{Seal: &kv.SealTrigger{Generation: g.Number, Folded: step.To == Folded}}
	return false, nil
}

// PutFloor adds to the change of a range's protocol the timestamp up to which the earlier one has served its rows.
func (r *Replica) PutFloor(b *engine.Batch, next *kv.RangeDescriptor, floor clock.Timestamp) {
	s := seal{generation: next.Generation, floor: floor.Forward(r.Generation().Floor)}
	b.Put(keys.SealKey(r.rangeID), s.append(nil))
}

// settled returns the reason why the range can't change from the leader protocol to another one yet, if there is one: the next one could
// not read its intents.
func (r *Replica) settled(rd engine.Reader, next *kv.RangeDescriptor) error {
	cur := r.desc.Load()
	if !protocol.Leased(cur.Protocol) || protocol.Leased(next.Protocol) {
		return nil
	}
	m := mvcc.NewReader(rd)
	defer m.Close()
	span := keys.UserSpan(cur.Start, cur.End)
	locks, err := m.HasLocks(span.Start, span.End)
	if err == nil && locks {
		err = fmt.Errorf("replica: r%d can't have another commit protocol: a transaction has writes in it", r.rangeID)
	}
	return err
}

// mayOpen returns the reason why no generation may follow the present one yet, if there is one: no promise of it may be lost (replica.R9).
func (r *Replica) mayOpen() error {
	if g := r.Generation(); g.Stage != Folded && !protocol.Leased(r.desc.Load().Protocol) {
		return fmt.Errorf("replica: r%d can't change: its generation %d is %s, and has to be folded before", r.rangeID, g.Number, g.Stage)
	}
	return nil
}

// FoldRows writes rows of the base. Existing ones stay (replica.R10).
func FoldRows(src engine.Reader, b *engine.Batch, d *kv.RangeDescriptor, rows []Row) (delta Stats, err error) {
	w := mvcc.NewWriter(src, b)
	defer func() {
		delta = w.Stats
		_ = w.Close()
	}()
	for i := range rows {
		row := &rows[i]
		if !d.Contains(keys.Addr(row.Key)) {
			return delta, fmt.Errorf("replica: r%d: a row of its fold is outside of it: %s", d.ID, keys.Masked(row.Key))
		}
		switch {
		case row.Txn != nil:
			err = w.FoldIntent(row.Key, row.Value, row.Txn, row.Status)
		case !row.Timestamp.IsZero():
			err = w.Fold(row.Key, row.Value, row.Timestamp)
		default:
			if _, _, err = keys.DecodeProtocolKey(row.Key); err != nil {
				break
			}
			if row.Value == nil {
				b.Delete(row.Key)
			} else {
				b.Put(row.Key, row.Value)
			}
		}
		if err != nil {
			return delta, fmt.Errorf("replica: r%d: folding %s: %w", d.ID, keys.Masked(row.Key), err)
		}
	}
	return delta, nil
}

// applySeal shows a step that is in the batch already.
func (r *Replica) applySeal(t *kv.SealTrigger) func() error {
	return func() error {
		if err := r.loadSeal(); err != nil {
			return err
		}
		if !t.Folded {
			r.o.Store.Sealed(r, t.Generation)
		}
		return nil
	}
}

// dropDeltas adds the removal of this replica's promises in generations before that of a new descriptor (replica.R11).
func (r *Replica) dropDeltas(b *engine.Batch, next *kv.RangeDescriptor) {
	if old := r.desc.Load(); old != nil && !protocol.Leased(old.Protocol) {
		b.ClearSpan(keys.DeltaSpan(r.rangeID, next.Generation))
	}
}
