//go:build nextversion

package catalog

// laterTable is what the next version adds to Table (version.NextDescriptor).
type laterTable struct {
	// MadeBy is the version by which the node acted that made the table. A reader that does not know it refuses the row (wire.JSON).
	MadeBy string `json:",omitempty"`
}
