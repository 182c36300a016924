package bind

import (
	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

// namedDatabase finds the database that a SHOW names, or the session's.
func (b *builder) namedDatabase(name string) *catalog.Database {
	db, err := b.View.Database(b.ctx, b.database(name))
	check(err)
	if db == nil {
		b.fail(sqlstate.InvalidCatalogName, nil, "database \"%s\" does not exist", name)
	}
	return db
}

// changedDatabase is namedDatabase of a statement that may change the database.
func (b *builder) changedDatabase(name string) *catalog.Database {
	db := b.namedDatabase(name)
	if db.IsTemplate() {
		raise(UnchangedTemplate(db.Name))
	}
	return db
}

// showRegions binds the SHOWs about regions as queries over meridian_internal; nil if the statement is another SHOW.
func (b *builder) showRegions(n *parse.Show) Statement {
	of := func() string { return parse.QuoteLiteral(b.namedDatabase(n.Name.Database).Name) }
	switch n.What {
	case "DATABASES":
		return b.sub("SELECT name AS database_name, owner, primary_region, secondary_region, regions, survival_goal FROM meridian_internal.databases ORDER BY 1", nil)
	case "REGIONS":
		switch n.From {
		case "CLUSTER":
			return b.sub("SELECT region, zones FROM meridian_internal.regions ORDER BY 1", nil)
		case "DATABASE":
			return b.sub(`SELECT database_name AS database, region, is_primary AS "primary", is_secondary AS secondary, zones, is_witness AS witness
				FROM meridian_internal.database_regions WHERE database_name = `+of()+` ORDER BY is_witness, is_primary DESC, region`, nil)
		case "ALL DATABASES":
			return b.sub("SELECT name AS database_name, regions, primary_region, secondary_region FROM meridian_internal.databases ORDER BY 1", nil)
		}
		return b.sub("SELECT region, zones, database_names, primary_region_of, secondary_region_of FROM meridian_internal.regions ORDER BY 1", nil)
	case "SUPER REGIONS":
		return b.sub("SELECT database_name, super_region_name, regions FROM meridian_internal.super_regions WHERE database_name = "+of()+" ORDER BY 2", nil)
	case "SURVIVAL GOAL":
		return b.sub("SELECT name AS database, survival_goal FROM meridian_internal.databases WHERE name = "+of(), nil)
	case "CREATE DATABASE":
		return b.sub("SELECT name AS database_name, create_statement FROM meridian_internal.databases WHERE name = "+of(), nil)
	case "ENUMS":
		cond := ""
		if n.Name.Name != "" {
			cond = " WHERE schema_name = " + parse.QuoteLiteral(b.existingSchema(n.Name).Name)
		}
		return b.sub(`SELECT schema_name AS schema, enum_name AS name, enum_values AS "values", owner FROM meridian_internal.enums`+cond+` ORDER BY 1, 2`, nil)
	case "LOCALITY":
		return b.sub("SELECT locality FROM meridian_internal.this_node", nil)
	}
	return nil
}
