package catalog

import (
	"encoding/json"
	"errors"
	"testing"

	"meridian/kv"
)

// TestPlacementJSON pins how localities, commit protocols and their policies of ballots are stored: the default as nothing, all others as SQL's words.
func TestPlacementJSON(t *testing.T) {
	type stored struct {
		Locality Locality
		Protocol CommitProtocol
		Ballots  Ballots `json:",omitempty"`
		Gamma    int     `json:",omitempty"`
	}
	for _, v := range []struct {
		in   stored
		want string
	}{
		{stored{}, `{"Locality":"","Protocol":""}`},
		{stored{Locality: Locality{Kind: Global}, Protocol: CommitProtocol(kv.FastPaxos)}, `{"Locality":"GLOBAL","Protocol":"fast_paxos"}`},
		{stored{Locality: Locality{Kind: RegionalByRow}, Protocol: CommitProtocol(kv.Epoch)}, `{"Locality":"REGIONAL BY ROW","Protocol":"epoch"}`},
		{stored{Locality: Locality{Region: `eu "west"`}}, `{"Locality":"REGIONAL BY TABLE IN \"eu \"\"west\"\"\"","Protocol":""}`},
		{stored{Ballots: FastBallots}, `{"Locality":"","Protocol":"","Ballots":"fast"}`},
		{stored{Ballots: ClassicBallots}, `{"Locality":"","Protocol":"","Ballots":"classic"}`},
		{stored{Ballots: GammaBallots, Gamma: 7}, `{"Locality":"","Protocol":"","Ballots":"gamma","Gamma":7}`},
		{stored{Ballots: LearnedBallots}, `{"Locality":"","Protocol":"","Ballots":"learned"}`},
	} {
		b, err := json.Marshal(&v.in)
		if err != nil || string(b) != v.want {
			t.Errorf("%+v is stored as %s (%v), want %s", v.in, b, err, v.want)
		}
		var out stored
		if err := json.Unmarshal(b, &out); err != nil || out != v.in {
			t.Errorf("%s is read as %+v (%v)", b, out, err)
		}
	}
}

// TestUnknownPlacement: a word of a later version is refused by its name, and not taken for the default.
func TestUnknownPlacement(t *testing.T) {
	for _, v := range []struct{ stored, what, value string }{
		{`{"Locality":"REGIONAL BY MOON"}`, "locality", "REGIONAL BY MOON"},
		{`{"Locality":"global"}`, "locality", "global"},
		{`{"Locality":"REGIONAL BY TABLE IN \"\""}`, "locality", `REGIONAL BY TABLE IN ""`},
		{`{"Locality":"REGIONAL BY TABLE IN \"a\"b\""}`, "locality", `REGIONAL BY TABLE IN "a"b"`},
		{`{"Locality":"REGIONAL BY TABLE IN \""}`, "locality", `REGIONAL BY TABLE IN "`},
		{`{"Protocol":"gossip"}`, "commit protocol", "gossip"},
		{`{"Ballots":"secret"}`, "fast_paxos_ballots", "secret"},
	} {
		var unknown *UnknownValueError
		if err := json.Unmarshal([]byte(v.stored), new(Table)); !errors.As(err, &unknown) || unknown.What != v.what || unknown.Value != v.value {
			t.Errorf("%s: %v", v.stored, err)
		}
	}
}
