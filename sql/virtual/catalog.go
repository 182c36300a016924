package virtual

import (
	"bufio"
	_ "embed"
	"strconv"
	"strings"

	"meridian/sql/catalog"
	"meridian/sql/types"
)

var (
	//go:embed pg_catalog.txt
	pgCatalogText string
	//go:embed information_schema.txt
	informationText string
	//go:embed internal.txt
	internalText string
	//go:embed oids.txt
	oidText string
	// procText has PostgreSQL's OIDs of the functions that read and write types, typeText the functions of each type.
	//go:embed procs.txt
	procText string
	//go:embed typeio.txt
	typeText string
	// operatorText and castText are PostgreSQL's operators and casts of the types that Meridian has.
	//go:embed operators.txt
	operatorText string
	//go:embed casts.txt
	castText string
)

// InternalSchemaID is the identity of schema meridian_internal.
const InternalSchemaID catalog.ID = 13900

// Catalog is all computed relations: their descriptors. It never changes.
type Catalog struct {
	tables  map[string]*catalog.Table // by schema.name
	byID    map[catalog.ID]*catalog.Table
	schemas map[string]catalog.ID
	list    []*catalog.Table
	// procs are the OIDs of types' functions by name, procNames the names by OID. Meridian does not have them as functions
	// that could be called: they stand in pg_type, and drivers compare them.
	procs     map[string]uint32
	procNames map[uint32]string
	// operators and casts are pg_operator and pg_cast, in the order of their OIDs.
	operators []operator
	casts     []castRow
	// typeIO has a type's input, output, receive and send function.
	typeIO map[string][4]string
}

// NewCatalog makes the descriptors.
func NewCatalog() *Catalog {
	c := &Catalog{tables: map[string]*catalog.Table{}, byID: map[catalog.ID]*catalog.Table{}, schemas: map[string]catalog.ID{
		"pg_catalog": catalog.PGCatalogSchemaID, "information_schema": catalog.InformationSchemaID, "meridian_internal": InternalSchemaID,
	}}
	oids := map[string]catalog.ID{}
	for line := range strings.Lines(oidText) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(id); err == nil {
			oids[name] = catalog.ID(n)
		}
	}
	c.procs, c.procNames, c.typeIO = map[string]uint32{}, map[uint32]string{}, map[string][4]string{}
	for line := range strings.Lines(procText) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(id); err == nil {
			c.procs[name], c.procNames[uint32(n)] = uint32(n), name
		}
	}
	for line := range strings.Lines(typeText) {
		if f := strings.Fields(line); len(f) == 5 {
			c.typeIO[f[0]] = [4]string(f[1:])
		}
	}
	c.readOperators()
	c.read("pg_catalog", pgCatalogText, oids, 11000)
	c.read("information_schema", informationText, nil, 13001)
	c.read("meridian_internal", internalText, nil, 13901)
	return c
}

// readOperators reads the lists of operators and casts, without those of types that Meridian does not have.
func (c *Catalog) readOperators() {
	named := map[string]*types.T{}
	for _, t := range types.All() {
		named[t.TypName()] = t
		if t.ArrayOID() != 0 {
			a := types.ArrayOf(t)
			named[a.TypName()] = a
		}
	}
	number := func(s string) uint32 {
		n, _ := strconv.ParseUint(s, 10, 32)
		return uint32(n)
	}
	for line := range strings.Lines(operatorText) {
		f := strings.Fields(line)
		if len(f) != 9 || named[f[3]] == nil || named[f[4]] == nil || f[2] != "-" && named[f[2]] == nil {
			continue
		}
		c.operators = append(c.operators, operator{oid: number(f[0]), name: f[1], left: named[f[2]], right: named[f[3]], result: named[f[4]],
			code: f[5], commutator: number(f[6]), negator: number(f[7]), merges: f[8][0] == '1', hashes: f[8][1] == '1'})
	}
	for line := range strings.Lines(castText) {
		if f := strings.Fields(line); len(f) == 6 && named[f[1]] != nil && named[f[2]] != nil {
			c.casts = append(c.casts, castRow{number(f[0]), named[f[1]], named[f[2]], f[3], f[4], f[5]})
		}
	}
}

func (c *Catalog) read(schema, text string, oids map[string]catalog.ID, next catalog.ID) {
	var t *catalog.Table
	scan := bufio.NewScanner(strings.NewReader(text))
	for scan.Scan() {
		f := strings.SplitN(scan.Text(), " ", 3)
		if len(f) != 3 {
			continue
		}
		if t == nil || t.Name != f[0] {
			id, ok := oids[f[0]]
			if !ok {
				id = next
				next++
			}
			t = &catalog.Table{ID: id, Version: 1, Name: f[0], Schema: c.schemas[schema], Kind: catalog.KindVirtual, Owner: "root"}
			c.tables[schema+"."+f[0]] = t
			c.byID[id] = t
			c.list = append(c.list, t)
		}
		t.NextColumn++
		t.Columns = append(t.Columns, catalog.Column{ID: t.NextColumn, Name: f[1], Type: columnType(f[2])})
	}
	some := generators()
	for _, t := range c.list {
		t.NextColumn = catalog.ColumnID(len(t.Columns) + 1)
		if t.Schema == c.schemas[schema] {
			setLookups(schema, t)
			t.Empty = some[schema+"."+t.Name] == nil
		}
	}
}

// columnType maps the types of PostgreSQL's catalogues to ours.
func columnType(name string) *types.T {
	switch name {
	case "pg_node_tree", "pg_lsn", "pg_ndistinct", "pg_dependencies", "pg_mcv_list":
		return types.Text
	case "anyarray", "pg_statistic[]", "ARRAY":
		return types.ArrayOf(types.Text)
	case `"char"[]`:
		return types.ArrayOf(types.Char)
	case "xid":
		return types.OID
	case "sql_identifier":
		return types.Name
	case "character_data":
		return types.VarChar
	case "yes_or_no":
		return &types.T{Kind: types.KindVarChar, Width: 3}
	case "cardinal_number":
		return types.Int4
	case "time_stamp":
		return types.TimestampTZ
	}
	if t, ok := types.FromName(name); ok {
		return t
	}
	panic("virtual: unknown type " + name)
}

// Lookup finds a computed relation; nil if there is none. It implements lease.Relations.
func (c *Catalog) Lookup(schema, name string) *catalog.Table { return c.tables[schema+"."+name] }

// ByID finds a computed relation by identity.
func (c *Catalog) ByID(id catalog.ID) *catalog.Table { return c.byID[id] }

// Schemas are the schemas that the relations are in.
func (c *Catalog) Schemas() map[string]catalog.ID { return c.schemas }

// Tables lists all computed relations. The list must not be changed.
func (c *Catalog) Tables() []*catalog.Table { return c.list }
