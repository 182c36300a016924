package comparison

// parsing: forms of statements that the parser has taken for others.
var parsing = Generator{Name: "parsing", Fixed: File("parsing")}
