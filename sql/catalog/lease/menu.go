package lease

import (
	"context"
	"slices"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
)

// placements are the options of the placement menu that a descriptor names.
func (d *Descriptor) placements() (out []string) {
	switch {
	case d == nil || d.dropped():
	case d.Database != nil && d.Database.Placement != "":
		out = append(out, d.Database.Placement)
	case d.Table != nil:
		d.Table.EachPlacement(func(_ *catalog.Index, _ *catalog.Bound, p string) { out = append(out, p) })
	}
	return out
}

// pinPlacements keeps objects from naming options that are gone (lease.L14), as pinRoles does roles: a transaction that gives something an option reads the descriptor with the
// menu, and one that drops an option reads all descriptors, so that of two such transactions one fails.
func (t *Txn) pinPlacements(ctx context.Context) error {
	var named, going []string
	for _, id := range t.order {
		e := t.edits[id]
		old := e.base.placements()
		for _, p := range e.now.placements() {
			if !slices.Contains(old, p) {
				named = append(named, p)
			}
		}
		if e.now.Settings != nil && e.base != nil {
			for p := range e.base.Settings.Placements {
				if e.now.Settings.Placements[p] == nil {
					going = append(going, p)
				}
			}
		}
	}
	if e, edited := t.edits[catalog.SettingsTableID]; len(named) > 0 {
		menu := &Settings{}
		if edited {
			menu = e.now.Settings // the transaction writes it
		} else if v, err := t.tx.GetMany(ctx, []keys.Key{descriptorKey(catalog.SettingsTableID)}, kv.NoLock, kv.Block); err != nil {
			return err
		} else if v[0] != nil {
			d, err := t.m.decode(v[0])
			if err != nil {
				return err
			}
			menu = d.Settings
		}
		if slices.ContainsFunc(named, func(p string) bool { return menu.Placements[p] == nil }) {
			t.blocked = append(t.blocked, catalog.Dependency{ID: catalog.SettingsTableID})
		}
	}
	if len(going) > 0 {
		err := scanAll(ctx, t.tx, descriptorSpan(), func(r kv.KeyValue) error {
			d, err := t.m.decode(r.Value)
			if err != nil {
				return err
			}
			if e, ok := t.edits[d.ID()]; ok {
				d = e.now
			}
			if slices.ContainsFunc(d.placements(), func(p string) bool { return slices.Contains(going, p) }) {
				t.blocked = append(t.blocked, catalog.Dependency{ID: d.ID()})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(t.blocked) > 0 {
		return errStale("A placement was dropped, or given to something, by another transaction.")
	}
	return nil
}
