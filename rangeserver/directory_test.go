package rangeserver_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"meridian/encoding"
	"meridian/keys"
)

// TestSplitBetweenDirectories: a range is divided by its size between directories, even where its middle is within one. A directory that fills the range is divided.
func TestSplitBetweenDirectories(t *testing.T) {
	row := func(user, album int) string {
		k := encoding.AppendInt(keys.IndexPrefix(uint32(100), uint32(1)), int64(user), encoding.Ascending)
		if album > 0 {
			k = encoding.AppendInt(keys.AppendInterleaved(k, uint32(101), uint32(1)), int64(album), encoding.Ascending)
		}
		return string(k[len(keys.TableKey(uint32(100))):])
	}
	for _, c := range []struct {
		name   string
		albums []int // of each user, from 1 on
		at     keys.Key
	}{
		{"the middle is within the second", []int{2, 20, 2}, tkey(row(2, 0))},
		{"the first one is large", []int{20, 2, 2}, tkey(row(2, 0))},
		{"there is one", []int{20}, tkey(row(1, 11))},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := running(t, 1)
				defer cl.stop()
				for u, n := range c.albums {
					for a := range n + 1 {
						check(t, cl.put(row(u+1, a), strings.Repeat("x", 100)))
					}
				}
				s := cl.nodes[0].store
				check(t, s.Split(context.Background(), 2, nil))
				if end := s.Replica(2).Desc().End; !end.Equal(c.at) {
					t.Errorf("split at %s, want %s", end, c.at)
				}
			})
		})
	}
}
