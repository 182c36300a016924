//go:build !nextversion

package campaign_test

import "meridian/version"

// misused says which features a node has used that its binary does not have; this release has none beyond its own.
func misused(*version.Handle, version.Binary) error { return nil }
