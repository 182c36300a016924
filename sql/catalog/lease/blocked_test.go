package lease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/encoding"
	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/sqlstate"
	"meridian/txn"
	"meridian/version"
	"meridian/wire"
)

// later has a node of a later version change a table: its descriptor gets a member that this version does not know.
func (n *node) later(t *testing.T, id catalog.ID, member string) keys.Key {
	t.Helper()
	ctx := context.Background()
	key := encoding.AppendUint(keys.IndexPrefix(catalog.DescriptorTableID, catalog.IndexID(1)), uint64(id), encoding.Ascending)
	row, err := n.db.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(row, []byte(`"Version":1,`), []byte(`"Version":2,`+member), 1)
	if bytes.Equal(changed, row) {
		t.Fatalf("%s has no version 1", row)
	}
	pending := encoding.AppendUint(keys.IndexPrefix(catalog.LeaseTableID, catalog.IndexID(2)), uint64(id), encoding.Ascending)
	if err := n.db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
		var b txn.WriteBatch
		b.Put(key, changed)
		b.Put(pending, wire.Uint(nil, 1, 2))
		return tx.Write(ctx, &b)
	}); err != nil {
		t.Fatal(err)
	}
	return key
}

// TestLaterDescriptor: nodes of this version list a table that a later version has changed, but neither use nor change it; they use and change all
// others as before (lease.L10).
func TestLaterDescriptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, true)
		defer c.stop()
		ctx := context.Background()
		n1, n2 := c.nodes[0], c.nodes[1]
		future, other := n1.create(t, "future"), n1.create(t, "other")
		if _, err := n2.find("future"); err != nil {
			t.Fatal(err)
		}
		key := n1.later(t, future, `"Compression":"zstd",`)
		time.Sleep(5 * lease.DefaultPollInterval)
		before, err := n1.db.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		refused := func(what string, err error) {
			t.Helper()
			var e *sqlstate.Error
			if !errors.As(err, &e) || e.Code != sqlstate.FeatureNotSupported || !strings.Contains(e.Message, `"future"`) || !strings.Contains(e.Detail, "Compression") {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, n := range c.nodes {
			_, err := n.find("future")
			refused("found by name", err)
			refused("renamed", n.rename(future, "mine"))
			if x, err := n.find("other"); err != nil || x == nil {
				t.Errorf("another table: %v", err)
			}
			err = n.db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
				c := n.m.Begin(tx)
				defer c.Finish(ctx, false)
				all, err := c.View(info).Tables(ctx, "defaultdb")
				if !slices.ContainsFunc(all, func(x *catalog.Table) bool { return x.Name == "future" }) {
					t.Error("the table is not listed")
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		if err := n1.rename(other, "others"); err != nil {
			t.Fatal(err)
		}
		if x, err := n2.find("others"); err != nil || x == nil {
			t.Errorf("a renamed table: %v", err)
		}
		n1.create(t, "another")
		if took := time.Since(begun); took > lease.DefaultDuration/2 {
			t.Errorf("changes of other tables took %v", took)
		}
		// A node that loses its tenure, as one that starts, reads all of the catalogue.
		if err := n2.m.Start(ctx); err != nil {
			t.Fatal(err)
		}
		_, err = n2.find("future")
		refused("after a start", err)
		if after, err := n1.db.Get(ctx, key); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%v: the row became %s", err, after)
		}
	})
}

// TestLaterDescriptorSaysWhichVersion: a row says of which version its reader has to be, also if this version knows all of its members.
func TestLaterDescriptorSaysWhichVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, true)
		defer c.stop()
		n := c.nodes[0]
		id := n.create(t, "future")
		ctx := context.Background()
		key := n.later(t, id, "")
		row, err := n.db.Get(ctx, key)
		if err == nil {
			err = n.db.Put(ctx, key, append([]byte(`{"needs":"99.1",`), row[1:]...))
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * lease.DefaultPollInterval)
		_, err = n.find("future")
		var e *sqlstate.Error
		if !errors.As(err, &e) || e.Code != sqlstate.FeatureNotSupported || !strings.Contains(e.Hint, "99.1") {
			t.Fatalf("%v", err)
		}
	})
}

// TestLaterDescriptorForItsBinary: whether a row is of a later version is a matter of the node's own binary, which may be an earlier one than this build (lease.L10).
func TestLaterDescriptorForItsBinary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built := version.Built()
		c := newClusterOf(t, true, built, version.Binary{Own: version.Version{Step: 1}})
		defer c.stop()
		later, earlier := c.nodes[0], c.nodes[1]
		id := later.create(t, "t")
		key := later.later(t, id, "")
		row, err := later.db.Get(t.Context(), key)
		if err == nil {
			err = later.db.Put(t.Context(), key, append(fmt.Appendf(nil, `{"needs":%q,`, built.Own), row[1:]...))
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * lease.DefaultPollInterval)
		for _, n := range c.nodes { // as after a start: all of the catalogue is read
			if err := n.m.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if x, err := later.find("t"); err != nil || x == nil {
			t.Errorf("the later binary: %v", err)
		}
		var e *sqlstate.Error
		if _, err := earlier.find("t"); !errors.As(err, &e) || e.Code != sqlstate.FeatureNotSupported || !strings.Contains(e.Hint, built.Own.String()) {
			t.Errorf("the earlier binary: %v", err)
		}
		if err := earlier.rename(id, "mine"); !errors.As(err, &e) || e.Code != sqlstate.FeatureNotSupported {
			t.Errorf("the earlier binary changes it: %v", err)
		}
		if err := later.rename(id, "u"); err != nil {
			t.Errorf("the later binary changes it: %v", err)
		}
	})
}

// TestLaterKind: a descriptor of a kind that this version does not know hides nothing but itself.
func TestLaterKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, true)
		defer c.stop()
		n := c.nodes[0]
		n.create(t, "t")
		key := encoding.AppendUint(keys.IndexPrefix(catalog.DescriptorTableID, catalog.IndexID(1)), 5000, encoding.Ascending)
		if err := n.db.Put(context.Background(), key, []byte(`{"f":1,"Function":{"ID":5000,"Version":1,"Name":"f"}}`)); err != nil {
			t.Fatal(err)
		}
		if err := c.nodes[1].m.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		if x, err := c.nodes[1].find("t"); err != nil || x == nil {
			t.Fatal(err)
		}
		n.create(t, "u")
	})
}
