// Package virtual computes relations that are not stored: pg_catalog and information_schema, by which PostgreSQL's
// tools and drivers inspect a database, and meridian_internal, which shows the cluster.
//
// # How a relation is declared
//
//	pg_catalog.txt, information_schema.txt, internal.txt    relation, column, type: one line each
//	oids.txt                                                PostgreSQL's own OIDs of its catalogues
//	pg_*.go, schema.go, internal.go                         a function per relation that is not always empty
//
// The columns are PostgreSQL 15's, in its order, so that SELECT * and drivers that count on positions work. A function
// gets a writer that knows the relation's columns by name; a column that it does not set is NULL if it is a text or an
// array, and else zero or false.
//
// # What the rows come from
//
//	catalog.View    descriptors as the statement's transaction sees them
//	scalar.Registry pg_proc, pg_aggregate
//	*.txt           pg_operator, pg_cast, functions of types
//	types           pg_type, with catalog.View, which has enums and the types of relations' rows
//	Session         settings, prepared statements
//	Cluster         sessions, nodes, ranges, jobs: the server implements it
//
// Rows are computed when a statement reads the relation, of the columns that it needs; they are not cached. Only the
// lists behind them are: a node's snapshot of the catalogue has lists of its relations, schemas and roles, without those that are
// dropped (sql/catalog/lease, listing.go), and finds a relation by its identity, its name, or the identity of one of its
// indexes or constraints.
//
// lookup.go names the columns by whose values rows are looked up. A condition on one of them (a constant, a parameter, a list,
// an array) reaches the generator as a key, and the optimizer may run a relation once for each row of another by the key that a
// join gives it. Conditions are tested again on the rows of a generator, so it need not use a key.
//
//	virtual.V1: The cost of introspection of one table depends neither on the number of others nor on the number of dropped ones.
//	virtual.V2: Introspection relies on no descriptor: a transaction that has listed relations does not delay changes of them. It reads by Peek, never by Table.
//
// Object identities: descriptors' IDs serve as OIDs. Indexes and constraints have OIDs of their own in the descriptor.
// The type of a relation's rows has the relation's OID, and that of arrays of them one that is derived from it (catalog.RowTypeOf).
// Column defaults (pg_attrdef) and rules of views get OIDs that are derived, so that they stay the same.
//
// # Functions
//
// pg_get_indexdef and its kin need the catalogue too: Functions implements that part of system.Environment.
package virtual
