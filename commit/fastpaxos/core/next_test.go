package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNext has a situation each at the end of a generation, of three replicas of which two report.
func TestNext(t *testing.T) {
	classic := func(r *Record) {
		r.Promised, r.Accepted, r.Sequence = Ballot{Round: 3, Master: 1}, Ballot{Round: 2, Master: 1}, 4
	}
	for _, c := range []struct {
		name    string
		reports []*Record
		want    string
	}{
		{"nothing happened", []*Record{old(), old()}, "{0 0 false}{0 0 false}0|1=v"},
		{"both have accepted it: it may have been learned", []*Record{with(old(), votes(Accepted, physical(10))), with(old(), votes(Accepted, physical(10)))},
			"{0 0 false}{0 0 false}0|1=v 10acceptedtrue"},
		{"one has not heard of it: it was not learned", []*Record{with(old(), votes(Accepted, physical(10))), old()},
			"{0 0 false}{0 0 false}0|1=v e10false"},
		{"both have rejected it", []*Record{with(old(), votes(Rejected, physical(10))), with(old(), votes(Rejected, physical(10)))},
			"{0 0 false}{0 0 false}0|1=v e10false"},
		{"two, and neither was learned", []*Record{with(old(), votes(Accepted, physical(10))), with(old(), votes(Accepted, physical(11)))},
			"{0 0 false}{0 0 false}0|1=v e10false e11false"},
		{"one knows that it has committed", []*Record{with(old(), votes(Accepted, physical(10))), with(old(), func(r *Record) { o := physical(10); r.End(&o, true) })},
			"{0 0 false}{0 0 false}0|10=10 e10true"},
		{"a master has proposed it to one", []*Record{with(old(), func(r *Record) {
			classic(r)
			r.Votes = []Vote{{Option: physical(10), Verdict: Accepted, Fixed: true}}
		}), old()}, "{0 0 false}{0 0 false}0|1=v 10acceptedtrue"},
		{"a master has rejected what another replica accepted before", []*Record{with(old(), func(r *Record) {
			classic(r)
			r.Votes = []Vote{{Option: physical(10), Verdict: Rejected, Fixed: true}}
		}), with(old(), votes(Accepted, physical(10)))}, "{0 0 false}{0 0 false}0|1=v e10false"},
		{"the ballot of a master that has proposed nothing", []*Record{with(old(), func(r *Record) { r.Promised = Ballot{Round: 1} }), old()},
			"{0 0 false}{0 0 false}0|1=v"},
		{"the outcome came to one that had not heard of the version before", []*Record{with(old(), func(r *Record) {
			votes(Accepted, physical(10))(r)
			o := less(20, 1)
			o.Seen.Base = wall(10)
			r.End(&o, true)
		}), with(old(), votes(Accepted, physical(10)))}, "{0 0 false}{0 0 false}0|20=9 e10true e20true"},
		{"what was added is a version, but not what came after an option that has not ended", []*Record{
			with(numbered(), func(r *Record) {
				a, b := less(10, 1), less(12, 1)
				r.End(&a, true)
				r.End(&b, true)
				votes(Accepted, less(11, 1))(r)
			}),
			with(numbered(), votes(Accepted, less(10, 1), less(11, 1), less(12, 1)))}, "{0 0 false}{0 0 false}0|10=2+12truetrue 11acceptedtrue e10true e12true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := fmt.Sprintf("%+v %+v", *c.reports[0], *c.reports[1])
			for range 2 {
				if got := show(Next(c.reports, QuorumsOf(3), plain{})); got != c.want {
					t.Errorf("%s\nwant %s", got, c.want)
				}
				slices.Reverse(c.reports)
			}
			if after := fmt.Sprintf("%+v %+v", *c.reports[0], *c.reports[1]); after != before {
				t.Errorf("the reports were changed: %s", after)
			}
		})
	}
	// An option that was not learned stays rejected when a late copy of it comes.
	a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
	a.Load(rowKey("a"), Next([]*Record{with(old(), votes(Accepted, physical(10))), old()}, QuorumsOf(3), plain{}))
	if r := ask(a, &Request{Kind: Propose, Key: rowKey("a"), Option: physical(10)}); r.Outcome != Rejected || r.Verdict != Undecided {
		t.Errorf("a late copy: %+v", r)
	}
}

// TestSafeInAnyOrder: an option that a fast quorum has accepted in the latest ballot is kept whichever replicas report, in whichever order, and whatever replicas say that are still in an earlier ballot.
func TestSafeInAnyOrder(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	learned := 0
	for range 20_000 {
		q := QuorumsOf([]int{3, 5, 7}[dice.IntN(3)])
		ballots := []Ballot{{}, {Round: 1, Master: 4, Fast: true}, {Round: 2, Master: 3, Fast: true}}
		all := make([]*Record, q.Replicas)
		for i := range all {
			all[i] = old()
			all[i].Accepted = ballots[min(2, dice.IntN(8))]
			all[i].Promised = all[i].Accepted
			for n := range int64(2) {
				if v := []Verdict{Undecided, Accepted, Accepted, Accepted, Rejected}[dice.IntN(5)]; v != Undecided {
					votes(v, physical(10+n))(all[i])
				}
			}
		}
		quorum := make([]*Record, 0, q.Replicas)
		for _, i := range dice.Perm(q.Replicas)[:q.Classic+dice.IntN(q.Replicas-q.Classic+1)] {
			quorum = append(quorum, all[i])
		}
		state, free := safe(quorum, q)
		last := all[0].Accepted
		for _, r := range all {
			last = last.Later(r.Accepted)
		}
		for n := range int64(2) {
			for _, verdict := range []Verdict{Accepted, Rejected} {
				o := physical(10 + n)
				if count(all, last, o.Name, verdict) < q.Fast {
					continue
				}
				learned++
				if v := state.Vote(o.Name); v == nil || v.Verdict != verdict || slices.ContainsFunc(free, func(f Option) bool { return f.Name == o.Name }) {
					t.Fatalf("%d replicas: %s was learned as %s in %v; %d report %s, free %v", q.Replicas, o.At, verdict, last, len(quorum), show(state), free)
				}
			}
		}
	}
	if t.Logf("%d were learned", learned); learned < 1000 {
		t.Error("these are too few")
	}
}

// TestMasterOfEarlierGeneration: what a master has made in one generation changes nothing at the acceptors of the next one, which may have given votes since (fastpaxos.FP68).
func TestMasterOfEarlierGeneration(t *testing.T) {
	a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
	a.generation = 5
	k := rowKey("a")
	a.Load(k, old())
	ask(a, &Request{Kind: Propose, Key: k, Option: physical(10)})
	b := Ballot{Round: 3, Master: 1}
	for _, generation := range []uint64{4, 5} {
		if r := ask(a, &Request{Kind: Prepare, Key: k, Ballot: b, Generation: generation}); (r.Promised == b) != (generation == 5) {
			t.Errorf("prepared in generation %d: %v", generation, r.Promised)
		}
		r := ask(a, &Request{Kind: Dictate, Key: k, Ballot: b, Sequence: 1, State: with(old(), func(r *Record) { r.Accepted = b }), Generation: generation})
		if left := a.records[string(k)].Vote(physical(10).Name) != nil; left != (generation == 4) || (r.Ballot == b) != (generation == 5) {
			t.Errorf("proposed in generation %d: %v, the vote is there: %v", generation, r.Ballot, left)
		}
	}
}
