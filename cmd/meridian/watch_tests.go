//go:build watched

package main

import (
	"os"

	"github.com/spf13/pflag"

	"meridian/probe"
	"meridian/txn"
)

// watchFlags are flags of binaries that are built for tests (test/kill).
func watchFlags(fl *pflag.FlagSet) func() watched {
	offset := fl.Duration("debug-clock-offset", 0, "shift this node's clock")
	staged := fl.String("debug-die-staged", "", "kill this process when a client's transaction is committed but its record does not say so yet, once this file is there")
	return func() watched {
		if *staged == "" {
			return watched{clockOffset: *offset}
		}
		return watched{clockOffset: *offset, probes: &probe.Set{Watch: func(name string) {
			if _, err := os.Stat(*staged); name != txn.ProbeStaged || err != nil {
				return // another branch, or the file does not exist yet
			}
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				self.Kill()
			}
			select {}
		}}}
	}
}
