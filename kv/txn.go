package kv

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"meridian/clock"
	"meridian/keys"
)

// Identities. Zero means "none" for all of them.
type (
	NodeID    uint32
	StoreID   uint32
	RangeID   uint64
	ReplicaID uint64
	// Seq numbers the writes of one transaction attempt, from 1.
	Seq uint32
)

// TxnID is a transaction's random identity.
type TxnID [16]byte

func (id TxnID) String() string { return hex.EncodeToString(id[:4]) }

// IsZero reports whether id is "no transaction".
func (id TxnID) IsZero() bool { return id == TxnID{} }

// Status is where a transaction stands.
type Status uint8

const (
	// Pending transactions may still do anything.
	Pending Status = iota
	// Staging transactions are committed if all of the writes that their record lists are durable (CRDB'20 §3.1).
	Staging
	Committed
	Aborted
)

func (s Status) String() string {
	return [...]string{"PENDING", "STAGING", "COMMITTED", "ABORTED"}[s&3]
}

// Isolation is the isolation level that a transaction asked for.
type Isolation uint8

const (
	Serializable Isolation = iota
	RepeatableRead
	ReadCommitted
)

// TxnMeta is the part of a transaction that its intents carry.
type TxnMeta struct {
	ID TxnID
	// Anchor is the key whose range holds the transaction record; empty until the first lock is taken.
	Anchor keys.Key
	// Attempt counts the restarts of the transaction; intents of earlier attempts are void.
	Attempt uint32
	// WriteTimestamp is where the transaction would commit; it is never less than the read timestamp.
	WriteTimestamp clock.Timestamp
	// MinTimestamp is the transaction's first timestamp; it never changes. A transaction without a record is
	// taken for alive until MinTimestamp plus the heartbeat expiry.
	MinTimestamp clock.Timestamp
	Seq          Seq
	Priority     int32
	Isolation    Isolation
	Gateway      NodeID
	// Incarnation is the gateway's (package support) when the transaction began: once a majority of the voters of the record's range has withdrawn its support for that, the transaction is
	// taken for dead (commit.CR2). Zero: it has none, as before the cluster's version has such.
	Incarnation uint64
	// Born, if not zero, says that the transaction is externally consistent (Spanner §4), and when its first attempt began: of two that
	// want the same lock the older one goes first (leader.P27).
	Born clock.Timestamp
}

// External reports whether the transaction is externally consistent.
func (m *TxnMeta) External() bool { return !m.Born.IsZero() }

// Older reports whether an externally consistent transaction began before another one.
func (m *TxnMeta) Older(o *TxnMeta) bool {
	if m.Born != o.Born {
		return m.Born.Less(o.Born)
	}
	return bytes.Compare(m.ID[:], o.ID[:]) < 0
}

// Txn is a transaction as a batch carries it to a range, and as the answer carries it back.
type Txn struct {
	TxnMeta
	Status Status
	// ReadTimestamp is the snapshot that the transaction reads.
	ReadTimestamp clock.Timestamp
	// UncertaintyLimit ends the interval in which a value may have been written before the transaction began
	// (CRDB'20 §4.2).
	UncertaintyLimit clock.Timestamp
	// Observed are timestamps that each visited node's clock had shown when first visited: a value that a node
	// wrote after that reading is not uncertain there.
	Observed []ObservedTimestamp
	// Heartbeat is the last sign of life of the coordinator; only in records.
	Heartbeat clock.Timestamp
	// LockSpans are all keys that the transaction may have locked or written; only in EndTxn and records.
	LockSpans []keys.Span
	// IgnoredSeqs are sequence ranges rolled back to a savepoint; values written under them do not exist.
	IgnoredSeqs []SeqRange
}

// ObservedTimestamp is a reading of one node's clock.
type ObservedTimestamp struct {
	Node NodeID
	At   clock.Timestamp
}

// InFlightWrite names one write of a staging transaction. Protocol says who can answer whether it is durable.
type InFlightWrite struct {
	Key      keys.Key
	Seq      Seq
	Protocol Protocol
}

// SeqRange is an inclusive range of sequence numbers.
type SeqRange struct{ First, Last Seq }

// Protocol is a range's commit protocol. This package knows numbers; what a node can serve is in its registry
// (rangeserver.Options.Protocols), and a range of another protocol is refused there.
type Protocol uint8

const (
	Leader Protocol = iota
	FastPaxos
	Epoch

	// FirstForeign is the first number for protocols that are no part of the product, and MaxProtocol the last of all.
	FirstForeign Protocol = 64
	MaxProtocol  Protocol = 127
)

func (p Protocol) String() string {
	switch p {
	case Leader:
		return "leader"
	case FastPaxos:
		return "fast_paxos"
	case Epoch:
		return "epoch"
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}

// Observe records the first reading of a node's clock.
func (t *Txn) Observe(n NodeID, at clock.Timestamp) {
	for i := range t.Observed {
		if t.Observed[i].Node == n {
			return
		}
	}
	t.Observed = append(t.Observed[:len(t.Observed):len(t.Observed)], ObservedTimestamp{n, at})
}

// ObservedAt returns the reading of n's clock.
func (t *Txn) ObservedAt(n NodeID) (clock.Timestamp, bool) {
	for i := range t.Observed {
		if t.Observed[i].Node == n {
			return t.Observed[i].At, true
		}
	}
	return clock.Timestamp{}, false
}

// Clone copies t so that appending to a slice of one is not seen by the other. Keys are shared: they are never
// written in place.
func (t *Txn) Clone() *Txn {
	if t == nil {
		return nil
	}
	c := *t
	c.Observed = append([]ObservedTimestamp(nil), t.Observed...)
	c.LockSpans = append([]keys.Span(nil), t.LockSpans...)
	c.IgnoredSeqs = append([]SeqRange(nil), t.IgnoredSeqs...)
	return &c
}
