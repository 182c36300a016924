package mvcc

import (
	"errors"
	"testing"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
)

// TestUnreadableLock: a lock that this version can't read is reported as such, with its key, to whoever meets it.
func TestUnreadableLock(t *testing.T) {
	k := keys.Key("k")
	l := &Lock{Key: k, Txn: kv.TxnMeta{ID: kv.TxnID{1}, WriteTimestamp: clock.Timestamp{Wall: 1}}}
	good := appendLock(nil, l)
	version := make([]byte, 17)
	if _, err := decodeLock(k, version, good); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name         string
		version, val []byte
		later        bool
	}{
		{"of a later version", version, wire.Uint(good, 9001, 1), true},
		{"cut off", version, good[:len(good)-1], false},
		{"empty", version, nil, false},
		{"with a version that is none", version[:3], good, false},
	} {
		var unreadable *kv.UnreadableError
		if _, err := decodeLock(k, x.version, x.val); !errors.As(err, &unreadable) || unreadable.Later != x.later || !unreadable.Key.Equal(k) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// TestUncertainRetry: a reader that meets a version it can't place goes on above it, and above all that this node has written that may be
// uncertain; no further than the end of its interval, though a low water may lie far ahead (lease.RL5).
func TestUncertainRetry(t *testing.T) {
	at := func(wall int64) clock.Timestamp { return clock.Timestamp{Wall: wall} }
	for _, x := range []struct {
		version, local, global int64
		want                   clock.Timestamp
	}{
		{10, 5, 20, at(10).Next()},
		{10, 15, 20, at(15)},
		{10, 5000, 20, at(20)},
	} {
		rd := &read{ReadOptions: &ReadOptions{Uncertainty: Uncertainty{Global: at(x.global), Local: at(x.local)}}}
		var uncertainty *kv.UncertaintyError
		if err := uncertain(keys.Key("k"), at(x.version), rd); !errors.As(err, &uncertainty) || uncertainty.RetryAt != x.want {
			t.Errorf("%+v: %v", x, err)
		}
	}
}
