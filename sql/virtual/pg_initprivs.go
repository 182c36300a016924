package virtual

import "meridian/sql/catalog"

// pgInitPrivs has the rights that come with the database, so that pg_dump does not take them for an administrator's.
func pgInitPrivs(r *reading) error {
	add := func(class int, id catalog.ID, acl ...string) {
		r.add("objoid", id, "classoid", class, "objsubid", 0, "privtype", "i", "initprivs", acl)
	}
	for _, t := range r.p.o.Catalog.Tables() {
		if t.Schema != InternalSchemaID {
			add(classOfRelations, t.ID, "=r/root")
		}
	}
	for _, id := range []catalog.ID{catalog.PGCatalogSchemaID, catalog.InformationSchemaID} {
		add(classOfSchemas, id, r.acl(id)...)
	}
	add(classOfSchemas, catalog.PublicSchemaID, "pg_database_owner=UC/pg_database_owner", "=U/pg_database_owner")
	return nil
}
