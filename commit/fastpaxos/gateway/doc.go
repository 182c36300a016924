// Package gateway is a gateway's part of fast_paxos: commits and masters, reads, turns at hot rows, and the end of transactions that others have left. Package core has the values that it drives.
//
// A Client is made of parts. Each has one idea, its own state and its own lock; an arrow leads to a part that is used.
//
//	coordinator   a transaction, in its own goroutine ----> all below
//	Client        makes the parts, draws timestamps, serves other gateways ----> all below
//
//	turns         rows that several gateways want ----> reader
//	reader        rows as the default level, fresh reads and reads at timestamps want them ----> finisher, masters, written
//	finisher      the end of transactions ----> masters, announcer, fates
//	masters       decisions of records' masters, terms, masters elsewhere
//	announcer     ends that replicas are to be told ----> written
//	written       what the gateway has committed, and replicas may not have
//	fates         what has become of the gateway's own transactions
//	caller        questions to replicas and to other gateways; it has no state, and all ask through it
//
// No part calls another one under its own lock, and none asks anybody under a lock. So locks of parts need no order among themselves. An attempt, the commit of a transaction's options, notes under its lock which masters
// records have elsewhere: the lock of masters is taken after it. Below all are the locks of values: of a term (core.Term), and of promises to readers (core.Marks), which masters take under theirs.
package gateway
