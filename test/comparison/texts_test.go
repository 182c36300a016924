package comparison

// texts: how the catalog writes stored expressions and views.
var texts = Generator{Name: "texts", Fixed: File("texts")}
