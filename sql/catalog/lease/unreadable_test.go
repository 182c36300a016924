package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/encoding"
	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/sqlstate"
	"meridian/txn"
	"meridian/wire"
)

// TestUnreadableRow: a row of the catalogue that this version can't read, because its object is of a kind of a later one or because the row is
// damaged, is reported to statements that name the object, at once and with the reason. All other statements, changes of the schema among them, go
// on, and a node can be started.
func TestUnreadableRow(t *testing.T) {
	for _, x := range []struct {
		name, row string
		code      sqlstate.Code
		later     bool
	}{
		{"of a later version's kind", `{"f":1,"Oracle":{"ID":900,"Version":1,"Name":"odd"}}`, sqlstate.FeatureNotSupported, true},
		{"damaged", `{"f":1,"Table":{"ID":`, sqlstate.DataCorrupted, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 1, false)
				defer c.stop()
				first := c.nodes[0]
				first.create(t, "t")
				id := first.create(t, "odd")
				// The row is written below the catalogue, as by a later version that did not wait until it was active.
				err := first.db.Run(context.Background(), txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
					var b txn.WriteBatch
					b.Put(encoding.AppendUint(keys.IndexPrefix(catalog.DescriptorTableID, catalog.IndexID(1)), uint64(id), encoding.Ascending), []byte(x.row))
					return tx.Write(ctx, &b)
				})
				if err != nil {
					t.Fatal(err)
				}
				// Another node is started, and reads the whole catalogue.
				h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "n2", Network: sim.NewNetwork(sim.NetworkOptions{Seed: 2}), Seed: 2})
				t.Cleanup(h.Group.Stop)
				ck := clock.New(h.Clock, clock.DefaultMaxOffset)
				two := func() kv.NodeID { return 2 }
				second := &node{id: 2, h: h, db: txn.NewDB(txn.Options{Sender: c.fake, Clock: ck, Host: h, NodeID: two})}
				second.m = lease.New(lease.Options{DB: second.db, Clock: ck, Host: h, NodeID: two})
				c.nodes = append(c.nodes, second)
				if err := second.m.Start(context.Background()); err != nil {
					t.Fatalf("the catalogue can't be read: %v", err)
				}
				begun := time.Now()
				_, err = second.find("odd")
				var got *sqlstate.Error
				if !errors.As(err, &got) || got.Code != x.code || errors.As(err, new(*wire.VersionError)) != x.later || x.later && got.Hint == "" {
					t.Errorf("the object is named: %v", err)
				}
				if took := time.Since(begun); took > time.Second {
					t.Errorf("the answer took %s", took)
				}
				if d, err := second.find("t"); err != nil || d == nil {
					t.Errorf("another object: %v, %v", d, err)
				}
				begun = time.Now()
				second.create(t, "u")
				if d, err := first.find("u"); err != nil || d == nil {
					t.Errorf("a new object: %v, %v", d, err)
				}
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("the change took %s", took)
				}
			})
		})
	}
}
