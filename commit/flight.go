package commit

import (
	"context"

	"meridian/kv"
)

// Flight is a batch that a range on this store has evaluated and proposed, so that all that is left is to wait for its
// command. Several of them can be waited for one after the other, on one goroutine, with one sync of the disk.
type Flight interface {
	// Wait returns the batch's answer. It is called exactly once.
	Wait(ctx context.Context) (*kv.BatchResponse, error)
	// Synced reports whether Wait, which has returned, has seen the store's disk synced since the batch was started.
	Synced() bool
	// Cover says that the disk has been synced since the batch was started.
	Cover()
}
