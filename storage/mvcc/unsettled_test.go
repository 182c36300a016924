package mvcc

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// TestUnsettled: the earliest intent that is in a reader's way, against a look at all of them; intents of transactions that are known to have
// committed are in nobody's way.
func TestUnsettled(t *testing.T) {
	key := func(i int) keys.Key { return tableKey(fmt.Sprintf("k%02d", i)) }
	for seed := range uint64(50) {
		dice := rand.New(rand.NewPCG(seed, 7))
		e, closeEngine := openEngine(t)
		known, laid := committedAll{}, map[int]int64{} // intents that are not known to be committed
		for i := range 20 {
			if dice.IntN(2) == 0 {
				continue
			}
			wall := int64(1 + dice.IntN(30))
			txn := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{byte(i + 1)}, WriteTimestamp: at(wall), MinTimestamp: at(wall)}, ReadTimestamp: at(wall)}
			b := e.NewBatch()
			w := NewWriter(e, b)
			if err := w.Put(key(i), []byte("v"), &WriteOptions{Txn: txn, Seq: 1, LocalTimestamp: at(wall)}); err != nil {
				t.Fatal(err)
			}
			w.Close()
			if err := b.Commit(false); err != nil {
				t.Fatal(err)
			}
			if b.Close(); dice.IntN(4) == 0 {
				known[txn.ID] = at(wall)
			} else {
				laid[i] = wall
			}
		}
		for range 50 {
			from, upto := dice.IntN(20), int64(dice.IntN(32))
			end, enough := from+dice.IntN(20-from)+1, clock.Timestamp{}
			least := clock.Timestamp{}
			for i, wall := range laid {
				if from <= i && i < end && wall <= upto && (least.IsZero() || at(wall).Less(least)) {
					least = at(wall)
				}
			}
			if dice.IntN(2) == 0 {
				enough = at(int64(dice.IntN(32)))
			}
			r := NewReader(e)
			r.Outcomes = known
			low, found, err := r.Unsettled(key(from), key(end), enough, at(upto))
			if err != nil {
				t.Fatal(err)
			}
			if found != !least.IsZero() || low != least && (enough.Less(low) || low.Less(least)) {
				t.Errorf("seed %d: [%d, %d) up to %d: %s, %t, want %s", seed, from, end, upto, low, found, least)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		closeEngine()
	}
}
