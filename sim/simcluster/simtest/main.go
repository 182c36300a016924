package simtest

import (
	"os"
	"runtime/debug"
	"testing"
)

// Main runs a package's tests with less garbage collection: clusters keep little in memory, and throw away much.
func Main(m *testing.M) {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(3 << 30) // of a process; a machine runs several
	os.Exit(m.Run())
}
