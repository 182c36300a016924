// Package fastpaxos has the tests of whole clusters whose tables have the protocol without a master: round trips,
// levels of isolation, what commutes, ballots that recover, and scripts of statements. Its campaign is in package
// campaign.
package fastpaxos
