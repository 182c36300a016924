package virtual

import (
	"slices"
	"strings"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/types"
)

// The information schema (ISO/IEC 9075-11), as PostgreSQL fills it.

func isCatalogName(r *reading) error {
	r.add("catalog_name", r.view.CurrentDatabase())
	return nil
}

func isSchemata(r *reading) error {
	list, err := r.view.Schemas(r.ctx, r.view.CurrentDatabase())
	for _, s := range list {
		r.add("catalog_name", r.view.CurrentDatabase(), "schema_name", s.Name, "schema_owner", s.Owner)
	}
	return err
}

// eachVisible calls f for the relations that the user has any privilege on.
func (r *reading) eachVisible(f func(schema string, t *catalog.Table)) error {
	fn := r.functions()
	access, user := r.view.Access(), r.view.CurrentUser()
	all, err := r.relations()
	if err != nil {
		return err
	}
	names, err := r.schemaNames()
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Materialized {
			continue // the standard does not know them
		}
		o, ok := access.Object(t.ID)
		if has, _ := access.Rights(user, &o); !ok || has == 0 && !access.Owns(user, &o) {
			continue
		}
		if s := names[t.Schema]; s != nil {
			f(s.Name, t)
		}
	}
	for _, t := range r.computed() {
		f(fn.schemaName(t.Schema), t)
	}
	return nil
}

func isTables(r *reading) error {
	return r.eachVisible(func(schema string, t *catalog.Table) {
		kind, insertable := "BASE TABLE", "YES"
		switch t.Kind {
		case catalog.KindSequence:
			return
		case catalog.KindView:
			kind, insertable = "VIEW", "NO"
		case catalog.KindVirtual:
			insertable = "NO"
		default:
			if t.Temporary() {
				kind = "LOCAL TEMPORARY"
			}
		}
		r.add("table_catalog", r.view.CurrentDatabase(), "table_schema", schema, "table_name", t.Name, "table_type", kind,
			"is_insertable_into", insertable, "is_typed", "NO")
	})
}

func isColumns(r *reading) error {
	f := r.functions()
	return r.eachVisible(func(schema string, t *catalog.Table) {
		if t.Kind == catalog.KindSequence {
			return
		}
		for n, c := range visibleColumns(t) {
			ty := c.Type
			dataType := ty.Name()
			if ty.Kind == types.KindArray {
				dataType = "ARRAY"
			}
			udt := "pg_catalog"
			switch {
			case ty.Kind == types.KindEnum:
				dataType, udt = "USER-DEFINED", ty.Enum.Schema
			case ty.IsEnum():
				udt = ty.Elem.Enum.Schema
			}
			var length, octets, precision, radix, scale, datetime, text, start, increment, least, most, generation, identity any
			switch {
			case ty.Kind == types.KindVarChar || ty.Kind == types.KindBPChar:
				if ty.Width > 0 {
					length, octets = ty.Width, min(int64(ty.Width)*4, 1<<30)
				} else {
					octets = 1 << 30
				}
			case ty.Kind == types.KindText:
				octets = 1 << 30
			case ty.Kind == types.KindInt2:
				precision, radix, scale = 16, 2, 0
			case ty.Kind == types.KindInt4:
				precision, radix, scale = 32, 2, 0
			case ty.Kind == types.KindInt8:
				precision, radix, scale = 64, 2, 0
			case ty.Kind == types.KindFloat4:
				precision, radix = 24, 2
			case ty.Kind == types.KindFloat8:
				precision, radix = 53, 2
			case ty.Kind == types.KindDecimal:
				radix = 10
				if ty.Precision > 0 {
					precision, scale = ty.Precision, ty.Scale
				}
			case ty.Kind == types.KindDate:
				datetime = 0
			case ty.Kind == types.KindTime, ty.Kind == types.KindTimeTZ, ty.Kind == types.KindTimestamp, ty.Kind == types.KindTimestampTZ:
				datetime = 6
				if ty.Precision >= 0 {
					datetime = ty.Precision
				}
			case ty.Kind == types.KindInterval:
				datetime = 6
			}
			if c.Generated != "" {
				generation = f.defaultText(c)
			} else if s := f.defaultText(c); s != "" && c.Identity == 0 {
				text = s
			}
			cycle := "NO"
			if c.Identity != 0 {
				identity = map[byte]string{'a': "ALWAYS", 'd': "BY DEFAULT"}[c.Identity]
				if seq := f.table(uint32(c.OwnsSequence)); seq != nil && seq.Sequence != nil {
					start, increment = digits(seq.Sequence.Start), digits(seq.Sequence.Increment)
					least, most = digits(seq.Sequence.Min), digits(seq.Sequence.Max)
					cycle = yesNo(seq.Sequence.Cycle)
				}
			}
			generated := "NEVER"
			if generation != nil {
				generated = "ALWAYS"
			}
			r.add("table_catalog", r.view.CurrentDatabase(), "table_schema", schema, "table_name", t.Name, "column_name", c.Name,
				"ordinal_position", n+1, "column_default", text, "is_nullable", !c.NotNull, "data_type", dataType,
				"character_maximum_length", length, "character_octet_length", octets, "numeric_precision", precision,
				"numeric_precision_radix", radix, "numeric_scale", scale, "datetime_precision", datetime,
				"udt_catalog", r.view.CurrentDatabase(), "udt_schema", udt, "udt_name", ty.TypName(), "dtd_identifier", digits(int64(n+1)),
				"is_self_referencing", "NO", "is_identity", c.Identity != 0, "identity_generation", identity, "identity_start", start,
				"identity_increment", increment, "identity_maximum", most, "identity_minimum", least, "identity_cycle", cycle,
				"is_generated", generated, "generation_expression", generation, "is_updatable", t.Kind == catalog.KindTable)
		}
	})
}

