package txn

import (
	"testing"
	"unsafe"
)

// TestSizeOfTxn: every statement of its own makes one, so a field of it costs each of them. The allocator's size classes are 1536, 1792, 2048, 2304 bytes; at 2,064 bytes a transaction took the last of them.
func TestSizeOfTxn(t *testing.T) {
	if n := unsafe.Sizeof(Txn{}); n > 1792 {
		t.Errorf("a transaction has %d bytes", n)
	}
}
