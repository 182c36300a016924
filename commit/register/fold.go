package register

import (
	"slices"

	"meridian/keys"
)

// Fold gives the state of the registers at the end of a generation, from the reports of a quorum of sealed replicas: what was
// acknowledged was acknowledged by a quorum, so one of these has it (register.RG3). Registers that no report names are as the base has
// them. A report tells all of a register, the base's part too, so the result replaces what the base has of it.
func Fold(reports [][]Entry) []Entry {
	merged := map[string]*Register{}
	var order []string
	for _, report := range reports {
		for _, e := range report {
			g := merged[string(e.Key)]
			if g == nil {
				g = &Register{}
				merged[string(e.Key)] = g
				order = append(order, string(e.Key))
			}
			g.merge(&e.Register)
		}
	}
	slices.Sort(order)
	out := make([]Entry, 0, len(order))
	for _, k := range order {
		g := merged[k]
		g.close()
		out = append(out, Entry{keys.Key(k), *g})
	}
	return out
}

func (r *Register) merge(o *Register) {
	r.store(o.Newest)
	for i := range o.Decrees {
		d := &o.Decrees[i]
		if d.Outcome == Open {
			continue
		}
		if m := r.decree(d.Instance); m.Outcome == Open || d.outranks(m) {
			*m = *d
		}
	}
}

// close ends all ballots: every replica begins the next generation with the same outcomes, accepted in the first ballot. A promise
// is void, as the ballots that it was made against are refused with their generation.
func (r *Register) close() {
	r.Decrees = slices.DeleteFunc(r.Decrees, func(d Decree) bool {
		v := d.Version()
		return d.Outcome == Written && v.Compare(&r.Newest) == 0 // its transaction has committed
	})
	for i := range r.Decrees {
		r.Decrees[i].Promised, r.Decrees[i].Accepted = Ballot{}, Ballot{}
	}
}
