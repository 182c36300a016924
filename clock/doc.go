// Package clock orders events across nodes: hybrid logical timestamps, the clock that issues them, and the
// interval in which true time must lie.
//
// A Timestamp is wall nanoseconds and a logical counter. A node's Clock issues timestamps that only grow, and
// is moved forward by every timestamp that arrives from another node, so causally related events are ordered
// whatever the physical clocks say (CRDB'20 §4.1). Physical clocks only matter for real-time order, and there
// the maximum offset between any two nodes bounds the harm: see Clock.MaxOffset and the list in docs/clock.md.
package clock
