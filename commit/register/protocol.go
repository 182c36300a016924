package register

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"meridian/commit"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/wire"
)

// ProtocolOptions are what a node's part of the protocol needs.
type ProtocolOptions struct {
	// Finishers decide transactions when a range gets another protocol.
	Finishers func() commit.Finishers
}

// New is the protocol as a node's registry has it.
func New(o ProtocolOptions) rangeserver.Protocol {
	return rangeserver.Protocol{Name: "register", New: newParticipant,
		Fold: fold, Settle: func(ctx context.Context, f *rangeserver.Folding) error { return settle(ctx, &o, f) }}
}

// foldKeys is how many registers a command of the fold has.
const foldKeys = 64

// fold writes to the base what the reports of a generation come to (register.RG3).
func fold(_ context.Context, f *rangeserver.Folding) error {
	reports := make([][]Entry, len(f.Reports))
	for i, r := range f.Reports {
		for _, piece := range r.Pieces {
			var e Entry
			if err := wire.Decode(bytes.Clone(piece), &e, (*Entry).fields); err != nil {
				return fmt.Errorf("register: a report of replica %d: %w", r.From.Replica, err)
			}
			reports[i] = append(reports[i], e)
		}
	}
	return write(f, Fold(reports))
}

func write(f *rangeserver.Folding, entries []Entry) error {
	var rows []replica.Row
	for i := range entries {
		rows = append(rows, rowsOf(&entries[i])...)
		if len(rows) >= 2*foldKeys || i == len(entries)-1 {
			if err := f.Write(rows); err != nil {
				return err
			}
			rows = nil
		}
	}
	return nil
}

// rowsOf is a register as the base has it.
func rowsOf(e *Entry) (rows []replica.Row) {
	if !e.Newest.At.IsZero() {
		rows = append(rows, replica.Row{Key: e.Key, Value: e.Newest.Value, Timestamp: e.Newest.At})
	}
	side := replica.Row{Key: sideKey(e.Key)}
	if len(e.Decrees) > 0 || !e.Newest.By.IsZero() {
		side.Value = wire.Append(nil, &e.Register, (*Register).fields)
	}
	return append(rows, side)
}

// settle decides the transactions of all provisional writes of a sealed range, before it has another protocol: nobody could read
// them afterwards.
func settle(ctx context.Context, o *ProtocolOptions, f *rangeserver.Folding) error {
	if err := f.Durable(); err != nil {
		return err // others decide by the state that this range has come to
	}
	entries, err := besides(f.Base, f.Desc)
	if err != nil {
		return err
	}
	at := map[string]int{}
	for i := range entries {
		at[string(entries[i].Key)] = i
	}
	finishers := maps.Clone(o.Finishers())
	finishers[Protocol] = &inside{Finisher: finishers[Protocol], desc: f.Desc, has: func(k keys.Key, i Instance) bool {
		n, ok := at[string(k)]
		return ok && entries[n].has(i)
	}}
	for i := range entries {
		e := &entries[i]
		for _, d := range e.Decrees {
			if d.Outcome != Written {
				continue
			}
			t, err := commit.Conclude(ctx, f.Sender, finishers, d.Meta)
			if err != nil {
				return fmt.Errorf("register: ending transaction %s, which has written %s: %w", d.Txn, keys.Masked(e.Key), err)
			}
			if w := committed(e.Decrees, &t.TxnMeta, t.IgnoredSeqs); t.Status == kv.Committed && w != nil {
				e.store(w.Version())
			}
		}
	}
	for i := range entries {
		for _, d := range entries[i].Decrees {
			f.Now = f.Now.Forward(d.At) // register.RG7: preventions may be ahead of all clocks
		}
		entries[i].Decrees, entries[i].Newest.By = nil, kv.TxnID{}
	}
	return write(f, entries)
}

// inside is the protocol's Finisher while a range is sealed for another protocol: what the range says of its own writes is final,
// since nobody can add to them.
type inside struct {
	commit.Finisher
	desc *kv.RangeDescriptor
	has  func(keys.Key, Instance) bool
}

// Witness implements commit.Finisher.
func (f *inside) Witness(ctx context.Context, r *commit.Record, writes []kv.InFlightWrite) (bool, error) {
	var others []kv.InFlightWrite
	for _, w := range writes {
		meta := r.TxnMeta
		meta.Seq = w.Seq
		switch {
		case !f.desc.Contains(w.Key):
			others = append(others, w)
		case !f.has(w.Key, InstanceOf(&meta)):
			return false, nil
		}
	}
	if len(others) == 0 {
		return true, nil
	}
	return f.Finisher.Witness(ctx, r, others)
}

// has reports whether a provisional write is there.
func (r *Register) has(i Instance) bool {
	at, found := r.find(i)
	if found {
		return r.Decrees[at].Outcome == Written
	}
	return r.Newest.At == i.At && r.Newest.By == i.Txn
}
