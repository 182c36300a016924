// Package nodetest has no code but tests: transactions over whole nodes in virtual time, from the gateway's
// coordinator down to replicated engines. They stand apart from package txn so that its own tests need no package of the same or a higher
// layer.
package nodetest
