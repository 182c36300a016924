package lease

import (
	"testing"
	"time"

	"meridian/clock"
)

// TestAfter: how far a lease that was not given starts after what the one before may have served beyond its end (lease.RL5).
func TestAfter(t *testing.T) {
	at := func(s int64) clock.Timestamp { return clock.Timestamp{Wall: s * int64(time.Second)} }
	for _, x := range []struct {
		what       string
		prev, next Lease
		want       clock.Timestamp
	}{
		{"nothing beyond", Lease{Sequence: 1, Kind: Supported}, Lease{Sequence: 2, Kind: Supported, Start: at(10), Expiration: at(9)}, at(10)},
		{"beyond an end that is known", Lease{Sequence: 1, Kind: Supported, Ahead: 5 * time.Second}, Lease{Sequence: 2, Kind: Supported, Start: at(10), Expiration: at(9)}, at(14).Next()},
		{"beyond one that is long past", Lease{Sequence: 1, Kind: Supported, Ahead: 5 * time.Second}, Lease{Sequence: 2, Kind: Supported, Start: at(20), Expiration: at(9)}, at(20)},
		{"beyond one that is not known", Lease{Sequence: 1, Kind: Supported, Ahead: 5 * time.Second}, Lease{Sequence: 2, Kind: Supported, Start: at(10)}, at(15)},
		{"of the same process", Lease{Sequence: 1, Kind: Supported, Ahead: 5 * time.Second}, Lease{Sequence: 2, Kind: Supported, Start: at(10), Expiration: FromItself()}, at(10)},
		{"another kind follows", Lease{Sequence: 1, Kind: Supported, Ahead: 5 * time.Second}, Lease{Sequence: 2, Kind: Liveness, Start: at(10)}, at(15)},
		{"an Expiration lease before", Lease{Sequence: 1, Kind: Expiration, Expiration: at(9), Ahead: 5 * time.Second}, Lease{Sequence: 2, Kind: Supported, Start: at(10), Expiration: FromItself()}, at(14).Next()},
		{"an extension", Lease{Sequence: 1, Kind: Supported, Start: at(3), Ahead: 5 * time.Second}, Lease{Sequence: 1, Kind: Supported, Start: at(3)}, at(3)},
	} {
		if got := x.next.After(x.prev); got.Start != x.want {
			t.Errorf("%s: starts at %v, want %v", x.what, got.Start, x.want)
		}
	}
}
