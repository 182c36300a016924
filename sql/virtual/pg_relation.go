package virtual

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar/system"
	"meridian/sql/types"
)

// Object identities of PostgreSQL's that relations refer to.
const (
	bootstrapRole    = 10
	heapMethod       = 2
	btreeMethod      = 403
	defaultSpace     = 1663
	globalSpace      = 1664
	defaultCollation = 100
	cCollation       = 950
	internalLanguage = 12
	classOfRelations = 1259
	classOfDefaults  = 2604
	classOfRules     = 2618
	classOfTypes     = 1247
	classOfConstr    = 2606
	classOfSchemas   = 2615
	classOfDatabases = 1262
	classOfRoles     = 1260
)

// defaultOID is the identity of a column's default in pg_attrdef.
func defaultOID(t *catalog.Table, c *catalog.Column) uint32 {
	return derivedOIDs + uint32(t.ID)<<derivedShift + uint32(c.ID)
}

// OIDs of defaults and rules are derived from their relations'.
const (
	derivedOIDs  = 1 << 31
	derivedShift = 11
)

func ruleOID(t *catalog.Table) uint32 { return derivedOIDs + uint32(t.ID)<<derivedShift }

func ownerID(users map[string]catalog.ID, name string) uint32 {
	if id, ok := users[name]; ok {
		return uint32(id)
	}
	return bootstrapRole
}

func (r *reading) functions() *Functions {
	if r.fn == nil {
		r.fn = r.p.Functions(r.ctx, r.view)
	}
	return r.fn
}

func kindLetter(t *catalog.Table) byte {
	if t.Materialized {
		return 'm'
	}
	switch t.Kind {
	case catalog.KindView:
		return 'v'
	case catalog.KindSequence:
		return 'S'
	}
	return 'r'
}

// visibleColumns are the public columns, without hidden ones that no key names.
func visibleColumns(t *catalog.Table) []*catalog.Column {
	out := make([]*catalog.Column, 0, len(t.Columns))
	for i := range t.Columns {
		if c := &t.Columns[i]; (!c.Hidden || keyed(t, c.ID)) && c.State == catalog.Public {
			out = append(out, c)
		}
	}
	return out
}

// keyed reports whether an index or a foreign key that is shown names a column.
func keyed(t *catalog.Table, id catalog.ColumnID) bool {
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if shownIndex(t, x) && x.Name != "" && (slices.Contains(x.Stored, id) || slices.ContainsFunc(written(x), func(c catalog.IndexColumn) bool { return c.Column == id })) {
			return true
		}
	}
	return slices.ContainsFunc(t.Foreign, func(fk catalog.ForeignKey) bool { return slices.Contains(fk.Columns, id) })
}

func maxAttribute(t *catalog.Table) (n int) {
	for _, c := range visibleColumns(t) {
		n = max(n, int(c.ID))
	}
	return n
}

// acl writes the grants on an object as PostgreSQL does; nil if nothing was granted or revoked yet.
func (r *reading) acl(id catalog.ID) []string {
	o, ok := r.view.Access().Object(id)
	if !ok || o.Unlisted {
		return nil
	}
	out := []string{}
	for _, g := range o.Grants {
		role := Quote(g.Role)
		if g.Role == catalog.PublicRole {
			role = ""
		}
		out = append(out, role+"="+g.Privileges.Letters(g.Options)+"/"+Quote(g.Grantor))
	}
	return out
}

