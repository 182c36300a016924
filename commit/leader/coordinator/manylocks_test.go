package coordinator

import (
	"fmt"
	"testing"
	"time"

	"meridian/keys"
	"meridian/kv"
)

// TestManyLocks: of more locks than are remembered one by one it is still known that they are not later than the first, so
// that a write of a later statement does not pass over what has come since (CO6).
func TestManyLocks(t *testing.T) {
	c := &Coordinator{}
	c.Init(Options{ID: kv.TxnID{1}, Gateway: 1, Now: at(10), MaxOffset: time.Second, Isolation: kv.ReadCommitted})
	c.BeginStatement(at(10))
	first := keys.Key("first")
	c.NoteLocked(first)
	c.BeginStatement(at(20))
	for i := range maxLocked {
		c.NoteLocked(keys.Key(fmt.Sprintf("k%05d", i)))
	}
	c.BeginStatement(at(30))
	c.Put(first, []byte("v"))
	if seen := c.buf.find(first).seen; seen != at(10) {
		t.Errorf("locked at 10, written as seen at %s", seen)
	}
}