func digits(v int64) string { return types.FormatText(types.NewInt(v), types.Int8, nil) }

func isViews(r *reading) error {
	return r.eachVisible(func(schema string, t *catalog.Table) {
		if t.Kind == catalog.KindView {
			r.add("table_catalog", r.view.CurrentDatabase(), "table_schema", schema, "table_name", t.Name, "view_definition", r.functions().ViewDef(uint32(t.ID), false),
				"check_option", "NONE", "is_updatable", "NO", "is_insertable_into", "NO", "is_trigger_updatable", "NO",
				"is_trigger_deletable", "NO", "is_trigger_insertable_into", "NO")
		}
	})
}

func isViewTableUsage(r *reading) error {
	f := r.functions()
	return r.eachVisible(func(schema string, t *catalog.Table) {
		for _, d := range t.DependsOn {
			if u := f.table(uint32(d)); u != nil {
				r.add("view_catalog", r.view.CurrentDatabase(), "view_schema", schema, "view_name", t.Name,
					"table_catalog", r.view.CurrentDatabase(), "table_schema", f.schemaName(u.Schema), "table_name", u.Name)
			}
		}
	})
}

func isSequences(r *reading) error {
	return r.eachVisible(func(schema string, t *catalog.Table) {
		if s := t.Sequence; t.Kind == catalog.KindSequence && !ofIdentity(r, t) {
			bits := map[types.Kind]int{types.KindInt2: 16, types.KindInt4: 32, types.KindInt8: 64}[s.Type.Kind]
			r.add("sequence_catalog", r.view.CurrentDatabase(), "sequence_schema", schema, "sequence_name", t.Name, "data_type", s.Type.Name(),
				"numeric_precision", bits, "numeric_precision_radix", 2, "numeric_scale", 0, "start_value", digits(s.Start),
				"minimum_value", digits(s.Min), "maximum_value", digits(s.Max), "increment", digits(s.Increment), "cycle_option", s.Cycle)
		}
	})
}

// ofIdentity reports whether a sequence is that of an identity column.
func ofIdentity(r *reading, t *catalog.Table) bool {
	if t.Sequence.OwnerTable == 0 {
		return false
	}
	of := r.functions().table(uint32(t.Sequence.OwnerTable))
	if of == nil {
		return false
	}
	c := of.Column(t.Sequence.OwnerColumn)
	return c != nil && c.Identity != 0
}

// constraint is one constraint as the information schema sees it.
type constraint struct {
	name, kind string
	columns    []catalog.ColumnID
	foreign    *catalog.ForeignKey
	check      *catalog.Check
	deferrable bool
	deferred   bool
}

