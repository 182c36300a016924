// Package closedts has the messages and the pure parts of closed timestamps: the time up to which a range's history is complete, so that
// any replica may serve it (CRDB'20 §3.5, CRDB'22 §5.1.1).
//
// # The problem
//
// Only the leaseholder knows whether a write at an earlier timestamp will still happen; so only it may serve reads. If it promises that
// none happens at or below T any more, every replica that has applied the log up to that promise has all versions that a reader at T may
// see.
//
// # The promise
//
//	leaseholder                                                   follower
//	Track(w)     a write is being evaluated at w or later
//	Close(now - lag)  never reaches w while w is tracked
//	   |-- in every command of the log:  T  ---------------------->  applied: reads at T are served
//	   '-- side transport, twice a second: {T; r7@90, r9@14, ...} ->  applied 90 of r7: reads at T are served
//	Track(w')    w' <= T: the write moves above T, as past any read
//
// A write is tracked from before its evaluation until it is applied or never will be. So every write in flight is above the closed
// timestamp, and no order in which raft repeats or reorders proposals matters.
//
// # Invariants (I6)
//
//	closedts.CT1: A write that Track admitted at w is applied, or abandoned, before Close returns w or more.
//	closedts.CT2: A leaseholder closes timestamps below the start of every later lease only: what its lease covers, as it is written down; a
//	    lease that is taken starts after that, whatever the clocks do. One that is given away may start before; it carries the highest timestamp
//	    that was closed, and no promise is told that a transfer has overtaken. A new leaseholder starts from what its log has closed and from the
//	    start of its lease, before it serves anything.
//	closedts.CT3: The side transport names the applied index of the leaseholder, read after T was closed: every write at or below T was
//	    applied there before.
//	closedts.CT4: A follower's closed timestamp never goes back.
//	closedts.CT5: A write of a range that leads is above what the range is to close when the write is tracked, unless it had a later
//	    timestamp than what is closed. So writes that follow each other closely do not keep the range from closing.
//
// # Two buckets
//
// The exact minimum of the writes in flight would need a heap. Two buckets with a common lower bound each are enough: new
// requests join the newer one; when the older one is empty, they change places. The bound lags by the life of one
// request.
//
// # Side transport
//
// A quiescent range writes nothing, so its closed timestamp travels outside the log, in one stream for each pair of nodes. A
// message has one timestamp for each policy, and which ranges joined or left the group that closes it, or changed
// their applied index; quiescent ranges cost no byte.
//
//	Update    leaseholder's node -> replica's node    seq 1 begins anew; then differences only
//
// Messages to a peer may be under way together; one that overtakes another waits for its turn (Heard.Turn).
//
// # Policies
//
// Lag closes the past. The others close the future, each with its own lead, for ranges of which every replica serves reads of the present
// (CRDB'22 §6.2.1):
//
//	now                         now + lead            what is closed has to reach a reader's clock and its uncertainty interval
//	 |--- writes move past here --->|                 before the next timestamp does
//
// # What it does not do
//
// It knows no raft and no lease: package replica asks it while it proposes and when leases change; package
// rangeserver has the streams, and decides by how much a range leads.
package closedts