func pgClass(r *reading) error {
	var users map[string]catalog.ID
	if r.wants("relowner") {
		var err error
		if users, err = r.userIDs(); err != nil {
			return err
		}
	}
	all, err := r.relations()
	if err != nil {
		return err
	}
	counted := r.wants("reltuples") || r.wants("relpages")
	for _, t := range all {
		tuples, pages := -1.0, 0
		if counted {
			if st, _ := r.view.Statistics(r.ctx, t.ID); st != nil {
				tuples, pages = float64(st.Rows), int(st.Bytes/8192)
			}
		}
		var options []string
		for _, k := range slices.Sorted(maps.Keys(t.Options)) {
			options = append(options, k+"="+t.Options[k])
		}
		for _, o := range protocolOptions(t) {
			options = append(options, o[0]+"="+o[1])
		}
		// A parameter of the locality is left out, as the locality is: pg_dump would write it into a CREATE TABLE without one.
		am := 0
		switch t.Kind {
		case catalog.KindTable:
			am = heapMethod
		case catalog.KindSequence:
			tuples = 1
		}
		indexes := false
		for i := range t.Indexes {
			x := &t.Indexes[i]
			if !shownIndex(t, x) || x.Name == "" {
				continue
			}
			indexes = true
			if r.skip(uint32(x.OID)) {
				continue
			}
			r.add("oid", x.OID, "relname", x.Name, "relnamespace", t.Schema, "relowner", ownerID(users, t.Owner), "relam", btreeMethod,
				"relfilenode", x.OID, "relpages", pages, "reltuples", tuples, "relpersistence", persistence(t), "relkind", "i", "relnatts", len(written(x))+len(x.Stored),
				"relispopulated", true, "relreplident", "n")
		}
		if r.skip(uint32(t.ID)) {
			continue
		}
		triggers := len(t.Foreign) > 0 || len(t.ReferencedBy) > 0
		r.add("oid", t.ID, "relname", t.Name, "relnamespace", t.Schema, "reltype", t.RowTypeOID(), "relowner", ownerID(users, t.Owner), "relam", am, "relfilenode", t.ID,
			"relpages", pages, "reltuples", tuples, "relhasindex", indexes, "relpersistence", persistence(t), "relkind", kindLetter(t),
			"relnatts", maxAttribute(t), "relchecks", len(t.Checks), "relhasrules", t.Kind == catalog.KindView || t.Materialized, "relhastriggers", triggers,
			"relispopulated", true, "relreplident", "d", "reloptions", options, "relacl", r.acl(t.ID))
	}
	for _, t := range r.computed() {
		if !r.skip(uint32(t.ID)) && t.Schema != InternalSchemaID {
			r.add("oid", t.ID, "relname", t.Name, "relnamespace", t.Schema, "reltype", t.RowTypeOID(), "relowner", bootstrapRole, "relam", heapMethod, "relpersistence", "p",
				"relkind", "r", "relnatts", len(t.Columns), "relispopulated", true, "relreplident", "n", "relacl", []string{"=r/root"})
		}
	}
	return nil
}

func collationOf(t *types.T) uint32 {
	switch {
	case t.Kind == types.KindArray:
		return collationOf(t.Elem)
	case t.Kind == types.KindName:
		return cCollation
	case t.Kind == types.KindText, t.Kind == types.KindVarChar, t.Kind == types.KindBPChar:
		return defaultCollation
	}
	return 0
}

// layoutOf is a type's passing and alignment as PostgreSQL's catalogues show them.
func layoutOf(t *types.T) (byVal bool, align, storage string) {
	switch n := t.Len(); {
	case t.Kind == types.KindArray:
		align = "i"
		if e := t.Elem.Len(); e == 8 {
			align = "d"
		}
		return false, align, "x"
	case t.Phys() == types.PhysNet:
		return false, "i", "m"
	case t.Phys() == types.PhysMAC:
		return false, "i", "p"
	case n == 1:
		return true, "c", "p"
	case n == 2:
		return true, "s", "p"
	case n == 4:
		return true, "i", "p"
	case n == 8:
		return true, "d", "p"
	case t.Kind == types.KindDecimal:
		return false, "i", "m"
	case n < 0:
		return false, "i", "x"
	case t.Kind == types.KindInterval, t.Kind == types.KindTimeTZ:
		return false, "d", "p"
	}
	return false, "c", "p"
}

