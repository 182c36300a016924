package comparison

// networks: inet, cidr, macaddr and macaddr8. The generators of functions, operators and casts know these types too.
var networks = Generator{Name: "network", Fixed: File("network")}
