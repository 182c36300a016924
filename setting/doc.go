// Package setting has the cluster settings: values that an administrator sets once with SET CLUSTER SETTING and that every
// node follows.
//
// A setting is a row of table (list.go): name, kind, default, bounds, and one sentence about it. Values that were set are kept as
// text in the catalogue, in one descriptor (sql/catalog/lease), and reach every node as changes of the schema do: by
// a notification, or within a second. Each node has one Values, into which package server puts the catalogue's values; the parts of the
// node read it with one atomic load each.
//
//	SET CLUSTER SETTING x = v --> Parse (22023, 42704) --> catalogue --> Values.Set on every node --> Values.Duration(X)
//
// A new setting takes a constant and a row in list.go, and a line in docs/operate. A node that finds a name or a value
// that it does not know, because another version has set it, uses the default.
package setting
