package lease_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/leader/gateway"
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
				second := &node{id: 2, h: h, db: txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: c.fake, Clock: ck, Host: h, NodeID: two})}
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

// TestUnreadableRowsOfChanges: a pending change that can't be read is in the log once, though every poll meets it, and once more when it is
// another one. A change that can't be confirmed, since it can't be read what a node uses, says so at once instead of waiting for the row.
func TestUnreadableRowsOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, false)
		defer c.stop()
		first := c.nodes[0]
		id := first.create(t, "t")
		put := func(index catalog.IndexID, k uint64, row []byte) {
			t.Helper()
			if err := first.db.Put(context.Background(), encoding.AppendUint(keys.IndexPrefix(catalog.LeaseTableID, index), k, encoding.Ascending), row); err != nil {
				t.Fatal(err)
			}
		}
		var log bytes.Buffer
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "n2", Network: sim.NewNetwork(sim.NetworkOptions{Seed: 2}), Seed: 2,
			Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		ck := clock.New(h.Clock, clock.DefaultMaxOffset)
		two := func() kv.NodeID { return 2 }
		m := lease.New(lease.Options{DB: txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: c.fake, Clock: ck, Host: h, NodeID: two}), Clock: ck, Host: h, NodeID: two})
		if err := m.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			put(2, 950, wire.Uint(nil, 9001, uint64(i+1)))
			time.Sleep(time.Minute)
		}
		h.Group.Stop()
		if n := strings.Count(log.String(), "can't be read"); n != 2 {
			t.Errorf("%d warnings of two changes:\n%s", n, log.String())
		}
		for _, x := range []struct {
			row  []byte
			code sqlstate.Code
		}{{wire.Uint(nil, 9001, 1), sqlstate.FeatureNotSupported}, {[]byte("\x0a"), sqlstate.DataCorrupted}} {
			put(1, 9, x.row)
			begun := time.Now()
			var got *sqlstate.Error
			if err := first.rename(id, "u"); !errors.As(err, &got) || got.Code != x.code {
				t.Errorf("a change that can't be confirmed: %v", err)
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("the answer took %s", took)
			}
		}
	})
}
