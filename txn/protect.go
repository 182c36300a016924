package txn

import (
	"meridian/clock"
	"meridian/kv"
	"meridian/replica/closedts"
)

// readShards spreads the transactions that begin and end over several mutexes.
const readShards = 8

// readers knows the running transactions by their read timestamps, as far as garbage collection has to: a lower bound
// of them all. It costs a transaction no allocation.
type readers [readShards]closedts.Tracker

// reading is a transaction's place among the readers.
type reading struct {
	shard uint8
	tok   closedts.Token
}

func (r *readers) begin(id kv.TxnID, at clock.Timestamp) reading {
	i := id[0] % readShards
	tok, _ := r[i].Track(at)
	return reading{i, tok}
}

func (r *readers) end(x reading) { r[x.shard].Untrack(x.tok) }

// OldestRead is at or below the read timestamps of all transactions of this gateway that have not ended; zero if there
// are none. Versions that they may still read are not garbage (rangeserver).
func (db *DB) OldestRead() (oldest clock.Timestamp) {
	for i := range db.readers {
		if at := db.readers[i].Lowest(); !at.IsZero() && (oldest.IsZero() || at.Less(oldest)) {
			oldest = at
		}
	}
	return oldest
}
