package comparison

// enums: CREATE TYPE ... AS ENUM and what can be done with its values.
var enums = Generator{Name: "enum", Fixed: File("enum")}