func (r *reading) attribute(relation uint32, number int, c *catalog.Column) {
	byVal, align, storage := layoutOf(c.Type)
	identity, generated := "", ""
	if c.Identity != 0 {
		identity = string(rune(c.Identity))
	}
	if c.Generated != "" {
		generated = "s"
	}
	dims := 0
	if c.Type.Kind == types.KindArray {
		dims = 1
	}
	r.add("attrelid", relation, "attname", c.Name, "atttypid", c.Type.OID(), "attstattarget", -1, "attlen", c.Type.Len(), "attnum", number,
		"attndims", dims, "attcacheoff", -1, "atttypmod", c.Type.Typmod(), "attbyval", byVal, "attalign", align, "attstorage", storage,
		"attnotnull", c.NotNull, "atthasdef", (c.Default != "" && c.Identity == 0) || c.Generated != "", "atthasmissing", c.HasMissing,
		"attidentity", identity, "attgenerated", generated, "attislocal", true, "attcollation", collationOf(c.Type))
}

// attributes are the columns of a relation, and in the places of those that were dropped, or are hidden, the rows that PostgreSQL leaves there: pg_dump insists on numbers without gaps.
func (r *reading) attributes(t *catalog.Table) {
	columns := visibleColumns(t)
	slices.SortFunc(columns, func(a, b *catalog.Column) int { return int(a.ID) - int(b.ID) })
	next := 1
	for _, c := range columns {
		for ; next < int(c.ID); next++ {
			r.add("attrelid", t.ID, "attname", "........pg.dropped."+strconv.Itoa(next)+"........", "atttypid", 0, "attstattarget", 0, "attlen", 4, "attnum", next, "attndims", 0, "attcacheoff", -1,
				"atttypmod", -1, "attbyval", true, "attalign", "i", "attstorage", "p", "attnotnull", false, "atthasdef", false, "atthasmissing", false, "attidentity", "", "attgenerated", "",
				"attisdropped", true, "attislocal", true, "attcollation", 0)
		}
		r.attribute(uint32(t.ID), int(c.ID), c)
		next = int(c.ID) + 1
	}
}

func pgAttribute(r *reading) error {
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		if !r.skip(uint32(t.ID)) {
			r.attributes(t)
		}
		for i := range t.Indexes {
			x := &t.Indexes[i]
			if r.skip(uint32(x.OID)) || !shownIndex(t, x) || x.Name == "" {
				continue
			}
			n := 0
			put := func(id catalog.ColumnID) {
				if c := t.Column(id); c != nil {
					n++
					r.attribute(uint32(x.OID), n, &catalog.Column{Name: c.Name, Type: c.Type})
				}
			}
			for _, k := range written(x) {
				put(k.Column)
			}
			for _, id := range x.Stored {
				put(id)
			}
		}
	}
	for _, t := range r.computed() {
		if !r.skip(uint32(t.ID)) {
			for i := range t.Columns {
				r.attribute(uint32(t.ID), i+1, &t.Columns[i])
			}
		}
	}
	return nil
}

func pgAttrdef(r *reading) error {
	all, err := r.relations()
	if err != nil {
		return err
	}
	f := r.functions()
	for _, t := range all {
		if r.skip(uint32(t.ID)) {
			continue
		}
		for _, c := range visibleColumns(t) {
			if text := f.defaultText(c); text != "" && c.Identity == 0 {
				r.add("oid", defaultOID(t, c), "adrelid", t.ID, "adnum", int(c.ID), "adbin", text)
			}
		}
	}
	return nil
}

