package main

import (
	"time"
)

// quorumWrites is QW-k: updates go to all replicas, and are done when k of them have each record. The last writer wins; nothing is checked (section 5.2).
type quorumWrites struct {
	w      *world
	quorum int
	all    [dataCentres]replica
}

func qw(quorum int) func(w *world, l *load) rival {
	return func(w *world, l *load) rival { return &quorumWrites{w, quorum, replicas(l)} }
}

func (p *quorumWrites) stock(item int) ([]int, bool) { return stocks(p.all[:], item), false }

func (p *quorumWrites) commit(region int, updates []update, done func(verdict)) {
	a, ok := begin(p.all[region], region, updates, done)
	if !ok {
		p.w.after(0, func() { done(refused) })
		return
	}
	at, left := p.w.now, len(updates)
	for i := range updates {
		answers := 0
		for to := range p.all {
			p.w.send(region, to, func() {
				// Of two writes at the same time that of the earlier region wins.
				c := p.all[to].at(updates[i].record)
				if stamp := at*dataCentres + time.Duration(region) + 1; stamp > c.written {
					c.value, c.written = a.value(i), stamp
				}
				p.w.send(to, region, func() {
					if answers++; answers == p.quorum {
						if left--; left == 0 {
							done(committed)
						}
					}
				})
			})
		}
	}
}

// twoPhase is 2PC over all replicas of all records: in the first phase each of them locks the records and compares their versions with those that were read, in the second one each of
// them writes and unlocks. The client is answered after both, or after the first one if a replica has refused. Nobody waits for a lock, so there is no deadlock.
type twoPhase struct {
	w   *world
	all [dataCentres]replica
}

func twoPC(w *world, l *load) rival { return &twoPhase{w, replicas(l)} }

func (p *twoPhase) stock(item int) ([]int, bool) { return stocks(p.all[:], item), true }

func (p *twoPhase) commit(region int, updates []update, done func(verdict)) {
	a, ok := begin(p.all[region], region, updates, done)
	if !ok {
		p.w.after(0, func() { done(refused) })
		return
	}
	votes, no := 0, false
	for to := range p.all {
		p.w.send(region, to, func() {
			vote := a.lock(p.all[to])
			p.w.send(to, region, func() {
				no = no || !vote
				switch votes++; {
				case votes < len(p.all):
				case no:
					p.end(a, false, func() {})
					done(aborted)
				default:
					p.end(a, true, func() { done(committed) })
				}
			})
		})
	}
}

// lock takes all records of a replica, or none.
func (a *attempt) lock(r replica) bool {
	for i := range a.updates {
		if c := r.at(a.updates[i].record); c.holder != nil || c.version != a.seen[i].version {
			return false
		}
	}
	for i := range a.updates {
		r.at(a.updates[i].record).holder = a
	}
	return true
}

func (a *attempt) unlock(r replica) {
	for i := range a.updates {
		if c := r.at(a.updates[i].record); c.holder == a {
			c.holder = nil
		}
	}
}

// end is the second phase.
func (p *twoPhase) end(a *attempt, commit bool, all func()) {
	left := len(p.all)
	for to := range p.all {
		p.w.send(a.region, to, func() {
			if commit {
				for i := range a.updates {
					a.write(p.all[to], i)
				}
			} else {
				a.unlock(p.all[to])
			}
			p.w.send(to, a.region, func() {
				if left--; left == 0 {
					all()
				}
			})
		})
	}
}

// multi is MDCC with all instances classic, each record under a master that stays where it is (section 5.3.1): the client's node asks the masters of its records; each accepts the
// option or rejects it, has a majority of replicas keep that, and answers (section 3.1.1, footnote 3). Then the outcome goes to all replicas. An option is
// rejected if another one is outstanding or its record has another version than was read, so nobody waits for anybody.
type multi struct {
	w       *world
	all     [dataCentres]replica
	masters replica // each record as its master has it
	items   int
}

func multiPaxos(w *world, l *load) rival { return &multi{w, replicas(l), replicas(l)[0], l.items} }

func (p *multi) stock(item int) ([]int, bool) { return stocks(p.all[:], item), true }

// home is where the master of a record is: with the client, if nobody else writes the record.
func (p *multi) home(u *update, region int) int {
	if u.item < 0 {
		return region
	}
	return masterOf(u.item, p.items)
}

func (p *multi) commit(region int, updates []update, done func(verdict)) {
	a, ok := begin(p.all[region], region, updates, done)
	if !ok {
		p.w.after(0, func() { done(refused) })
		return
	}
	left, accepted := len(updates), true
	for i := range updates {
		master := p.home(&updates[i], region)
		p.w.send(region, master, func() {
			c := p.masters.at(updates[i].record)
			vote := c.holder == nil && c.version == a.seen[i].version
			if vote {
				c.holder = a
			}
			answers := 0
			for to := range p.all {
				p.w.send(master, to, func() {
					p.w.send(to, master, func() {
						if answers++; answers != len(p.all)/2+1 {
							return
						}
						p.w.send(master, region, func() {
							accepted = accepted && vote
							if left--; left == 0 {
								p.end(a, accepted)
							}
						})
					})
				})
			}
		})
	}
}

// end tells the outcome.
func (p *multi) end(a *attempt, commit bool) {
	for i := range a.updates {
		p.w.send(a.region, p.home(&a.updates[i], a.region), func() {
			c := p.masters.at(a.updates[i].record)
			if c.holder != a {
				return
			}
			if c.holder = nil; commit {
				a.write(p.masters, i)
			}
		})
	}
	for to := range p.all {
		p.w.send(a.region, to, func() {
			for i := range a.updates {
				if commit {
					a.write(p.all[to], i)
				}
			}
		})
	}
	if commit {
		a.done(committed)
	} else {
		a.done(aborted)
	}
}

// megastore is Megastore*: one entity group with one log, whose master is in US-West, as all clients are (section 5.2). A position of the log takes one round to a majority, and has one
// transaction. Others wait in the order in which they came, for positions to come; one whose records were written since it read them is aborted when its turn comes.
type megastore struct {
	w     *world
	all   [dataCentres]replica
	queue []*attempt
	busy  bool
}

func megastoreStar(w *world, l *load) rival { return &megastore{w: w, all: replicas(l)} }

func (p *megastore) stock(item int) ([]int, bool) { return stocks(p.all[:], item), true }

func (p *megastore) commit(region int, updates []update, done func(verdict)) {
	a, ok := begin(p.all[region], region, updates, done)
	if !ok {
		p.w.after(0, func() { done(refused) })
		return
	}
	p.w.send(region, usWest, func() {
		p.queue = append(p.queue, a)
		p.next()
	})
}

func (p *megastore) next() {
	if p.busy || len(p.queue) == 0 {
		return
	}
	a := p.queue[0]
	p.queue = p.queue[1:]
	for i := range a.updates {
		if p.all[usWest].at(a.updates[i].record).version != a.seen[i].version {
			p.w.send(usWest, a.region, func() { a.done(aborted) })
			p.next()
			return
		}
	}
	p.busy = true
	answers := 0
	for to := range p.all {
		p.w.send(usWest, to, func() {
			if to != usWest { // the master's replica has it when the position is decided
				for i := range a.updates {
					a.write(p.all[to], i)
				}
			}
			p.w.send(to, usWest, func() {
				if answers++; answers != len(p.all)/2+1 {
					return
				}
				for i := range a.updates {
					a.write(p.all[usWest], i)
				}
				p.busy = false
				p.w.send(usWest, a.region, func() { a.done(committed) })
				p.next()
			})
		})
	}
}
