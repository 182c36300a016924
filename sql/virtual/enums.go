package virtual

import (
	"strings"

	"meridian/sql/catalog"
	"meridian/sql/types"
)

// enum finds an enum, or the type of its arrays, by its OID; nil if there is none.
func (f *Functions) enum(oid uint32) *types.T {
	v, ok := f.view.(catalog.TypeView)
	if !ok || oid < uint32(catalog.FirstUserID) {
		return nil
	}
	t, err := v.TypeByID(f.ctx, catalog.ID(oid))
	if err != nil || t == nil {
		return nil
	}
	return enumOrArray(t, t.Enum.Array == oid)
}

func enumOrArray(t *catalog.Type, array bool) *types.T {
	if array {
		return types.ArrayOf(types.EnumOf(&t.Enum))
	}
	return types.EnumOf(&t.Enum)
}

// enumNamed finds an enum by its name as a type's name is written: with a schema, or [], or not.
func (f *Functions) enumNamed(name string) *types.T {
	v, ok := f.view.(catalog.TypeView)
	if !ok {
		return nil
	}
	name, array := strings.CutSuffix(strings.TrimSpace(name), "[]")
	parts, err := SplitName(name)
	if err != nil || len(parts) == 0 || len(parts) > 2 {
		return nil
	}
	schema, last := "", parts[len(parts)-1]
	if len(parts) == 2 {
		schema = parts[0]
	}
	t, err := v.Type(f.ctx, schema, last)
	if err == nil && t == nil && strings.HasPrefix(last, "_") {
		t, err = v.Type(f.ctx, schema, last[1:])
		array = true
	}
	if err != nil || t == nil {
		return nil
	}
	return enumOrArray(t, array)
}

// enums are the enums of the database.
func (r *reading) enums() ([]*catalog.Type, error) {
	v, ok := r.view.(catalog.TypeView)
	if !ok {
		return nil, nil
	}
	return v.Types(r.ctx)
}

// enumTypes adds the enums and their arrays to pg_type.
func (r *reading) enumTypes() error {
	all, err := r.enums()
	if err != nil {
		return err
	}
	users, err := r.userIDs()
	if err != nil {
		return err
	}
	for _, t := range all {
		owner := ownerID(users, t.Owner)
		if !r.skip(t.Enum.ID) {
			r.add("oid", t.Enum.ID, "typname", t.Enum.Name, "typnamespace", t.SchemaID, "typowner", owner, "typlen", 4, "typbyval", true, "typtype", "e",
				"typcategory", "E", "typispreferred", false, "typisdefined", true, "typdelim", ",", "typelem", 0, "typarray", t.Enum.Array, "typinput", "enum_in",
				"typoutput", "enum_out", "typreceive", "enum_recv", "typsend", "enum_send", "typalign", "i", "typstorage", "p", "typtypmod", -1, "typcollation", 0)
		}
		if !r.skip(t.Enum.Array) {
			r.add("oid", t.Enum.Array, "typname", "_"+t.Enum.Name, "typnamespace", t.SchemaID, "typowner", owner, "typlen", -1, "typbyval", false, "typtype", "b",
				"typcategory", "A", "typispreferred", false, "typisdefined", true, "typdelim", ",", "typelem", t.Enum.ID, "typarray", 0, "typinput", "array_in",
				"typoutput", "array_out", "typreceive", "array_recv", "typsend", "array_send", "typalign", "i", "typstorage", "x", "typtypmod", -1, "typcollation", 0)
		}
	}
	return nil
}

func pgEnum(r *reading) error {
	all, err := r.enums()
	if err != nil {
		return err
	}
	for _, t := range all {
		for i, v := range t.Enum.Values {
			r.add("oid", v.OID, "enumtypid", t.Enum.ID, "enumsortorder", float64(i+1), "enumlabel", v.Label)
		}
	}
	return nil
}
