package lease

import (
	"encoding/json"
	"fmt"

	"meridian/encoding"
	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// format is the version of the stored form. A reader refuses a greater one.
const format = 1

// Descriptor is anything that has an identity and versions; one field is set.
type Descriptor struct {
	Format   int               `json:"f"`
	Database *catalog.Database `json:",omitempty"`
	Schema   *catalog.Schema   `json:",omitempty"`
	Table    *catalog.Table    `json:",omitempty"`
	User     *catalog.User     `json:",omitempty"`
	Settings *Settings         `json:",omitempty"`
	ACL      *catalog.ACL      `json:",omitempty"`
	Type     *catalog.Type     `json:",omitempty"`
}

// Settings are the cluster's settings: one descriptor, with catalog.SettingsTableID as its identity.
type Settings struct {
	Version uint64
	Values  map[string]string
	// Secret is random bytes that were drawn when the cluster began. No statement shows them.
	Secret []byte `json:",omitempty"`
	// Grants on the virtual schemas and other things of the cluster would go here.
}

// ID is the descriptor's identity.
func (d *Descriptor) ID() catalog.ID {
	switch {
	case d.Database != nil:
		return d.Database.ID
	case d.Schema != nil:
		return d.Schema.ID
	case d.Table != nil:
		return d.Table.ID
	case d.User != nil:
		return d.User.ID
	case d.ACL != nil:
		return catalog.ACLID(d.ACL.Object)
	case d.Type != nil:
		return d.Type.ID
	}
	return catalog.SettingsTableID
}

// Version is the descriptor's version.
func (d *Descriptor) Version() uint64 { return *d.version() }

func (d *Descriptor) version() *uint64 {
	switch {
	case d.Database != nil:
		return &d.Database.Version
	case d.Schema != nil:
		return &d.Schema.Version
	case d.Table != nil:
		return &d.Table.Version
	case d.User != nil:
		return &d.User.Version
	case d.ACL != nil:
		return &d.ACL.Version
	case d.Type != nil:
		return &d.Type.Version
	}
	return &d.Settings.Version
}

// dropped descriptors have no name.
func (d *Descriptor) dropped() bool {
	switch {
	case d.Database != nil:
		return d.Database.Dropped
	case d.Schema != nil:
		return d.Schema.Dropped
	case d.Table != nil:
		return d.Table.Dropped
	case d.User != nil:
		return d.User.Dropped
	case d.ACL != nil:
		return d.ACL.Dropped
	case d.Type != nil:
		return d.Type.Dropped
	}
	return false
}

// nameKey is what a name is looked up by. Databases have neither database nor schema; roles have schema 1.
type nameKey struct {
	database, schema catalog.ID
	name             string
}

const roleNames catalog.ID = 1

// typeName is the key of a type's name: types and relations may share one.
func typeName(database, schema catalog.ID, name string) nameKey {
	return nameKey{database, schema, "\x00type " + name}
}

// names are the names that the descriptor takes: its own, and those of its indexes, which PostgreSQL keeps among the
// relations.
func (d *Descriptor) names() []nameKey {
	switch {
	case d.dropped():
	case d.Database != nil:
		return []nameKey{{name: d.Database.Name}}
	case d.Schema != nil:
		return []nameKey{{database: d.Schema.Database, name: d.Schema.Name}}
	case d.User != nil:
		return []nameKey{{schema: roleNames, name: d.User.Name}}
	case d.Type != nil:
		return []nameKey{typeName(d.Type.Database, d.Type.SchemaID, d.Type.Enum.Name)}
	case d.Table != nil:
		t := d.Table
		out := append(make([]nameKey, 0, 1+len(t.Indexes)), nameKey{t.Database, t.Schema, t.Name})
		for i := range t.Indexes {
			if x := &t.Indexes[i]; x.Name != "" && x.State != catalog.Absent && !(x.Primary && t.ImplicitPrimary) {
				out = append(out, nameKey{t.Database, t.Schema, x.Name})
			}
		}
		return out
	}
	return nil
}

func (d *Descriptor) encode() ([]byte, error) {
	c := *d
	c.Format = format
	return json.Marshal(&c)
}

func decodeDescriptor(b []byte) (*Descriptor, error) {
	d := &Descriptor{}
	if err := json.Unmarshal(b, d); err != nil {
		return nil, &sqlstate.Error{Code: sqlstate.DataCorrupted, Message: "catalogue: malformed descriptor", Cause: err}
	}
	if d.Format > format {
		return nil, sqlstate.New(sqlstate.DataCorrupted, "catalogue: descriptor of format %d, written by a newer version", d.Format)
	}
	set := 0
	for _, have := range []bool{d.Database != nil, d.Schema != nil, d.Table != nil, d.User != nil, d.Settings != nil, d.ACL != nil, d.Type != nil} {
		if have {
			set++
		}
	}
	if set != 1 {
		return nil, sqlstate.New(sqlstate.DataCorrupted, "catalogue: malformed descriptor")
	}
	return d, nil
}

// clone copies a descriptor so that the copy may be changed.
func (d *Descriptor) clone() *Descriptor {
	b, err := d.encode()
	if err != nil {
		panic(fmt.Sprintf("catalogue: %v", err))
	}
	c, err := decodeDescriptor(b)
	if err != nil {
		panic(fmt.Sprintf("catalogue: %v", err))
	}
	return c
}

func descriptorKey(id catalog.ID) keys.Key {
	return encoding.AppendUint(keys.IndexPrefix(catalog.DescriptorTableID, catalog.IndexID(1)), uint64(id), encoding.Ascending)
}

func descriptorSpan() keys.Span { return keys.IndexSpan(catalog.DescriptorTableID, catalog.IndexID(1)) }

func nameRowKey(n nameKey) keys.Key {
	k := keys.IndexPrefix(catalog.NamespaceTableID, catalog.IndexID(1))
	k = encoding.AppendUint(k, uint64(n.database), encoding.Ascending)
	k = encoding.AppendUint(k, uint64(n.schema), encoding.Ascending)
	return encoding.AppendString(k, n.name, encoding.Ascending)
}

func statisticsKey(id catalog.ID) keys.Key {
	return encoding.AppendUint(keys.IndexPrefix(catalog.StatisticsTableID, catalog.IndexID(1)), uint64(id), encoding.Ascending)
}

func statisticsSpan() keys.Span { return keys.IndexSpan(catalog.StatisticsTableID, catalog.IndexID(1)) }

func tenureKey(node uint32) keys.Key {
	return encoding.AppendUint(keys.IndexPrefix(catalog.LeaseTableID, catalog.IndexID(1)), uint64(node), encoding.Ascending)
}

func tenureSpan() keys.Span { return keys.IndexSpan(catalog.LeaseTableID, catalog.IndexID(1)) }

func pendingKey(id catalog.ID) keys.Key {
	return encoding.AppendUint(keys.IndexPrefix(catalog.LeaseTableID, catalog.IndexID(2)), uint64(id), encoding.Ascending)
}

func pendingSpan() keys.Span { return keys.IndexSpan(catalog.LeaseTableID, catalog.IndexID(2)) }

// lastID is the identity at the end of a descriptor, statistics, tenure or pending key.
func lastID(k keys.Key) (uint32, error) {
	_, _, rest, err := keys.DecodeIndexKey(k)
	if err != nil {
		return 0, err
	}
	v, _, err := encoding.DecodeUint(rest, encoding.Ascending)
	return uint32(v), err
}

func nameValue(id catalog.ID) []byte { return encoding.AppendUint(nil, uint64(id), encoding.Ascending) }

func decodeNameValue(b []byte) (catalog.ID, error) {
	v, _, err := encoding.DecodeUint(b, encoding.Ascending)
	return catalog.ID(v), err
}
