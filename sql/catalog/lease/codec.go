package lease

import (
	"encoding/json"
	"errors"
	"fmt"

	"meridian/encoding"
	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/version"
	"meridian/wire"
)

// format is the version of the stored form. A reader refuses a greater one.
const format = 1

// Descriptor is anything that has an identity and versions; one field is set.
type Descriptor struct {
	Format int `json:"f"`
	// Needs is the version of which a reader has to be; zero: any.
	Needs    version.Version   `json:"needs,omitzero"`
	Database *catalog.Database `json:",omitempty"`
	Schema   *catalog.Schema   `json:",omitempty"`
	Table    *catalog.Table    `json:",omitempty"`
	User     *catalog.User     `json:",omitempty"`
	Settings *Settings         `json:",omitempty"`
	ACL      *catalog.ACL      `json:",omitempty"`
	Type     *catalog.Type     `json:",omitempty"`

	// later says that a later version has written something that this one does not know: the known part may be shown, but the descriptor may be neither
	// used nor changed (lease.L10).
	later *wire.VersionError
}

// unusable is the error of a statement that would use or change the descriptor; nil: it may.
func (d *Descriptor) unusable() error {
	if d == nil || d.later == nil {
		return nil
	}
	what := "a descriptor"
	switch {
	case d.Database != nil:
		what = fmt.Sprintf("database \"%s\"", d.Database.Name)
	case d.Schema != nil:
		what = fmt.Sprintf("schema \"%s\"", d.Schema.Name)
	case d.Table != nil:
		what = fmt.Sprintf("relation \"%s\"", d.Table.Name)
	case d.User != nil:
		what = fmt.Sprintf("role \"%s\"", d.User.Name)
	case d.Settings != nil:
		what = "the cluster settings"
	case d.ACL != nil:
		what = fmt.Sprintf("the privileges on object %d", d.ACL.Object)
	case d.Type != nil:
		what = fmt.Sprintf("type \"%s\"", d.Type.Enum.Name)
	}
	e := sqlstate.New(sqlstate.FeatureNotSupported, "%s was changed by a later version of Meridian than this node's", what)
	e.Cause, e.Hint = d.later, "Use a node of the later version, or upgrade this one."
	if d.later.Needs != "" {
		e.Hint = fmt.Sprintf("Use a node of version %s or later, or upgrade this one.", d.later.Needs)
	}
	if d.later.Cause != nil {
		e.Detail = "Its descriptor contains something that this version does not know: " + d.later.Cause.Error() + "."
	}
	return e
}

// Settings are the cluster's settings: one descriptor, with catalog.SettingsTableID as its identity.
type Settings struct {
	Version uint64
	Values  map[string]string
	// Zones are from ALTER RANGE ... CONFIGURE ZONE, by the name of the range (catalog.DefaultRange).
	Zones map[string]*catalog.ZoneConfig `json:",omitempty"`
	// Placements is the placement menu, from CREATE PLACEMENT.
	Placements map[string]*catalog.ZoneConfig `json:",omitempty"`
	// Secret is random bytes that were drawn when the cluster began. No statement shows them.
	Secret []byte `json:",omitempty"`
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

// nameKey is the key by which a name is looked up. Databases have neither database nor schema; roles have schema 1.
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
			if x := &t.Indexes[i]; x.Name != "" && !(x.Primary && t.ImplicitPrimary) {
				out = append(out, nameKey{t.Database, t.Schema, x.Name})
			}
		}
		return out
	}
	return nil
}

func (d *Descriptor) encode() ([]byte, error) {
	if err := d.unusable(); err != nil {
		return nil, err // the part that this version does not know would be lost
	}
	c := *d
	c.Format = format
	return json.Marshal(&c)
}

// decode reads a descriptor's row as the node's binary does, which in a test may be an earlier one than this build.
func (m *Manager) decode(b []byte) (*Descriptor, error) {
	return decodeDescriptor(b, m.o.Version.Binary().Own)
}

// decodeDescriptor reads a descriptor's row for a binary of a version. One that a later version has written is unusable, and has only its known
// members: its identity, version and name never change their form. For a descriptor of an unknown kind the error is a *wire.VersionError.
func decodeDescriptor(b []byte, own version.Version) (*Descriptor, error) {
	d := &Descriptor{}
	if err := wire.JSON(b, "catalogue descriptor", d); err != nil && !errors.As(err, &d.later) {
		return nil, &sqlstate.Error{Code: sqlstate.DataCorrupted, Message: "catalogue: malformed descriptor", Cause: err}
	}
	if d.later == nil && (d.Format > format || own.Less(d.Needs)) {
		d.later = &wire.VersionError{Message: "catalogue descriptor", Needs: d.Needs.String()}
	}
	set := 0
	for _, have := range []bool{d.Database != nil, d.Schema != nil, d.Table != nil, d.User != nil, d.Settings != nil, d.ACL != nil, d.Type != nil} {
		if have {
			set++
		}
	}
	if set == 0 && d.later != nil {
		return nil, d.later
	}
	if set != 1 {
		return nil, sqlstate.New(sqlstate.DataCorrupted, "catalogue: malformed descriptor")
	}
	if db := d.Database; db != nil && len(db.Regions) == 0 {
		db.PrimaryRegion = "" // databases had the region of the first node, before they had regions
	}
	return d, nil
}

// clone copies a descriptor so that the copy may be changed.
func (d *Descriptor) clone() *Descriptor {
	b, err := json.Marshal(d)
	if err != nil {
		panic(fmt.Sprintf("catalogue: %v", err))
	}
	c, err := decodeDescriptor(b, d.Needs)
	if err != nil {
		panic(fmt.Sprintf("catalogue: %v", err))
	}
	c.later = d.later // a copy can't be written either
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

func changesKey(id catalog.ID) keys.Key {
	return encoding.AppendUint(keys.IndexPrefix(catalog.StatisticsTableID, catalog.IndexID(2)), uint64(id), encoding.Ascending)
}

func collectorKey() keys.Key {
	return encoding.AppendUint(keys.IndexPrefix(catalog.StatisticsTableID, catalog.IndexID(3)), 1, encoding.Ascending)
}

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
