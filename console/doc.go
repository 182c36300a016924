// Package console is the web console: one static page, embedded, and the shape of the JSON that it asks for.
//
// The page polls /api/v1/cluster of the node that served it and draws what it answers; it needs nothing from outside
// of the machine. The server fills the structs of this file; anybody else may use the same address.
package console
