package core

import (
	"strings"
	"testing"

	"meridian/keys"
	"meridian/kv"
)

// TestSilent: a master is asked as soon as no fast quorum can agree without the acceptors that do not answer in time (fastpaxos.FP75), and once; but not if too few are left for a master.
func TestSilent(t *testing.T) {
	for _, x := range []struct {
		of     int
		events string // of acceptors 1, 2, ...: votes to accept (+) or reject (-), or silent (?)
		at     int    // the event that has a master asked, from one; zero: none
		out    Verdict
	}{
		{5, "+1 +2 ?5 +3 +4", 0, Accepted},
		{5, "+1 +2 +3 ?5 +4", 0, Accepted},
		{5, "?5 +1 -2", 3, Undecided},
		{5, "+1 -2 ?5", 3, Undecided},
		{5, "+1 +2 -3 +4", 0, Undecided}, // the fifth may accept
		{5, "+1 +2 -3 +4 ?5", 5, Undecided},
		{5, "+1 +2 -3 +4 +5", 0, Accepted},
		{5, "?4 ?5 +1 +2 +3", 2, Undecided},
		{5, "+1 +2 +3 ?4 ?5", 5, Undecided},
		{5, "?5 +5 +1 +2 +3", 0, Accepted}, // it was late only
		{5, "?4 ?4 +1 +2", 0, Undecided},
		{5, "?3 ?4 ?5 +1 -2", 2, Undecided}, // by then three were left
		{3, "?3 +1 +2", 1, Undecided},
		{3, "?2 ?3 +1", 1, Undecided},
	} {
		k := keys.Key("k")
		c := NewCommit([]Option{{Name: Name{Txn: kv.TxnID{1}}, Keys: []keys.Key{k}}}, QuorumsOf(x.of))
		at := 0
		for n, e := range strings.Fields(x.events) {
			from := kv.ReplicaID(e[1] - '0')
			var collided bool
			switch e[0] {
			case '?':
				collided = c.Silent(0, from)
			case '+':
				collided = c.Answer(0, from, &Reply{Verdict: Accepted})
			case '-':
				collided = c.Answer(0, from, &Reply{Verdict: Rejected})
			}
			if collided && at != 0 {
				t.Errorf("%s: a master was asked twice", x.events)
			}
			if collided {
				at = n + 1
			}
		}
		if at != x.at || c.Outcome() != x.out {
			t.Errorf("%d acceptors, %s: a master was asked at event %d, outcome %v; want %d, %v", x.of, x.events, at, c.Outcome(), x.at, x.out)
		}
	}
	// While three of five are silent from the beginning, nobody could decide.
	c := NewCommit([]Option{{Keys: []keys.Key{keys.Key("k")}}}, QuorumsOf(5))
	for from := kv.ReplicaID(1); from <= 2; from++ {
		c.Answer(0, from, &Reply{Verdict: Accepted})
	}
	c.Polls[0].silent = []kv.ReplicaID{3, 4, 5}
	if c.collided(&c.Polls[0]) {
		t.Error("a master was asked without a classic quorum")
	}
}
