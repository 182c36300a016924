// Package truetime gives a node's clock its source of time: the machine's clock with a bound that somebody has configured, the kernel's clock with
// the bound that the kernel keeps, or time masters (Spanner §3). It has the master, too.
//
//	          asks every 30 s                   answers: time, root distance
//	node ----------------------> masters near, and one far away
//	 |  clock.Marzullo: the interval that a majority allows; the others lie
//	 |
//	clock.Disciplined: grows by 200 µs in each second until the next poll
//	 |
//	clock.Clock
//
// # A poll
//
// A master answers with the time of its transmission and its root distance, which bounds the error of that time. By the node's monotonic clock the
// request left at m1 and the answer came at m4, so at m4 true time is between
//
//	transmit time - root distance          and          transmit time + (m4 - m1) + root distance
//
// however long either way was. NTP's own estimate subtracts the time that the master took, and assumes nothing more than this
// if the whole round trip is taken as the width (RFC 5905 §8).
//
//	truetime.TT1 (I4): a poll counts if a majority of the masters that answered agree, and if there are three masters or more, two at least; otherwise
//	    the interval goes on growing.
//	truetime.TT2 (I4): a poll that counts and does not meet the present interval contradicts it: the local clock has jumped or drifts beyond clock.Drift, or a majority
//	    of masters has lied at one of the two times. If only some were asked, all are asked before that is believed, and at every poll from then on. Otherwise the node stops.
//	truetime.TT3 (I4): a poll never widens the interval: both contain true time, and the narrower one is kept.
//	truetime.TT4 (I4): a node stops before its epsilon exceeds half of the maximum offset: two nodes within that differ by less than the offset.
//	truetime.TT5 (I4): a master whose clock does not meet the interval of a majority of all masters, or whose rate differs from its monotonic clock's by more than clock.Drift,
//	    answers as unsynchronised until it is started again; a client does not count it among those that answered.
//	truetime.TT6 (I4): Auto is decided at the start: time masters where some are named, the kernel where it is synchronised and its bound is tolerated (truetime.TT4),
//	    and the machine's clock within the configured bound otherwise. The interval is the chosen source's, and never an estimate. Where Auto has chosen the kernel
//	    and truetime.TT2 or truetime.TT4 would stop the node, the configured bound takes its place until the kernel's is good again.
//
// # Leap seconds
//
// Masters have to smear leap seconds, as the paper's do. A master that announces one will step; a node says so in its log a day before. At the step, the master
// lies by a second, as any other liar does.
package truetime
