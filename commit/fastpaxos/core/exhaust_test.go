package core

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian/keys"
	"meridian/kv"
)

// The exhaustive check: all states that the acceptors and masters of this package can get into, as they are, with a few options and a bound on the ballots. TestExhausted has what is searched to
// the end in seconds; with MERIDIAN_EXHAUST=1 it goes on for as long as it takes (docs/testing.md has the figures).
//
// A state is small because the core is pure. Each different record is kept once and has a number, as have a master's state and a request; each step of the core is made once, by the code, and its
// result remembered under these numbers. So the search is over tuples of numbers, and its states over a table of 64-bit fingerprints.
//
// The network is the set of all requests that were ever sent: each of them may reach each acceptor at any time, many times, or never. So requests are lost, doubled, late and in any order, without a
// bound. A master may miss any reply. It need not be late: a master that takes in the same replies sooner can only have sent its next request sooner, which need not arrive sooner.
//
// Gateways are left out, but for what they send: the options, at any time; and the outcome of a transaction, from the moment at which it is one, by the votes that were given. TestCommitCounts shows that a gateway
// says no more than these votes do, whatever it hears, and in whichever order.
//
// States that differ in nothing but which acceptor is in which state, or in the order of votes in a record, are one. A request that can have no effect any more is forgotten, and so are votes of which there can't be a quorum
// any more.
//
//	fastpaxos.M4: The outcome that a record says a transaction has is the one that all of its options make, in all records.
//	fastpaxos.M5: A record that is told all outcomes has, in whichever order, the sum of what has committed: no update is lost, or made twice.
//	fastpaxos.M6: Two records with one name (Seen) have one value.
//	fastpaxos.M7: A gateway that finishes a transaction from its options comes to its outcome.

// checked is a configuration.
type checked struct {
	name    string
	n       int
	options []checkedOption
	masters []checkedMaster
	// rounds is how many ballots there may be before the last: a master that has lost the record tries again below.
	rounds uint64
	gamma  int
	// crashes: an acceptor may lose what it has not synced. forgets: it may forget a transaction as soon as it has ended everywhere. absorbs: any executed version may be added to the
	// base, and be found there by others.
	crashes, forgets, absorbs bool
	// deaf: nobody is told an outcome.
	deaf bool
	// long: the ordinary tests search some of the states only, limit or few.
	long     bool
	limit    int
	min, max int64 // of the value, which begins at 3
}

// checkedOption is an option about the record of a group. Its transaction is all that have its number.
type checkedOption struct {
	group, txn int
	amount     int64
	// physical: it replaces the value with one that is so much more, of the state in which made have been executed, and none else.
	physical bool
	made     []int // indexes
	folded   int64 // if the state has a version of those: its timestamp
}

type checkedMaster struct {
	group int
	// term: its first ballot is a term, whose promise it asks the acceptors for, if the record is apart at none of a quorum.
	term  bool
	wants []checkedWant
	// finisher: it is one of those by which somebody finishes a transaction.
	finisher bool
}

type checkedWant struct {
	option  int
	prevent bool
}

func (k *checker) run() {
	s := k.start()
	k.seen.add(k.hash(&s))
	k.states = 1
	k.pool = append(k.pool, &s)
	k.visit(&s, 0)
	slices.Reverse(k.trace)
}