func (r *reading) eachIndex(f func(t *catalog.Table, x *catalog.Index) error) error {
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		for i := range t.Indexes {
			if x := &t.Indexes[i]; shownIndex(t, x) && x.Name != "" {
				if err := f(t, x); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func pgIndex(r *reading) error {
	return r.eachIndex(func(t *catalog.Table, x *catalog.Index) error {
		if r.skip(uint32(t.ID)) {
			return nil
		}
		var key, option []int16
		var collations, classes []uint32
		for _, k := range written(x) {
			key = append(key, int16(k.Column))
			o := int16(0)
			if k.Desc {
				o = 3
			}
			option = append(option, o)
			var collation, class uint32
			if c := t.Column(k.Column); c != nil {
				collation, class = collationOf(c.Type), system.DefaultOperatorClass(c.Type)
				if own, ok := system.OperatorClassNamed(k.Class); ok {
					class = own.OID
				}
			}
			collations, classes = append(collations, collation), append(classes, class)
		}
		for _, id := range x.Stored {
			key = append(key, int16(id))
		}
		var pred any
		if x.Predicate != "" {
			pred = "(" + unparenthesized(r.functions().shown(x.Predicate)) + ")"
		}
		r.add("indexrelid", x.OID, "indrelid", t.ID, "indnatts", len(key), "indnkeyatts", len(written(x)), "indisunique", x.Unique || x.Primary || x.Deferrable,
			"indisprimary", x.PrimaryKey(), "indimmediate", !x.Deferrable, "indisvalid", x.State == catalog.Public, "indisready", true, "indislive", true,
			"indkey", key, "indcollation", collations, "indclass", classes, "indoption", option, "indpred", pred)
		return nil
	})
}

func pgIndexes(r *reading) error {
	f := r.functions()
	return r.eachIndex(func(t *catalog.Table, x *catalog.Index) error {
		r.add("schemaname", f.schemaName(t.Schema), "tablename", t.Name, "indexname", x.Name, "indexdef", f.indexDef(t, x))
		return nil
	})
}

func columnNumbers(ids []catalog.ColumnID) []int16 {
	out := make([]int16, len(ids))
	for i, id := range ids {
		out[i] = int16(id)
	}
	return out
}

var actionLetters = [...]string{"a", "r", "c", "n", "d"}

func keyColumns(x *catalog.Index) []catalog.ColumnID {
	out := make([]catalog.ColumnID, len(written(x)))
	for i, k := range written(x) {
		out[i] = k.Column
	}
	return out
}

func pgConstraint(r *reading) error {
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		if r.skip(uint32(t.ID)) {
			continue
		}
		for i := range t.Indexes {
			x := &t.Indexes[i]
			if !shownIndex(t, x) || x.Name == "" || !x.Constraint && !x.Primary {
				continue
			}
			kind := "u"
			if x.PrimaryKey() {
				kind = "p"
			}
			r.add("oid", x.OID, "conname", x.Name, "connamespace", t.Schema, "contype", kind, "convalidated", true, "conrelid", t.ID,
				"conindid", x.OID, "conislocal", true, "connoinherit", true, "conkey", columnNumbers(keyColumns(x)),
				"condeferrable", x.Deferrable, "condeferred", x.Deferred)
		}
		for i := range t.Checks {
			c := &t.Checks[i]
			if c.OID == 0 {
				continue
			}
			r.add("oid", c.OID, "conname", c.Name, "connamespace", t.Schema, "contype", "c", "convalidated", c.State == catalog.Public,
				"conrelid", t.ID, "conislocal", true, "conkey", columnNumbers(c.Columns), "conbin", parse.Display(r.functions().shown(c.Expr), false))
		}
		for i := range t.Foreign {
			k := &t.Foreign[i]
			index := uint32(0)
			if ref := r.functions().table(uint32(k.RefTable)); ref != nil {
				for j := range ref.Indexes {
					if x := &ref.Indexes[j]; x.Unique || x.Primary {
						cols := keyColumns(x)
						if len(cols) == len(k.RefColumns) && !slices.ContainsFunc(cols, func(id catalog.ColumnID) bool { return !slices.Contains(k.RefColumns, id) }) {
							index = uint32(x.OID)
							break
						}
					}
				}
			}
			match := "s"
			if k.MatchFull {
				match = "f"
			}
			r.add("oid", k.OID, "conname", k.Name, "connamespace", t.Schema, "contype", "f", "convalidated", k.State == catalog.Public,
				"conrelid", t.ID, "conindid", index, "confrelid", k.RefTable, "confupdtype", actionLetters[k.OnUpdate],
				"confdeltype", actionLetters[k.OnDelete], "confmatchtype", match, "conislocal", true, "connoinherit", true,
				"conkey", columnNumbers(k.Columns), "confkey", columnNumbers(k.RefColumns), "condeferrable", k.Deferrable, "condeferred", k.Deferred)
			if k.SetColumns != nil {
				r.set("confdelsetcols", columnNumbers(k.SetColumns))
			}
		}
	}
	return nil
}

func pgTables(r *reading) error {
	f := r.functions()
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Kind == catalog.KindTable && !t.Materialized {
			shown := slices.ContainsFunc(t.Indexes, func(x catalog.Index) bool { return shownIndex(t, &x) })
			r.add("schemaname", f.schemaName(t.Schema), "tablename", t.Name, "tableowner", t.Owner, "hasindexes", shown,
				"hastriggers", len(t.Foreign)+len(t.ReferencedBy) > 0)
		}
	}
	for _, t := range r.computed() {
		r.add("schemaname", f.schemaName(t.Schema), "tablename", t.Name, "tableowner", "root")
	}
	return nil
}

func pgMatviews(r *reading) error {
	f := r.functions()
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Materialized {
			shown := slices.ContainsFunc(t.Indexes, func(x catalog.Index) bool { return shownIndex(t, &x) })
			r.add("schemaname", f.schemaName(t.Schema), "matviewname", t.Name, "matviewowner", t.Owner, "hasindexes", shown, "ispopulated", true,
				"definition", f.ViewDef(uint32(t.ID), false))
		}
	}
	return nil
}

