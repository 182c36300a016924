package rangeserver

import (
	"context"
	"sync/atomic"
)

// Cluster tells who is there.
type Cluster interface{}

// ZoneSource gives configurations.
type ZoneSource interface{}

type queues struct{}

// loadCounter counts requests of a range.
type loadCounter struct{ n atomic.Int64 }

func (l *loadCounter) hit() { l.n.Add(1) }

func (s *Store) queueLoop(ctx context.Context) {}
