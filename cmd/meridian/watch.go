//go:build !watched

package main

import (
	"github.com/spf13/pflag"
)

// watchFlags are flags of binaries that are built for tests, with the tag watched. Others have none, and no probes.
func watchFlags(*pflag.FlagSet) func() watched { return func() watched { return watched{} } }
