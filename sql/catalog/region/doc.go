// Package region turns what the schema says of regions into configurations of ranges. It is pure: a state of the catalogue goes in; the configuration of each object,
// and the list of spans with their placement.Zone, come out. Every node has the catalogue in memory, so every store computes the same list
// (docs/decisions/0012-regions.md).
//
// # Where a configuration comes from
//
//	cluster      settings, such as replicas.voters, and the options of the node; then CONFIGURE ZONE of the range "default"
//	system       five voters where there are as many nodes, for the index of ranges, the signs of life and other records of the system, and if a database survives
//	             the loss of a region also for the catalogue's tables; then CONFIGURE ZONE of the ranges "meta", "liveness" and "system"
//	database     generated from regions, survival goal and placement; then CONFIGURE ZONE
//	table        generated if its home is not the primary region, or if it is GLOBAL; then CONFIGURE ZONE
//	index        CONFIGURE ZONE
//	directory    an option of the placement menu (ALTER TABLE ... SET PLACEMENT ... FOR VALUES)
//	partition    of a region, in indexes of tables that are REGIONAL BY ROW: generated
//
// A field that an object does not have is inherited from the line above it. Generated fields are those of CRDB'22 §3.2: voters in the home region or, to survive the
// loss of a region, two of five there; a non-voter in each other region, so that stale reads are near everywhere; leases in the home region.
//
// # Spans
//
// A span begins where a configuration does. Neighbours of equal configuration are one span, also over identities that no object has: ranges hold
// many small tables, as long as no region tells them apart.
//
// Databases and tables may have an option of the placement menu too (SET PLACEMENT), below their CONFIGURE ZONE. An option has the numbers of replicas and all constraints, so that
// nothing of these is inherited from the objects around (docs/decisions/0016-placement-menus.md).
//
//	region.RG1 (I8): a dropped object, or an index that another one has replaced, keeps its configuration until its data is removed.
//	region.RG2: a row has the placement of the longest directory prefix of its primary key that has one, else of its partition, index, table, database: the first that has.
package region
