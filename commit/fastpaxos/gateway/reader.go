package gateway

import (
	"sync"
	"time"

	"meridian/kv"
)

// reader reads rows for a gateway's transactions.
type reader struct {
	*caller
	*masters
	*written
	*finisher

	mu sync.Mutex // guards the fields below; nothing is taken after it
	// sights are versions that were read lately (fastpaxos.FP64).
	sights sights
	// unreached are ranges of which no quorum has answered, until when.
	unreached map[kv.RangeID]time.Duration
}
