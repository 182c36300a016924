package core

import (
	"slices"
	"time"

	"meridian/clock"
	"meridian/keys"
)

// Replicas that have missed something, and how they are brought up to date without anybody asking for the rows (§3.2.3). Each replica looks through its records from time to time (Tend):
//
//	an option whose outcome has not come for a while     the outcome is asked for, or the transaction finished if its gateway is gone
//	a version that has not got into the base             the leaseholder lacks it, and is told by a master
//	commuting updates that are not a version yet         a master makes them one, when nobody has added any for a while
//	an outcome that nobody has said to be known to all    the transaction is finished once more, and then all are told to forget it
//
// The base reaches all replicas by the range's log, whatever they have missed; a record that is older than its base takes over the base's version.
//
// A record of which its replica knows that something is missing is not read there (Behind), and is counted until it is not so any more (Range.Lags).
//
//	fastpaxos.FP26 (I2, liveness): No row stays behind what has committed, at any replica, for longer than it takes until some replicas that are connected have had the time for this. It changes nothing
//	    but what End and masters change: options are decided by the same rules, whoever asks.

// Overdue is something at a replica that has waited for too long. Option is the one whose outcome has not come, or, if it has ended, whose outcome has to be remembered still; nil: versions are not in
// the base.
type Overdue struct {
	Key    keys.Key
	Option *Option
	Ended  bool
}

const (
	// overdue is how old a vote, or a version that the base lacks, is when its replica does something about it: longer than transactions of living gateways take. The leaseholder is the first to do so.
	overdue, overdueElsewhere = 8 * time.Second, 14 * time.Second
	// overdueVote is how old a vote is, longer than those of living gateways mostly are: whether its gateway is at work it is asked before anything is done.
	overdueVote, overdueVoteElsewhere = 2 * time.Second, 4 * time.Second
	// unforgotten is how old an outcome with keys is when it is found to be remembered in vain: gateways say within seconds that it need not be, if they live, and whoever has missed it has been brought up to date.
	unforgotten = 2 * time.Minute
	// mendedTogether bounds what a replica asks for each time it looks.
	mendedTogether = 64
	// basesChecked is how often a record that nobody changes is compared with its base.
	basesChecked = 20 * time.Second
)

// Lead says whether the replica is the leaseholder. It comes before Tend.
func (a *Acceptor) Lead(leads bool) { a.leads, a.overdue = leads, nil }

// Overdue is what the last Tend has found to have waited for too long.
func (a *Acceptor) Overdue() []Overdue { return a.overdue }

// Lagging is how many records this replica knows to be behind.
func (a *Acceptor) Lagging() int { return len(a.lagging) }

// Late adds what has waited too long in a record.
func (a *Acceptor) Late(k string, r *Record, now clock.Timestamp) {
	if len(a.overdue) >= mendedTogether {
		return
	}
	old := func(t clock.Timestamp) bool {
		return t.Less(now.Add(-overdueElsewhere)) || a.leads && t.Less(now.Add(-overdue))
	}
	for i := range r.Votes {
		if v := &r.Votes[i]; v.At.Less(now.Add(-overdueVoteElsewhere)) || a.leads && v.At.Less(now.Add(-overdueVote)) {
			o := v.Option
			a.overdue = append(a.overdue, Overdue{Key: keys.Key(k), Option: &o})
			return // with the others it is looked at again
		}
	}
	if e := r.remembers(now.Add(-unforgotten)); e != nil && (a.leads || e.At.Less(now.Add(-2*unforgotten))) {
		a.overdue = append(a.overdue, Overdue{keys.Key(k), &Option{Name: e.Name, Keys: e.Keys}, true})
		return
	}
	if len(r.Votes) == 0 && (r.kept.base.Less(r.Base.At) && old(r.Base.At) && !a.leads || len(r.Added) > 0 && old(r.Added[len(r.Added)-1].At)) {
		a.overdue = append(a.overdue, Overdue{Key: keys.Key(k)})
	}
}

// remembers is the first outcome before a time of which nobody has said that all options of the transaction have ended (fastpaxos.FP6).
func (r *Record) remembers(before clock.Timestamp) *Ended {
	for i := range r.Recent {
		switch e := &r.Recent[i]; {
		case before.LessEq(e.At):
			return nil
		case e.Keys != nil:
			return e
		}
	}
	return nil
}

// lags reports whether this replica knows of a record that it lacks something: a version which an option was made for, or the outcome of an option, for so long that others have it.
func (r *Record) lags(now clock.Timestamp) bool {
	return r.Behind() || slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.At.Less(now.Add(-overdue)) })
}
