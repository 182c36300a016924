package comparison

// objectIDs: integers as values of oid and of the types of names of objects, and comparisons with them.
var objectIDs = Generator{Name: "oid", Fixed: Positioned("oid")}
