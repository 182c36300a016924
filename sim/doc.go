// Package sim makes simulated hosts: regions far apart, links that fail, disks that crash, clocks that drift.
//
// A node gets time, network, disk and dice from its host.Host, and cannot tell which implementation that is. Here all
// hosts are in one process:
//
//	Machine ----- Clock     time.Now, which is virtual inside a testing/synctest bubble, bent by offset and drift
//	   |--------- Disk      memory that keeps only what was synced when it crashes; can be full, slow or broken
//	   |--------- Network   byte streams between named machines, delayed by the regions' round-trip times
//	   '--------- Dice      a generator derived from the simulation's seed and the machine's name
//
// Boot lends a machine's parts to one incarnation of a node; Crash ends the incarnation as a power cut or a kill
// would; the next Boot finds the disk as the crash left it.
//
// # The network
//
// A connection is two pipes, one per direction. A write stamps its bytes with the time at which they arrive:
//
//	arrival = max(now, when the link is free) + bytes/bandwidth + one-way delay + jitter
//
// and a read returns nothing younger than now. There is no goroutine per connection: the reader waits on a timer that
// the writer sets, so a message costs one wake-up, in virtual and in real time alike. `meridian demo` runs on this
// same network in real time.
//
// A connection has TCP's guarantees:
//
//	sim.N1: bytes arrive in order, none is lost while both ends live, none is made up;
//	sim.N2: neither end learns anything sooner than the link's delay: not the bytes, not the end of the stream, not a reset,
//	    not that the other end has gone;
//	sim.N3: a partition stalls and does not break: what was sent before or during it arrives, in order, one delay after
//	    it heals; a node that is to learn of it sooner has to measure silence (transport does);
//	sim.N4: a killed process resets its connections; a machine that lost power says nothing until it is back, and then
//	    resets what its peers still believe to be open;
//	sim.N5: a writer that is a window ahead of its reader waits: memory is bounded.
//	sim.N6: a write that fails because of a reset ends reading too, at once: clients count on that (gRPC's try again and
//	    again until the reader of a connection finds out what its writer knows, and no time passes meanwhile).
//
// A partition has a direction; Partition cuts both. Delay between two machines is half of the regions' published
// round trip; LocalRTT is used within a region.
//
// # Virtual time
//
// Inside synctest.Test all of it runs in virtual time: a thousand calls over an 87 ms link take 87 s of virtual time exactly and
// some milliseconds of real time. Make the Network and the machines inside the bubble, because timers and channels belong to the
// bubble that made them. A goroutine blocked on a mutex does not count as idle, so no code may sleep, sync or wait for the network
// while holding one (host.H3); a slow disk (Disk.SetSyncDelay) shows code above the engine that does.
//
// # Faults
//
// Package sim/fault makes seeded, printable schedules of crashes, partitions, slow links and clock changes. Same seed,
// same schedule; the scheduler of the Go runtime still chooses among runnable goroutines, so a failure of a whole
// cluster replays often, not always (docs/simulation.md).
package sim
