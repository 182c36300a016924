package lease

import (
	"context"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// Reserve publishes the configuration of a table's ranges before the transaction that makes the table commits, or writes a row into it: a descriptor without a name, in
// a transaction of its own. It returns when every node uses it. also is run in that transaction if the table had none before; it sees to the removal (Unreserve).
//
//	lease.L13: The table's descriptor replaces the reservation, and the commit fails if that has gone. So either of commit and removal happens.
func (t *Txn) Reserve(ctx context.Context, table *catalog.Table, also func(ctx context.Context, tx *txn.Txn) error) error {
	e, ok := t.edits[table.ID]
	if !ok || e.base != nil {
		return sqlstate.New(sqlstate.InternalError, "lease: a reservation for a table that is not new: %s", table.Name)
	}
	var version uint64
	err := t.m.Change(ctx, func(ctx context.Context, tx *txn.Txn, cat *Txn) error {
		r := catalog.Table{ID: table.ID, Name: table.Name, Database: table.Database, Schema: table.Schema, Kind: table.Kind, Owner: table.Owner, Columns: table.Columns,
			Indexes: table.Indexes, Locality: table.Locality, RegionColumn: table.RegionColumn, Zone: table.Zone, Protocol: table.Protocol, Ballots: table.Ballots, Gamma: table.Gamma,
			NextColumn: table.NextColumn, NextIndex: table.NextIndex, NextConstr: table.NextConstr, Dropped: true, Reserved: true}
		d := (&Descriptor{Table: &r}).clone()
		if now := cat.Table(table.ID); now != nil {
			if !now.Reserved {
				return sqlstate.New(sqlstate.InternalError, "lease: table %d is there already", table.ID)
			}
			d.Table.Version = now.Version
			*now = *d.Table
			version = now.Version
			return nil
		}
		cat.New(*d)
		version = 1
		return also(ctx, tx)
	})
	if err != nil {
		return err
	}
	// The publication of a first version does not wait for each node (waitForOthers).
	if err := t.m.Everywhere(ctx, catalog.Dependency{ID: table.ID, Version: version}); err != nil {
		return err
	}
	row, err := t.m.o.DB.Get(ctx, descriptorKey(table.ID))
	if err != nil {
		return err
	}
	if row == nil {
		return errStale("A reservation of ranges was removed.")
	}
	e.reserved = row
	*e.now.version() = version + 1
	return nil
}

// Unreserve removes a reservation whose transaction has not committed; removed is false if it has.
func (m *Manager) Unreserve(ctx context.Context, id catalog.ID) (removed bool, err error) {
	err = m.o.DB.Run(ctx, txn.TxnOptions{Name: "forget"}, func(ctx context.Context, tx *txn.Txn) error {
		removed = false
		row, err := tx.Get(ctx, descriptorKey(id), kv.NoLock, kv.Block)
		if err != nil || row == nil {
			return err
		}
		d, err := m.decode(row)
		if err != nil || d.Table == nil || !d.Table.Reserved {
			return err
		}
		removed = true
		var b txn.WriteBatch
		b.Delete(descriptorKey(id))
		return tx.Write(ctx, &b)
	})
	if err == nil && removed {
		m.apply([]change{{id: id}})
	}
	return removed, err
}
