package rangeserver

import (
	"fmt"
	"testing"

	"meridian/kv"
	"meridian/replica"
)

// TestJudge: more than half of those that were compared are right; without such a majority, the leaseholder n1 is.
func TestJudge(t *testing.T) {
	for hashes, want := range map[string]string{
		"a": "[]", "aa": "[]", "aaa": "[]", "aab": "[n3]", "abb": "[n1]", "aba": "[n2]",
		"ab": "[n2]", "abc": "[n2 n3]", "aabb": "[n3 n4]", "abbb": "[n1]", "aabbb": "[n1 n2]", "abbcc": "[n2 n3 n4 n5]",
	} {
		c := &RangeCheck{Range: 7, Index: 9, hashes: map[kv.NodeID]replica.Hash{}}
		for i, h := range hashes {
			c.hashes[kv.NodeID(i+1)] = replica.Hash{3: {byte(h)}}
		}
		c.judge(1)
		got := []string{}
		for _, d := range c.Deviating {
			got = append(got, fmt.Sprintf("n%d", d.Node))
			if len(d.Parts) != 1 || d.Parts[0] != "locks" || d.Hash == d.Other || len(d.Others)+len(c.Deviating) != len(hashes) {
				t.Errorf("%s: %+v", hashes, d)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v deviate, want %s", hashes, got, want)
		}
	}
}
