package server

import (
	"slices"
	"testing"

	"meridian/console"
	"meridian/keys"
	"meridian/kv"
)

// TestConsolePlaces: the console tells voters with rows from witnesses and from non-voters, and counts a replica that comes or goes as a move only.
func TestConsolePlaces(t *testing.T) {
	span := keys.TableSpan(uint32(100))
	c := &consoleTables{region: map[kv.NodeID]string{1: "a", 2: "a", 3: "b", 4: "b", 5: "w", 6: "n"},
		list: []*consoleTable{{span: span, places: map[string]*console.Place{}}}}
	d := &kv.RangeDescriptor{Start: span.Start, End: span.End, Replicas: []kv.ReplicaDescriptor{
		{Node: 1, Type: kv.Voter}, {Node: 2, Type: kv.Voter}, {Node: 3, Type: kv.Voter}, {Node: 4, Type: kv.VoterIncoming, Witness: true},
		{Node: 5, Type: kv.Voter, Witness: true}, {Node: 6, Type: kv.NonVoter}}}
	c.add(d, 1, "")
	got := c.rows()
	want := []console.Place{{Region: "a", Voters: 2, Leases: 1}, {Region: "b", Voters: 1}, {Region: "n", NonVoters: 1}, {Region: "w", Witnesses: 1}}
	if len(got) != 1 || got[0].Moves != 1 || !slices.Equal(got[0].Places, want) {
		t.Errorf("%+v, want places %+v and a move", got, want)
	}
}