func constraintsOf(t *catalog.Table) []constraint {
	var out []constraint
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if !shownIndex(t, x) || x.Name == "" || !x.Constraint && !x.Primary {
			continue
		}
		kind := "UNIQUE"
		if x.PrimaryKey() {
			kind = "PRIMARY KEY"
		}
		out = append(out, constraint{name: x.Name, kind: kind, columns: keyColumns(x), deferrable: x.Deferrable, deferred: x.Deferred})
	}
	for i := range t.Foreign {
		out = append(out, constraint{name: t.Foreign[i].Name, kind: "FOREIGN KEY", columns: t.Foreign[i].Columns, foreign: &t.Foreign[i],
			deferrable: t.Foreign[i].Deferrable, deferred: t.Foreign[i].Deferred})
	}
	for i := range t.Checks {
		if t.Checks[i].OID != 0 {
			out = append(out, constraint{name: t.Checks[i].Name, kind: "CHECK", columns: t.Checks[i].Columns, check: &t.Checks[i]})
		}
	}
	return out
}

func (r *reading) eachConstraint(f func(schema string, t *catalog.Table, c constraint)) error {
	return r.eachVisible(func(schema string, t *catalog.Table) {
		if t.Kind == catalog.KindTable {
			for _, c := range constraintsOf(t) {
				f(schema, t, c)
			}
		}
	})
}

func isTableConstraints(r *reading) error {
	db := r.view.CurrentDatabase()
	return r.eachConstraint(func(schema string, t *catalog.Table, c constraint) {
		r.add("constraint_catalog", db, "constraint_schema", schema, "constraint_name", c.name, "table_catalog", db, "table_schema", schema,
			"table_name", t.Name, "constraint_type", c.kind, "is_deferrable", yesNo(c.deferrable), "initially_deferred", yesNo(c.deferred), "enforced", "YES")
	})
}

func isKeyColumnUsage(r *reading) error {
	db := r.view.CurrentDatabase()
	return r.eachConstraint(func(schema string, t *catalog.Table, c constraint) {
		if c.check != nil {
			return
		}
		for i, id := range c.columns {
			col := t.Column(id)
			if col == nil {
				continue
			}
			var position any
			if c.foreign != nil {
				position = i + 1
			}
			r.add("constraint_catalog", db, "constraint_schema", schema, "constraint_name", c.name, "table_catalog", db, "table_schema", schema,
				"table_name", t.Name, "column_name", col.Name, "ordinal_position", i+1, "position_in_unique_constraint", position)
		}
	})
}

// of is the table and the columns of a constraint; for a foreign key, the referenced ones.
func (r *reading) of(t *catalog.Table, c constraint) (*catalog.Table, []catalog.ColumnID) {
	if c.foreign == nil {
		return t, c.columns
	}
	return r.functions().table(uint32(c.foreign.RefTable)), c.foreign.RefColumns
}

func isConstraintColumnUsage(r *reading) error {
	db, f := r.view.CurrentDatabase(), r.functions()
	return r.eachConstraint(func(schema string, t *catalog.Table, c constraint) {
		on, cols := r.of(t, c)
		if on == nil {
			return
		}
		for _, id := range cols {
			if col := on.Column(id); col != nil {
				r.add("table_catalog", db, "table_schema", f.schemaName(on.Schema), "table_name", on.Name, "column_name", col.Name,
					"constraint_catalog", db, "constraint_schema", schema, "constraint_name", c.name)
			}
		}
	})
}

func isConstraintTableUsage(r *reading) error {
	db, f := r.view.CurrentDatabase(), r.functions()
	return r.eachConstraint(func(schema string, t *catalog.Table, c constraint) {
		if on, _ := r.of(t, c); on != nil && c.check == nil {
			r.add("table_catalog", db, "table_schema", f.schemaName(on.Schema), "table_name", on.Name,
				"constraint_catalog", db, "constraint_schema", schema, "constraint_name", c.name)
		}
	})
}

