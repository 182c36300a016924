package comparison

// constants: parts of statements that the planner evaluates.
var constants = Generator{Name: "constants", Fixed: unordered(File("constants"))}
