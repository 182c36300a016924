// Package machine makes the real host: what the operating system gives to a node.
//
//	host.Clock    the system clock, optionally shifted by a fixed offset for tests
//	host.Network  TCP
//	host.FS       the operating system's files
//	host.Dice     ChaCha8 generators keyed by the operating system, and the operating system itself for Read
//	host.Group    goroutines that end with the node
//	host.Log      log/slog
//
// It is the only package below cmd that asks the operating system for time, chance or sockets; package sim is the
// other maker of hosts. The clock shift exists so that a test of real processes can break a node's clock
// (`meridian start --debug-clock-offset`, in binaries built with the tag watched): it moves wall readings only, never timers or the monotonic clock, just as
// setting a machine's clock would.
package machine
