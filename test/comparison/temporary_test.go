package comparison

// temporaryTables: tables, views and sequences of one session.
var temporaryTables = Generator{Name: "temporary", Fixed: File("temporary")}
