// Package simcluster is the fixture of whole clusters: server.Nodes on simulated machines, in one test, in virtual
// time.
//
// Call it inside synctest.Test. The nodes are real: they speak gRPC over simulated links, keep their data on
// crashable memory disks, and serve PostgreSQL's protocol on simulated listeners, which Dial reaches.
//
//	synctest.Test(t, func(t *testing.T) {
//		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1})
//		conn, err := c.Connect(ctx, 0, "defaultdb")   // pgx, from node 0's own region
//		c.Crash(2, 0, false)                          // kill -9; Boot(2) starts it again
//		fault.Run(ctx, clock, plan, c.Target(seed), nil)
//	})
//
// A bubble keeps little more than one processor busy, so tests call t.Parallel before they enter theirs.
//
// Tests are in the folders below, by subject, so that several packages run side by side; package simtest has what
// they share. docs/simulation.md says how to write another, and how to run a seed again.
package simcluster