func TestExhausted(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: nothing for the race detector")
	}
	whole := os.Getenv("MERIDIAN_EXHAUST") != ""
	writers := []checkedOption{{physical: true, amount: 2}, {txn: 1, physical: true, amount: 5}}
	one := writers[:1]
	takers := []checkedOption{{amount: -2}, {txn: 1, amount: -2}}
	plenty := []checkedOption{{amount: -1}, {txn: 1, amount: -1}}
	mixed := []checkedOption{{amount: -2}, {txn: 1, physical: true, amount: 5}}
	chain := []checkedOption{{physical: true, amount: 2}, {txn: 1, physical: true, amount: 5, made: []int{0}}}
	folded := []checkedOption{{amount: -1}, {txn: 1, physical: true, amount: 5, made: []int{0}, folded: 10}}
	three := []checkedOption{{amount: -1}, {txn: 1, amount: -1}, {txn: 2, amount: -1}}
	both := []checkedOption{{physical: true, amount: 2}, {group: 1, physical: true, amount: 2}}
	rival := append(slices.Clone(both), checkedOption{txn: 1, physical: true, amount: 5})
	want := func(option int, prevent bool) checkedMaster {
		return checkedMaster{wants: []checkedWant{{option, prevent}}}
	}
	recovery := []checkedMaster{want(0, true)}
	recoveries := []checkedMaster{want(0, true), want(0, true)}
	rivals := []checkedMaster{want(0, false), want(1, true)}
	finishers := []checkedMaster{{finisher: true, wants: []checkedWant{{0, true}}}, {finisher: true, group: 1, wants: []checkedWant{{1, true}}}}
	for _, c := range []checked{
		{name: "a writer", n: 3, options: one, masters: recovery, rounds: 1},
		{name: "a writer", n: 5, options: one, masters: recovery, rounds: 1},
		{name: "a writer, and two recoveries", n: 3, options: one, masters: recoveries, rounds: 1},
		{name: "a writer, and two recoveries that try again", n: 3, options: one, masters: recoveries, rounds: 2, long: true},
		{name: "two writers", n: 3, options: writers, masters: recovery, rounds: 1},
		{name: "two writers, with a classic ballot that lasts", n: 3, options: writers, masters: recovery, rounds: 1, gamma: 1},
		{name: "two writers, with crashes", n: 3, options: writers, masters: recovery, rounds: 1, crashes: true},
		{name: "two writers, with versions in the base", n: 3, options: writers, masters: recovery, rounds: 1, absorbs: true},
		{name: "two writers, and outcomes are forgotten", n: 3, options: writers, masters: recovery, rounds: 1, forgets: true, long: true},
		{name: "two writers, and a term", n: 3, options: writers, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}}}}, rounds: 1},
		{name: "two writers, and a term whose master goes on by itself", n: 3, options: writers, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}, {1, true}}}}, rounds: 2, gamma: 2},
		{name: "two writers, and a term, with crashes", n: 3, options: writers, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}}}}, rounds: 1, crashes: true},
		{name: "two writers, a term and a later recovery", n: 3, options: writers, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}}}, want(1, true)}, rounds: 1, long: true},
		{name: "two writers, an earlier recovery and a term", n: 3, options: writers, masters: []checkedMaster{want(1, true), {term: true, wants: []checkedWant{{option: 0}}}}, rounds: 1, long: true},
		{name: "two writers, and two terms", n: 3, options: writers, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}}}, {term: true, wants: []checkedWant{{option: 1}}}}, rounds: 1, long: true},
		{name: "two takers of plenty, and a term", n: 3, options: plenty, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}, {option: 1}}}}, rounds: 1, gamma: 1},
		{name: "two writers, and a term", n: 5, options: writers, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}}}}, rounds: 1, long: true},
		{name: "two writers", n: 5, options: writers, masters: recovery, rounds: 1, long: true},
		{name: "two writers, with versions in the base", n: 5, options: writers, masters: recovery, rounds: 1, absorbs: true, long: true},
		{name: "two writers, a master and a recovery", n: 3, options: writers, masters: rivals, rounds: 1, long: true},
		{name: "a writer, and one who has seen it", n: 3, options: chain, masters: recovery, rounds: 1},
		{name: "a writer, and one who has seen it, a recovery and a master", n: 3, options: chain, masters: []checkedMaster{want(0, true), want(1, false)}, rounds: 1, long: true},
		{name: "a writer, and one who has seen it, with versions in the base", n: 3, options: chain, masters: []checkedMaster{want(0, true), want(1, true)}, rounds: 1, absorbs: true, long: true},
		{name: "two takers of plenty", n: 3, options: plenty, masters: recovery, rounds: 1},
		{name: "two takers of plenty, with versions in the base", n: 3, options: plenty, masters: recovery, rounds: 1, absorbs: true},
		{name: "two takers", n: 3, options: takers, masters: recovery, rounds: 1},
		{name: "two takers, with crashes", n: 3, options: takers, masters: recovery, rounds: 1, crashes: true, long: true},
		{name: "two takers", n: 5, options: takers, masters: recovery, rounds: 1, long: true},
		{name: "two takers, a master and a recovery", n: 3, options: takers, masters: rivals, rounds: 1, long: true},
		{name: "three takers", n: 3, options: three, masters: recovery, rounds: 1, min: 1, long: true},
		{name: "three takers, before any outcome is told", n: 5, options: three, masters: recovery, rounds: 1, min: 1, deaf: true, long: true, limit: 100_000},
		{name: "two writers, before any outcome is told", n: 5, options: writers, masters: recovery, rounds: 1, deaf: true},
		{name: "a taker and a writer", n: 3, options: mixed, masters: recovery, rounds: 1},
		{name: "a taker and a writer", n: 5, options: mixed, masters: recovery, rounds: 1, long: true},
		{name: "a taker and a writer, a master and a recovery", n: 3, options: mixed, masters: rivals, rounds: 1, long: true},
		{name: "a taker, and a writer who has seen a new base value", n: 3, options: folded, masters: []checkedMaster{want(0, false), want(1, true)}, rounds: 1},
		{name: "two records", n: 3, options: both, masters: finishers, rounds: 1, long: true},
		{name: "two records, with versions in the base", n: 3, options: both, masters: finishers, rounds: 1, absorbs: true, long: true},
		{name: "two records, with crashes", n: 3, options: both, masters: finishers, rounds: 1, crashes: true, long: true},
		{name: "two records, and outcomes are forgotten", n: 3, options: both, masters: finishers, rounds: 2, forgets: true, long: true},
		{name: "two records, and a writer of one", n: 3, options: rival, masters: finishers, rounds: 1, long: true},
	} {
		t.Run(fmt.Sprintf("%d replicas: %s", c.n, c.name), func(t *testing.T) {
			c.max = 1 << 40
			switch {
			case whole || !c.long:
				c.limit = 0
			case c.limit == 0:
				c.limit = 10_000
			}
			k := newChecker(&c)
			begun := time.Now()
			k.run()
			if k.broken != "" {
				t.Fatalf("%s, after %d states\n%s", k.broken, k.states, strings.Join(k.trace, "\n"))
			}
			end := "all"
			if c.limit > 0 {
				end = "not all"
			}
			t.Logf("%d states, %s; the longest way has %d steps; %d different records, %d requests, %d states of masters; %v", k.states, end, k.most, len(k.records)-1, len(k.reqs)-1, len(k.rulers)-1, time.Since(begun).Round(time.Millisecond))
		})
	}
}

