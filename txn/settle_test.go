package txn_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/txn"
)

// TestSettleFails: one step of what follows a commit on two ranges fails. Nothing of the next one is done before it has been
// made up for: no intent is resolved before the record says COMMITTED (txn.ST1), and no record removed before all intents are
// resolved (txn.ST2).
func TestSettleFails(t *testing.T) {
	for name, step := range map[string]kv.Method{"record": kv.MethodRecoverTxn, "intents": kv.MethodResolveIntent} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, txn.Options{}, "m")
				ctx := context.Background()
				var did []string
				failed := false
				w.fake.Intercept(func(b *kv.Batch) error {
					m := b.Requests[0].Method()
					if m == step && !failed {
						failed = true
						return &kv.UnavailableError{Reason: "the test said so"}
					}
					if e, ok := b.Requests[len(b.Requests)-1].(*kv.EndTxnRequest); ok && len(e.InFlight) == 0 || m == kv.MethodRecoverTxn {
						did = append(did, "committed")
					}
					return nil
				}, func(b *kv.Batch) error {
					switch b.Requests[0].Method() {
					case kv.MethodResolveIntent:
						did = append(did, "resolved")
					case kv.MethodGC:
						did = append(did, "removed")
					}
					return nil
				})
				tx := w.db.Begin(txn.TxnOptions{})
				put(t, tx, "a", "1")
				put(t, tx, "z", "1")
				if err := tx.Commit(ctx); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if err := synctestDrained(w); err != nil {
					t.Error(err)
				}
				order := strings.Join(slices.Compact(did), " ")
				if !failed || order != "committed resolved removed" && order != "committed resolved" {
					t.Errorf("failed %v: %s", failed, order)
				}
			})
		})
	}
}
