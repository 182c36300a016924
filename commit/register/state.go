package register

import (
	"bytes"
	"cmp"
	"slices"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Protocol is the number of this protocol; it is not one of the product's.
const Protocol kv.Protocol = 64

// Version is a value with its tag, which is At and then By. The zero Version is that of a register that was never written.
type Version struct {
	At clock.Timestamp
	// By is the transaction that wrote it, zero if none did. Two transactions may commit at one timestamp.
	By kv.TxnID
	// Value is nil if the register was emptied.
	Value []byte
}

// Compare orders versions by their tags.
func (v *Version) Compare(o *Version) int {
	if c := v.At.Compare(o.At); c != 0 {
		return c
	}
	return bytes.Compare(v.By[:], o.By[:])
}

// Ballot orders the proposals of one decree. Round zero is the transaction's own.
type Ballot struct {
	Round, Proposer uint64
}

// Less reports whether b is an earlier ballot than o.
func (b Ballot) Less(o Ballot) bool {
	return b.Round < o.Round || b.Round == o.Round && b.Proposer < o.Proposer
}

// Instance names a decree: one write of one attempt of a transaction, at one timestamp.
type Instance struct {
	Txn     kv.TxnID
	Attempt uint32
	Seq     kv.Seq
	At      clock.Timestamp
}

// InstanceOf is the decree about a transaction's write with the number meta.Seq, at its write timestamp.
func InstanceOf(meta *kv.TxnMeta) Instance {
	return Instance{Txn: meta.ID, Attempt: meta.Attempt, Seq: meta.Seq, At: meta.WriteTimestamp}
}

// Compare orders instances, for lists that are to be the same on all replicas.
func (i Instance) Compare(o Instance) int {
	if c := bytes.Compare(i.Txn[:], o.Txn[:]); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(i.Attempt, o.Attempt), cmp.Compare(i.Seq, o.Seq), i.At.Compare(o.At))
}

// Outcome is what a decree is about: does the provisional write exist?
type Outcome uint8

const (
	// Open: nothing was accepted.
	Open Outcome = iota
	// Written: the provisional write is there, and counts if its transaction commits.
	Written
	// Prevented: it will never be there.
	Prevented
)

func (o Outcome) String() string { return [...]string{"open", "written", "prevented"}[o] }

// Decree is an acceptor's state in one instance of Paxos.
type Decree struct {
	Instance
	Promised, Accepted Ballot
	Outcome            Outcome
	// Meta and Value are those of the write, if it is Written.
	Meta  kv.TxnMeta
	Value []byte
}

// outranks reports whether what d has accepted counts, if o has accepted something too. In the first ballot only the transaction proposes,
// and acceptors that have nothing of it any more, because it has ended and they know, take it for prevented (register.RG7).
func (d *Decree) outranks(o *Decree) bool {
	return o.Accepted.Less(d.Accepted) || o.Accepted == d.Accepted && o.Outcome == Prevented && d.Outcome == Written
}

// Version is what the register holds if the transaction commits.
func (d *Decree) Version() Version { return Version{At: d.At, By: d.Txn, Value: d.Value} }

// Register is the state of one register at one replica.
type Register struct {
	Newest Version
	// Decrees are in order of their instances.
	Decrees []Decree
}

func (r *Register) clone() *Register {
	return &Register{Newest: r.Newest, Decrees: slices.Clone(r.Decrees)}
}

func (r *Register) find(i Instance) (int, bool) {
	return slices.BinarySearchFunc(r.Decrees, i, func(d Decree, i Instance) int { return d.Instance.Compare(i) })
}

// decree is the state of an instance, which begins now if it was not there.
func (r *Register) decree(i Instance) *Decree {
	at, found := r.find(i)
	if !found {
		r.Decrees = slices.Insert(r.Decrees, at, Decree{Instance: i})
	}
	return &r.Decrees[at]
}

// Last is the latest tag that the register has seen, but for those of one decree.
func (r *Register) last(but Instance) clock.Timestamp {
	t := r.Newest.At
	for i := range r.Decrees {
		if d := &r.Decrees[i]; d.Outcome == Written && d.Instance != but {
			t = t.Forward(d.At)
		}
	}
	return t
}

// Entry is a register with its name.
type Entry struct {
	Key keys.Key
	Register
}
