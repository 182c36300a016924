// Package protocol describes the commit protocols to the rest of the system: one value of Traits for each. Code outside of a protocol's own folder
// asks for a trait ("may rows be locked?"), never for a protocol by its name, so another protocol is one more value here, with its halves in its folder.
//
//	commit/protocol      what each protocol can do, and what it says where it can't
//	commit/leader        its halves: at a replica, at a gateway
//	commit/fastpaxos
//	commit/register      the protocol of tests
//	server/protocol.go   a node's instances
//
// A table whose protocol is being changed has ranges of both, and can do what both can (Changing).
package protocol