func pgViews(r *reading) error {
	f := r.functions()
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Kind == catalog.KindView {
			r.add("schemaname", f.schemaName(t.Schema), "viewname", t.Name, "viewowner", t.Owner, "definition", f.ViewDef(uint32(t.ID), false))
		}
	}
	return nil
}

func pgRewrite(r *reading) error {
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Kind == catalog.KindView || t.Materialized {
			r.add("oid", ruleOID(t), "rulename", "_RETURN", "ev_class", t.ID, "ev_type", "1", "ev_enabled", "O", "is_instead", true)
		}
	}
	return nil
}

func pgSequence(r *reading) error {
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		if s := t.Sequence; t.Kind == catalog.KindSequence {
			r.add("seqrelid", t.ID, "seqtypid", s.Type.OID(), "seqstart", s.Start, "seqincrement", s.Increment, "seqmax", s.Max, "seqmin", s.Min,
				"seqcache", max(s.Cache, 1), "seqcycle", s.Cycle)
		}
	}
	return nil
}

// mayDraw reports whether the reader may see the last value of a sequence.
func (r *reading) mayDraw(id catalog.ID) bool {
	if r.s == nil {
		return true
	}
	a := r.view.Access()
	return a.May(r.s.User(), id, catalog.Select) || a.May(r.s.User(), id, catalog.Usage)
}

// persistence is pg_class.relpersistence.
func persistence(t *catalog.Table) string {
	if t.Temporary() {
		return "t"
	}
	return "p"
}

func pgSequences(r *reading) error {
	f := r.functions()
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		s := t.Sequence
		if t.Kind != catalog.KindSequence {
			continue
		}
		var last any
		if r.p.o.Sequences != nil && r.mayDraw(t.ID) {
			v, called, err := r.p.o.Sequences.LastFor(r.ctx, localOf(r.view), t)
			if err != nil {
				return err
			}
			if called {
				last = v
			}
		}
		r.add("schemaname", f.schemaName(t.Schema), "sequencename", t.Name, "sequenceowner", t.Owner, "data_type", types.NewReg(s.Type.OID(), s.Type.String()),
			"start_value", s.Start, "min_value", s.Min, "max_value", s.Max, "increment_by", s.Increment, "cycle", s.Cycle, "cache_size", max(s.Cache, 1),
			"last_value", last)
	}
	return nil
}

