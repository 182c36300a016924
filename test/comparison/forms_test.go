package comparison

// forms: statements that the grammar library does not accept as PostgreSQL writes them, with the positions of errors.
var forms = Generator{Name: "forms", Fixed: Positioned("forms")}

// written: expressions that are found again in the select list, as they are written.
var written = Generator{Name: "written", Fixed: Positioned("written")}

// drops: DROP of objects that do not exist.
var drops = Generator{Name: "drops", Fixed: Positioned("drops")}
