package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Message is a message outside of the database: the client of From sent it after From was acknowledged, and the client
// of To received it before it began To.
type Message struct{ From, To *Txn }

// Stamp is a commit timestamp; zero: unknown.
type Stamp int64

// Messages checks that the database respects messages that it has not seen (external consistency). Of each chain of
// messages, the commit timestamp of a later transaction is the later one, if both are known; and a transaction that saw
// an append of a later one saw all appends of the earlier one to the keys that it read. Reads of the past take part: an old
// snapshot may lack both, but not only the earlier one.
//
// Appends with ByTime finds the same reads as cycles, among many others. Messages needs no order of versions, and says
// plainly what is missing.
func Messages(txns []*Txn, messages []Message, stamps map[*Txn]Stamp) error {
	before := map[*Txn][]*Txn{} // senders to a transaction
	for _, m := range messages {
		if m.From.Outcome != OK || m.To.Outcome == Failed {
			continue // nothing was acknowledged, or the receiver did nothing
		}
		before[m.To] = append(before[m.To], m.From)
		if a, b := stamps[m.From], stamps[m.To]; a != 0 && b != 0 && a >= b {
			return &Violation{Checker: "messages", Text: fmt.Sprintf("%s was acknowledged before %s began, and its commit timestamp %d is not below %d\n  %s\n  %s",
				m.From.Name(), m.To.Name(), a, b, m.From, m.To)}
		}
	}
	type element struct {
		key   string
		value int64
	}
	writer := map[element]*Txn{} // of those that received a message
	for t := range before {
		for i := range t.Accesses {
			if x := &t.Accesses[i]; x.Kind == Append {
				writer[element{x.Key, x.Value}] = t
			}
		}
	}
	for _, r := range txns {
		if r.Outcome != OK {
			continue
		}
		lists := map[string]map[int64]bool{}
		var saw []*Txn
		seen := map[*Txn]bool{}
		for i := range r.Accesses {
			x := &r.Accesses[i]
			if x.Kind != Read || lists[x.Key] != nil {
				continue
			}
			lists[x.Key] = make(map[int64]bool, len(x.List))
			for _, v := range x.List {
				lists[x.Key][v] = true
				if w := writer[element{x.Key, v}]; w != nil && w != r && !seen[w] {
					seen[w] = true
					saw = append(saw, w)
				}
			}
		}
		for _, last := range saw {
			// The senders of a chain, back to its first one. A sender that the reader saw as well is examined by itself.
			chain := []*Txn{last}
			visited := map[*Txn]bool{}
			for i := 0; i < len(chain); i++ {
				for _, from := range before[chain[i]] {
					if visited[from] || from == r {
						continue
					}
					visited[from] = true
					for j := range from.Accesses {
						x := &from.Accesses[j]
						if l := lists[x.Key]; x.Kind == Append && l != nil && !l[x.Value] {
							var b strings.Builder
							fmt.Fprintf(&b, "%s saw %s, and not %d of %s by %s, from which a message had led to %s", r.Name(), last.Name(), x.Value, x.Key, from.Name(), last.Name())
							for _, t := range []*Txn{from, last, r} {
								b.WriteString("\n  " + t.String())
							}
							return &Violation{Checker: "messages", Text: b.String()}
						}
					}
					if !seen[from] {
						chain = append(chain, from)
					}
				}
			}
		}
	}
	return nil
}

// Stamps checks that commit timestamps are in the order of time (Spanner §4.1.2): a transaction that was called after another one had
// returned has the later timestamp. It looks at transactions that were acknowledged, or whose outcome is unknown and of which there is a timestamp.
func Stamps(txns []*Txn, stamps map[*Txn]Stamp) error {
	var called, ended []*Txn
	for _, t := range txns {
		if stamps[t] == 0 || t.Outcome == Failed || t.Past {
			continue
		}
		called = append(called, t)
		if t.Outcome == OK {
			ended = append(ended, t)
		}
	}
	slices.SortStableFunc(called, func(a, b *Txn) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortStableFunc(ended, func(a, b *Txn) int { return cmp.Compare(a.Return, b.Return) })
	var latest *Txn // of those that had returned
	n := 0
	for _, t := range called {
		for n < len(ended) && ended[n].Return < t.Call {
			if latest == nil || stamps[ended[n]] > stamps[latest] {
				latest = ended[n]
			}
			n++
		}
		if latest != nil && stamps[latest] >= stamps[t] {
			return &Violation{Checker: "stamps", Text: fmt.Sprintf("%s returned before %s was called, and its commit timestamp %d is not below %d\n  %s\n  %s",
				latest.Name(), t.Name(), stamps[latest], stamps[t], latest, t)}
		}
	}
	return nil
}
