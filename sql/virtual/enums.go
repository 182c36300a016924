package virtual

import (
	"slices"
	"strings"

	"meridian/sql/catalog"
	"meridian/sql/parse"
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

// enumNamed finds an enum by the name of a type, with or without a schema and [].
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

// rowNamed is the type of a relation's rows, or of arrays of them, by the name of the relation; nil if there is none.
func (f *Functions) rowNamed(parts []string, array bool) *types.T {
	last := parts[len(parts)-1]
	find := func(name string) *catalog.Table {
		id, err := f.relation(append(slices.Clone(parts[:len(parts)-1]), name))
		if err != nil || id == 0 {
			return nil
		}
		if t := f.table(id); t != nil && t.Kind != catalog.KindSequence {
			return t
		}
		return nil
	}
	t := find(last)
	if t == nil && strings.HasPrefix(last, "_") && len(last) > 1 {
		t, array = find(last[1:]), true
	}
	if t == nil {
		return nil
	}
	row := t.RowType(f.relationName(t))
	if array && row.ArrayOID() != 0 {
		return types.ArrayOf(row)
	}
	return row
}

// rowTypes adds the types of relations' rows, and of arrays of them, to pg_type.
func (r *reading) rowTypes() error {
	all, err := r.relations()
	if err != nil {
		return err
	}
	users, err := r.userIDs()
	if err != nil {
		return err
	}
	put := func(t *catalog.Table, owner any) {
		oid, array := t.RowTypeOID(), t.RowArrayOID()
		if oid != 0 && !r.skip(oid) {
			r.add("oid", oid, "typname", t.Name, "typnamespace", t.Schema, "typowner", owner, "typlen", -1, "typbyval", false, "typtype", "c",
				"typcategory", "C", "typispreferred", false, "typisdefined", true, "typdelim", ",", "typrelid", t.ID, "typelem", 0, "typarray", array,
				"typinput", "record_in", "typoutput", "record_out", "typreceive", "record_recv", "typsend", "record_send", "typalign", "d", "typstorage", "x",
				"typtypmod", -1, "typcollation", 0)
		}
		if array != 0 && !r.skip(array) {
			r.add("oid", array, "typname", t.RowArrayName(), "typnamespace", t.Schema, "typowner", owner, "typlen", -1, "typbyval", false, "typtype", "b",
				"typcategory", "A", "typispreferred", false, "typisdefined", true, "typdelim", ",", "typelem", oid, "typarray", 0, "typinput", "array_in",
				"typoutput", "array_out", "typreceive", "array_recv", "typsend", "array_send", "typalign", "d", "typstorage", "x", "typtypmod", -1, "typcollation", 0)
		}
	}
	for _, t := range all {
		put(t, ownerID(users, t.Owner))
	}
	for _, t := range r.computed() {
		if t.Schema != InternalSchemaID {
			put(t, bootstrapRole)
		}
	}
	return nil
}

// shown is a stored text as shown to users, with types and relations by name.
func (f *Functions) shown(text string) string {
	text = renamed(text, func(id uint32) string { return f.RegName(types.KindRegClass, id) })
	return parse.TypeReferences(text, func(r parse.TypeReference) (string, string) {
		if t := f.enum(r.OID); t != nil {
			return r.Literal, f.typeName(t)
		}
		return r.Literal, ""
	})
}

// typeName is the name of a type, with its schema if its name alone would not find it.
func (f *Functions) typeName(t *types.T) string {
	switch {
	case t.Kind == types.KindArray && t.Elem != nil && t.Elem.Kind == types.KindEnum:
		return f.typeName(t.Elem) + "[]"
	case t.Kind == types.KindEnum && !f.TypeIsVisible(t.OID()):
		return Quote(t.Enum.Schema) + "." + t.String()
	}
	return t.String()
}

// TypeIsVisible reports whether the name of a type alone finds it. The transaction does not rely on the type
// (virtual.V2).
func (f *Functions) TypeIsVisible(oid uint32) bool {
	v, ok := f.view.(catalog.TypeView)
	if !ok || oid < uint32(catalog.FirstUserID) {
		return true
	}
	all, err := v.Types(f.ctx)
	if err != nil {
		return true
	}
	i := slices.IndexFunc(all, func(t *catalog.Type) bool { return t.Enum.ID == oid || t.Enum.Array == oid })
	if i < 0 {
		return true
	}
	t := all[i]
	if catalog.IsLocal(t.ID) {
		return true
	}
	if slices.ContainsFunc(all, func(o *catalog.Type) bool { return catalog.IsLocal(o.ID) && o.Enum.Name == t.Enum.Name }) {
		return false
	}
	for _, s := range f.view.SearchPath() {
		if s == t.Enum.Schema {
			return true
		}
		if slices.ContainsFunc(all, func(o *catalog.Type) bool { return o.Enum.Schema == s && o.Enum.Name == t.Enum.Name }) {
			return false
		}
	}
	return false
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
				"typoutput", "enum_out", "typreceive", "enum_recv", "typsend", "enum_send", "typalign", "i", "typstorage", "p", "typtypmod", -1, "typcollation", 0, "typacl", r.acl(t.ID))
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
		i := 0
		for _, v := range t.Enum.Values {
			if v.State != types.ValueReadable && v.State != types.ValueLeaving {
				i++
				r.add("oid", v.OID, "enumtypid", t.Enum.ID, "enumsortorder", float64(i), "enumlabel", v.Label)
			}
		}
	}
	return nil
}