// TestCommitCounts: a gateway learns what a fast quorum has said in one ballot, and nothing else, whichever of the acceptors' replies reach it, in whichever order.
func TestCommitCounts(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: nothing for the race detector")
	}
	ballots := []Ballot{{}, {Round: 1, Master: 1, Fast: true}}
	verdicts := []Verdict{Undecided, Accepted, Rejected}
	states, learned := 0, 0
	for _, n := range []int{3, 5} {
		q := QuorumsOf(n)
		o := physical(10)
		o.Keys = []keys.Key{keys.Key(theKey)}
		// votes has an acceptor's verdicts in both ballots. Those of acceptors do not decrease: any other world is one of these with other names.
		votes := make([]int, n)
		holds := func(v Verdict) bool {
			for b := range ballots {
				has := 0
				for _, x := range votes {
					if verdicts[[]int{x / 3, x % 3}[b]] == v {
						has++
					}
				}
				if has >= q.Fast {
					return true
				}
			}
			return false
		}
		world := func() {
			seen := map[[mostAcceptors]byte]bool{}
			var visit func(*Commit, [mostAcceptors]byte)
			visit = func(c *Commit, at [mostAcceptors]byte) {
				if seen[at] || t.Failed() {
					return
				}
				seen[at] = true
				states++
				if out := c.Outcome(); out != Undecided {
					if learned++; !holds(out) {
						t.Errorf("%d replicas have voted %v, and a gateway learns that it is %v", n, votes, out)
					}
					return
				}
				for i, x := range votes {
					for b, v := range []int{x / 3, x % 3} {
						if verdicts[v] == Undecided || int(at[i]) > b+1 {
							continue
						}
						k := *c
						k.Polls = []Poll{c.Polls[0]}
						k.Polls[0].Votes = slices.Clone(c.Polls[0].Votes)
						k.Answer(0, kv.ReplicaID(i+1), &Reply{Promised: ballots[b], Ballot: ballots[b], Verdict: verdicts[v]})
						y := at
						y[i] = byte(b + 1)
						visit(&k, y)
					}
				}
				for _, v := range verdicts[1:] {
					same := 0
					for i, x := range votes {
						if at[i] == 1 && verdicts[x/3] == v {
							same++
						}
					}
					if same >= q.Fast {
						t.Errorf("%d replicas have voted %v, and a gateway that has heard %v does not know", n, votes, at)
					}
				}
			}
			visit(NewCommit([]Option{o}, q), [mostAcceptors]byte{})
		}
		var each func(i, from int)
		each = func(i, from int) {
			if i == n {
				world()
				return
			}
			for x := from; x < 9; x++ {
				votes[i] = x
				each(i+1, x)
			}
		}
		each(0, 0)
	}
	t.Logf("%d states, and the outcome is known in %d", states, learned)
}
