package catalog

import (
	"bytes"
	"slices"
)

// NamedZones are the configurations that have names.
type NamedZones struct {
	// Ranges are from ALTER RANGE ... CONFIGURE ZONE, by the name of the range (DefaultRange).
	Ranges map[string]*ZoneConfig
	// Placements is the placement menu: options from CREATE PLACEMENT, by their names. Each has the numbers of replicas and all three lists of constraints.
	Placements map[string]*ZoneConfig
}

// Directory is the unit of placement (Spanner §2.2): the keys of a table's primary index with a common prefix, of whole values, that have a placement of their own. The prefix
// is that of each key in it, whatever table the row is of.
type Directory struct {
	// Prefix is the values of the first key columns.
	Prefix Bound
	// Placement is the option of the placement menu; empty: Zone is the configuration.
	Placement string
	// Zone is that of a directory whose index or table is dropped: it does not depend on the menu any more (region.RG1).
	Zone *ZoneConfig `json:",omitempty"`
}

// Option is the configuration that a directory has of its own.
func (d *Directory) Option(menu map[string]*ZoneConfig) *ZoneConfig {
	if d.Placement == "" {
		return d.Zone
	}
	return menu[d.Placement]
}

// Unname replaces the option of a database that is dropped by the configuration that it stands for.
func (d *Database) Unname(menu map[string]*ZoneConfig) {
	d.Zone, d.Placement = d.Zone.Over(menu[d.Placement]), ""
}

// Unname replaces the options of a table that is dropped by the configurations that they stand for.
func (t *Table) Unname(menu map[string]*ZoneConfig) {
	t.Zone, t.Placement = t.Zone.Over(menu[t.Placement]), ""
	for i := range t.Indexes {
		t.Indexes[i].Unname(menu)
	}
}

// Unname replaces the options of the directories of an index that is gone.
func (x *Index) Unname(menu map[string]*ZoneConfig) {
	x.Directories = slices.Clone(x.Directories)
	for i := range x.Directories {
		d := &x.Directories[i]
		d.Zone, d.Placement = d.Option(menu), ""
	}
}

// Directory finds the directory with exactly a prefix; nil if it has no placement of its own.
func (x *Index) Directory(prefix []byte) *Directory {
	for i := range x.Directories {
		if bytes.Equal(x.Directories[i].Prefix.Key, prefix) {
			return &x.Directories[i]
		}
	}
	return nil
}

// SetDirectory gives a directory a placement; an empty one takes its placement away.
func (x *Index) SetDirectory(d Directory) {
	i, found := slices.BinarySearchFunc(x.Directories, d, func(a, b Directory) int { return bytes.Compare(a.Prefix.Key, b.Prefix.Key) })
	all := slices.Clone(x.Directories)
	switch {
	case found && d.Placement == "":
		all = slices.Delete(all, i, i+1)
	case found:
		all[i] = d
	case d.Placement != "":
		all = slices.Insert(all, i, d)
	}
	if x.Directories = all; len(all) == 0 {
		x.Directories = nil
	}
}

// DirectoryColumns is how many of the first key columns the directories of an index are told apart by: of those, types and order may not change.
func (x *Index) DirectoryColumns() (n int) {
	for i := range x.Directories {
		n = max(n, x.Directories[i].Prefix.Values)
	}
	return n
}

// EachPlacement calls f for each option of the placement menu that a table names; prefix is empty for the table itself.
func (t *Table) EachPlacement(f func(x *Index, prefix *Bound, placement string)) {
	if t.Placement != "" {
		f(nil, nil, t.Placement)
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		for d := range x.Directories {
			if p := x.Directories[d].Placement; p != "" {
				f(x, &x.Directories[d].Prefix, p)
			}
		}
	}
}