func isReferentialConstraints(r *reading) error {
	db, f := r.view.CurrentDatabase(), r.functions()
	return r.eachConstraint(func(schema string, t *catalog.Table, c constraint) {
		if c.foreign == nil {
			return
		}
		k := c.foreign
		ref := f.table(uint32(k.RefTable))
		if ref == nil {
			return
		}
		var key any
		for i := range ref.Indexes {
			x := &ref.Indexes[i]
			if (x.Primary || x.Unique) && shownIndex(ref, x) && slices.Equal(keyColumns(x), k.RefColumns) {
				key = x.Name
				break
			}
		}
		match := "NONE"
		if k.MatchFull {
			match = "FULL"
		}
		r.add("constraint_catalog", db, "constraint_schema", schema, "constraint_name", c.name, "unique_constraint_catalog", db,
			"unique_constraint_schema", f.schemaName(ref.Schema), "unique_constraint_name", key, "match_option", match,
			"update_rule", actionNames[k.OnUpdate], "delete_rule", actionNames[k.OnDelete])
	})
}

func isCheckConstraints(r *reading) error {
	db := r.view.CurrentDatabase()
	if err := r.eachConstraint(func(schema string, _ *catalog.Table, c constraint) {
		if c.check != nil {
			r.add("constraint_catalog", db, "constraint_schema", schema, "constraint_name", c.name, "check_clause", "("+parse.Display(r.functions().shown(c.check.Expr), false)+")")
		}
	}); err != nil {
		return err
	}
	return r.eachVisible(func(schema string, t *catalog.Table) {
		if t.Kind != catalog.KindTable {
			return
		}
		for _, c := range visibleColumns(t) {
			if c.NotNull {
				r.add("constraint_catalog", db, "constraint_schema", schema, "constraint_name", digits(int64(t.Schema))+"_"+digits(int64(t.ID))+"_"+digits(int64(c.ID))+"_not_null",
					"check_clause", Quote(c.Name)+" IS NOT NULL")
			}
		}
	})
}

func isTablePrivileges(r *reading) error {
	db := r.view.CurrentDatabase()
	access, user := r.view.Access(), r.view.CurrentUser()
	return r.eachVisible(func(schema string, t *catalog.Table) {
		if t.Kind == catalog.KindSequence {
			return
		}
		o, ok := access.Object(t.ID)
		if !ok {
			return
		}
		for _, g := range o.Grants {
			// Only grants that the reader's roles have or made are shown.
			if g.Role != catalog.PublicRole && !access.Has(user, g.Grantor, o.DatabaseOwner) && !access.Has(user, g.Role, o.DatabaseOwner) {
				continue
			}
			role := g.Role
			if role == catalog.PublicRole {
				role = "PUBLIC"
			}
			g.Privileges.Each(func(p catalog.Privileges) {
				// The owner can always grant.
				grantable := g.Options&p != 0 || g.Role != catalog.PublicRole && access.Has(g.Role, o.Owner, o.DatabaseOwner)
				r.add("grantor", g.Grantor, "grantee", role, "table_catalog", db, "table_schema", schema, "table_name", t.Name,
					"privilege_type", p.Name(), "is_grantable", grantable, "with_hierarchy", p == catalog.Select)
			})
		}
	})
}

// enabledRoles are the current role and those whose rights it has.
func (r *reading) enabledRoles() ([]string, error) {
	db, err := r.view.Database(r.ctx, r.view.CurrentDatabase())
	if db == nil {
		return nil, err
	}
	a, user := r.view.Access(), r.view.CurrentUser()
	var out []string
	for _, u := range a.All() {
		if a.Has(user, u.Name, db.Owner) {
			out = append(out, u.Name)
		}
	}
	return out, nil
}

func isEnabledRoles(r *reading) error {
	roles, err := r.enabledRoles()
	for _, n := range roles {
		r.add("role_name", n)
	}
	return err
}

func isApplicableRoles(r *reading) error {
	enabled, err := r.enabledRoles()
	for _, name := range enabled {
		for _, m := range r.view.Access().Role(name).MemberOf {
			r.add("grantee", name, "role_name", m.Role, "is_grantable", m.Admin)
		}
	}
	return err
}

func isCharacterSets(r *reading) error {
	r.add("character_set_name", "UTF8", "character_repertoire", "UCS", "form_of_use", "UTF8", "default_collate_catalog", r.view.CurrentDatabase(),
		"default_collate_schema", "pg_catalog", "default_collate_name", strings.ToLower("DEFAULT"))
	return nil
}
