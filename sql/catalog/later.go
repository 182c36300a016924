//go:build !nextversion

package catalog

// laterTable is what the next version adds to Table.
//
//lint:ignore U1000 the build with the tag nextversion uses it
type laterTable struct{}
