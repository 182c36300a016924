//go:build nextversion

package route

import (
	"errors"
	"testing"

	"meridian/kv"
	"meridian/version"
)

// TestNextField: a batch names the node that is to serve it once the version is active, and another node does not serve it.
func TestNextField(t *testing.T) {
	b := version.Built()
	h := version.NewHandle(b, b.Oldest)
	self := kv.NodeID(2)
	o := Options{Version: h, NodeID: func() kv.NodeID { return self }}
	s := New(o)
	arrives := func() *kv.Batch {
		got, err := kv.DecodeBatch(s.encode(&kv.Batch{Header: kv.Header{RangeID: 7}, Requests: []kv.Request{&kv.GetRequest{Key: []byte("k")}}}, 2))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := arrives(); got.For != 0 || got.Acting != 0 || o.misled(got) != nil {
		t.Errorf("before the version is active: %+v", got)
	}
	h.Raise(b.Own)
	got := arrives()
	if err := o.misled(got); got.For != 2 || got.Acting != b.Own.Uint64() || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	self = 3
	if err := o.misled(got); !errors.As(err, new(*kv.RangeNotFoundError)) {
		t.Errorf("another node: %v", err)
	}
	earlier := Options{Version: version.NewHandle(version.Binary{Own: b.Oldest, Oldest: b.Oldest}, b.Oldest)}
	if err := earlier.misled(got); !errors.As(err, new(*kv.InternalError)) {
		t.Errorf("a node that is to behave as an earlier binary: %v", err)
	}
	if written, read := h.Uses(version.NextField); written != 1 || read != 1 {
		t.Errorf("counted %d and %d times", written, read)
	}
}
