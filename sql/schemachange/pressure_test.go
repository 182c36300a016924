package schemachange

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/leader/gateway"
	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
	"meridian/sql/catalog"
	"meridian/sql/job"
	"meridian/txn"
	"meridian/txn/fakekv"
)

// TestHasten: removals of data whose time is far off come soon when a disk is nearly full, and those that belong to a transaction keep their time.
func TestHasten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "n", Network: sim.NewNetwork(sim.NetworkOptions{Seed: 1}), Seed: 1})
		defer h.Group.Stop()
		ck := clock.New(h.Clock, clock.DefaultMaxOffset)
		id := func() kv.NodeID { return 1 }
		db := txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: fakekv.New(h, ck), Clock: ck, Host: h, NodeID: id})
		jobs := job.New(job.Options{DB: db, Clock: ck, Host: h, NodeID: id})
		e := &Executor{o: Options{DB: db, Clock: ck, Host: h, Jobs: jobs}}
		ctx := context.Background()
		begun := ck.Wall()
		make := func(p removePayload) (id job.ID) {
			if err := db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) (err error) {
				id, err = jobs.Create(ctx, tx, job.Spec{Type: jobRemove, Payload: p, After: begun.Add(DefaultRemoveAfter)})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return id
		}
		dropped := make(removePayload{Spans: []keys.Span{keys.TableSpan(catalog.FirstUserID)}})
		of := make(removePayload{Table: 7})
		reserved := make(removePayload{Reserved: true, Forget: []catalog.ID{7}})
		time.Sleep(time.Minute)
		for range 2 {
			if _, err := e.hasten(ctx); err != nil {
				t.Fatal(err)
			}
		}
		list, err := jobs.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range list {
			after := time.Unix(0, rec.After).Sub(begun)
			switch rec.ID {
			case dropped:
				if after != time.Minute {
					t.Errorf("the removal begins after %v", after)
				}
			case of, reserved:
				if after != DefaultRemoveAfter {
					t.Errorf("the removal of a transaction's entries begins after %v", after)
				}
			}
		}
	})
}