func pgDescription(r *reading) error {
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Comment != "" {
			r.add("objoid", t.ID, "classoid", classOfRelations, "description", t.Comment)
		}
		for _, c := range visibleColumns(t) {
			if c.Comment != "" {
				r.add("objoid", t.ID, "classoid", classOfRelations, "objsubid", int(c.ID), "description", c.Comment)
			}
		}
		for i := range t.Indexes {
			if x := &t.Indexes[i]; x.Comment != "" {
				r.add("objoid", x.OID, "classoid", classOfRelations, "objsubid", 0, "description", x.Comment)
			}
			if x := &t.Indexes[i]; x.ConstraintComment != "" {
				r.add("objoid", x.OID, "classoid", classOfConstr, "objsubid", 0, "description", x.ConstraintComment)
			}
		}
		for i := range t.Checks {
			if c := &t.Checks[i]; c.Comment != "" {
				r.add("objoid", c.OID, "classoid", classOfConstr, "objsubid", 0, "description", c.Comment)
			}
		}
		for i := range t.Foreign {
			if k := &t.Foreign[i]; k.Comment != "" {
				r.add("objoid", k.OID, "classoid", classOfConstr, "objsubid", 0, "description", k.Comment)
			}
		}
	}
	if len(r.identities) == 1 && len(all) > 0 {
		return nil // an identity belongs either to a relation or to another object
	}
	enums, err := r.enums()
	if err != nil {
		return err
	}
	for _, t := range enums {
		if t.Comment != "" {
			r.add("objoid", t.ID, "classoid", classOfTypes, "objsubid", 0, "description", t.Comment)
		}
	}
	schemas, err := r.view.Schemas(r.ctx, r.view.CurrentDatabase())
	for _, s := range schemas {
		if s.Comment != "" {
			r.add("objoid", s.ID, "classoid", classOfSchemas, "objsubid", 0, "description", s.Comment)
		}
	}
	return err
}

// pgShdescription has the comments on objects that all databases share.
func pgShdescription(r *reading) error {
	dbs, err := r.view.Databases(r.ctx)
	if err != nil {
		return err
	}
	for _, d := range catalog.WithTemplates(dbs) {
		if d.Comment != "" {
			r.add("objoid", d.ID, "classoid", classOfDatabases, "description", d.Comment)
		}
	}
	users, err := r.users()
	for _, u := range users {
		if u.Comment != "" {
			r.add("objoid", u.ID, "classoid", classOfRoles, "description", u.Comment)
		}
	}
	return err
}

// pgDepend has the dependencies that tools ask for: which column owns a sequence, and which relations views read.
func pgDepend(r *reading) error {
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		switch t.Kind {
		case catalog.KindSequence:
			if s := t.Sequence; s.OwnerTable != 0 {
				kind := "a"
				if o := r.functions().table(uint32(s.OwnerTable)); o != nil {
					if c := o.Column(s.OwnerColumn); c != nil && c.Identity != 0 {
						kind = "i"
					}
				}
				r.add("classid", classOfRelations, "objid", t.ID, "refclassid", classOfRelations, "refobjid", s.OwnerTable, "refobjsubid", int(s.OwnerColumn), "deptype", kind)
			}
		}
		if t.Kind == catalog.KindView || t.Materialized {
			for _, d := range t.DependsOn {
				r.add("classid", classOfRules, "objid", ruleOID(t), "refclassid", classOfRelations, "refobjid", d, "deptype", "n")
			}
			r.add("classid", classOfRules, "objid", ruleOID(t), "refclassid", classOfRelations, "refobjid", t.ID, "deptype", "i")
		}
		for _, c := range visibleColumns(t) {
			if c.Generated != "" {
				r.add("classid", classOfDefaults, "objid", defaultOID(t, c), "refclassid", classOfRelations, "refobjid", t.ID, "refobjsubid", int(c.ID), "deptype", "i")
			}
			if c.Default == "" || c.Identity != 0 {
				continue
			}
			r.add("classid", classOfDefaults, "objid", defaultOID(t, c), "refclassid", classOfRelations, "refobjid", t.ID, "refobjsubid", int(c.ID), "deptype", "a")
			for _, id := range relationsIn(c.Default) {
				r.add("classid", classOfDefaults, "objid", defaultOID(t, c), "refclassid", classOfRelations, "refobjid", id, "deptype", "n")
			}
		}
	}
	return nil
}

