package rangeserver

import (
	"context"
	"time"

	"meridian/kv"
	"meridian/replica"
	"meridian/replica/closedts"
)

// Orphaned is for tests that look at what removals leave alone.
func (s *Store) Orphaned(ctx context.Context, d *kv.RangeDescriptor) (bool, error) {
	return s.orphaned(ctx, d)
}

// Takers is for tests of who is given the leases of a node that drains.
func (s *Store) Takers(d *kv.RangeDescriptor) []kv.NodeID { return s.takers(d) }

// Retuned is for tests of how a lead follows what is measured.
func Retuned(p closedts.Policy, calm int, need time.Duration) (closedts.Policy, int) {
	return retuned(p, calm, need)
}

// InCommand is how many of a fold's rows go into one command.
func InCommand(rows []replica.Row) int { return inCommand(rows) }
