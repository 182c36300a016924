package schemachange

import (
	"context"
	"slices"

	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
)

// atOnce leaves out the states that only keep writes with two versions from harming each other, if the version is valid from a registered time on (lease.L15).
//
//	add an index    absent -> write-only -> (fill) -> public
//	drop an index   public -> absent -> (data removed)
//	add a column    absent -> public
//	drop a column   public -> absent
//
//	schemachange.SC14 (I7): A write with the version before comes before all reads and writes with the next one, so neither leaves behind what the other does not know. A
//	    read with the version before finds an index complete as long as its timestamp is before the next one: where snapshots may move up while they are used (of
//	    transactions that are not externally consistent), an index or a column is dropped in steps, as ever. The data of a dropped part stays until no transaction uses the version before.
func atOnce(cat *lease.Txn, t *catalog.Table) {
	registers, exact := cat.Registering()
	if !registers {
		return
	}
	fresh := slices.DeleteFunc(slices.Clone(t.Mutations), func(m catalog.Mutation) bool { return m.Job != 0 })
	onlyColumns := !slices.ContainsFunc(fresh, func(m catalog.Mutation) bool { return m.Kind != catalog.MutateColumn || m.Drop })
	var drops []catalog.Mutation
	for _, m := range fresh {
		switch {
		case m.Drop && (m.Kind == catalog.MutateIndex || m.Kind == catalog.MutateColumn):
			drops = append(drops, m)
		case m.Kind == catalog.MutateIndex:
			if x := t.Index(catalog.IndexID(m.ID)); x != nil && x.State == catalog.DeleteOnly {
				x.State = catalog.WriteOnly
			}
		case m.Kind == catalog.MutateColumn && onlyColumns:
			dropMutations(t, func(o catalog.Mutation) bool { return o == m }) // it is public already, for the transaction
		}
	}
	if !exact {
		return
	}
	for len(drops) > 0 {
		advanceDrops(t, drops)
		drops = slices.DeleteFunc(drops, func(m catalog.Mutation) bool { return !slices.Contains(t.Mutations, m) })
	}
}

// unused waits until no transaction uses an earlier version of the tables whose data is to be removed (schemachange.SC14).
func (e *Executor) unused(ctx context.Context, spans []keys.Span) error {
	asked := map[catalog.ID]bool{}
	for _, s := range spans {
		n, _, _, err := keys.DecodeIndexKey(s.Start)
		id := catalog.ID(n)
		if err != nil || asked[id] {
			continue // a dropped table's own span: it was locked
		}
		asked[id] = true
		if d := e.o.Leases.Snapshot().Descriptor(id); d != nil && d.Table != nil && !d.Table.Dropped {
			if err := e.o.Leases.Unused(ctx, catalog.Dependency{ID: id, Version: d.Version()}); err != nil {
				return err
			}
		}
	}
	return nil
}