// relationsIn are the relations that a stored text names, by number: nextval's sequences.
func relationsIn(text string) (ids []uint32) {
	renamed(text, func(id uint32) string {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		return ""
	})
	return ids
}

// renamed writes a stored text with the names of the relations that it names by number; one for which name returns nothing stays as it is.
func renamed(text string, name func(id uint32) string) string {
	const cast = "'::regclass"
	var b strings.Builder
	lower, done := strings.ToLower(text), 0
	for {
		n := strings.Index(lower[done:], cast)
		if n < 0 {
			b.WriteString(text[done:])
			return b.String()
		}
		end := done + n
		begin := max(done, strings.LastIndexByte(lower[:end], '\'')+1)
		b.WriteString(text[done:begin])
		literal := text[begin:end]
		if id, err := strconv.ParseUint(literal, 10, 32); err == nil {
			if n := name(uint32(id)); n != "" {
				literal = strings.ReplaceAll(n, "'", "''")
			}
		}
		b.WriteString(literal + cast)
		done = end + len(cast)
	}
}

func pgStatTables(r *reading) error {
	f := r.functions()
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Kind != catalog.KindTable {
			continue
		}
		r.add("relid", t.ID, "schemaname", f.schemaName(t.Schema), "relname", t.Name)
		if st, _ := r.view.Statistics(r.ctx, t.ID); st != nil {
			// Statistics do not record whether a client ran ANALYZE, or the node by itself.
			r.set("n_live_tup", st.Rows, "last_analyze", time.Unix(0, st.At))
		}
	}
	return nil
}

// pgStatIndexes has the indexes; their reads are not counted.
func pgStatIndexes(r *reading) error {
	f := r.functions()
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		for i := range t.Indexes {
			if x := &t.Indexes[i]; !(x.Primary && t.ImplicitPrimary) {
				r.add("relid", t.ID, "indexrelid", x.OID, "schemaname", f.schemaName(t.Schema), "relname", t.Name, "indexrelname", x.Name)
			}
		}
	}
	return nil
}

// pgStats has the statistics of the columns that the reader may read.
func pgStats(r *reading) error {
	f := r.functions()
	all, err := r.relations()
	if err != nil {
		return err
	}
	for _, t := range all {
		st, _ := r.view.Statistics(r.ctx, t.ID)
		if t.Kind != catalog.KindTable || st == nil || r.view.Access().Check(r.view.CurrentUser(), t.ID, catalog.Select) != nil {
			continue
		}
		for i := range t.Columns {
			c := &t.Columns[i]
			cs, ok := st.Columns[c.ID]
			if !ok || c.Hidden || c.State != catalog.Public || st.Rows == 0 {
				continue
			}
			distinct := float64(cs.Distinct)
			if distinct > float64(st.Rows)/10 { // it grows with the table
				distinct = -distinct / float64(st.Rows)
			}
			r.add("schemaname", f.schemaName(t.Schema), "tablename", t.Name, "attname", c.Name, "inherited", false,
				"null_frac", float64(cs.NullCount)/float64(st.Rows), "avg_width", cs.AvgWidth, "n_distinct", distinct,
				"most_common_vals", commonValues(cs.Histogram, c.Type), "most_common_freqs", commonShares(cs.Histogram),
				"histogram_bounds", histogramBounds(cs.Histogram, c.Type))
		}
	}
	return nil
}

// defaultText is a stored default or generation expression as pg_get_expr writes it.
func (f *Functions) defaultText(c *catalog.Column) string {
	return parse.Display(f.shown(defaultText(c)), false)
}
