// Package console is the web console: one static page, embedded, and the types of the JSON that it requests.
//
// The page polls /api/v1/cluster of the node that served it and draws the answer; it loads nothing from other hosts. The server fills the
// structs of this file; other clients may use the same address.
package console
