package comparison

// keyOrders: what is read by an index, with and without an order.
var keyOrders = Generator{Name: "keys", Fixed: File("keys")}
