package clock

import "slices"

// Marzullo finds where true time is, by the intervals that several sources give for the same moment, some of which may lie (Marzullo's
// algorithm; Spanner §3): the least interval that has every point which a majority of the sources allows. It has true time in it as long as a
// majority of the sources tells the truth, wherever the others say that it is.
//
//	a        |-----------|
//	b            |-----------|
//	c                |---|            agrees: has a point of the result
//	liar                          |-------|
//	result       |-------|            three of four
//
// ok is false if no point is allowed by a majority. agree says which sources have a point of the result; the others lie.
func Marzullo(of []Interval) (truth Interval, agree []bool, ok bool) {
	return Agreement(of, len(of)/2+1)
}

// Agreement is Marzullo where each point has to be allowed by a number of the sources, which is more than half of them.
func Agreement(of []Interval, most int) (truth Interval, agree []bool, ok bool) {
	type edge struct {
		at    Timestamp
		leave bool // the end of an interval; ends come after beginnings at the same point, since intervals are closed
	}
	edges := make([]edge, 0, 2*len(of))
	for _, i := range of {
		edges = append(edges, edge{i.Earliest, false}, edge{i.Latest, true})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 || a.leave == b.leave {
			return c
		}
		if a.leave {
			return 1
		}
		return -1
	})
	n := 0
	for _, e := range edges {
		if e.leave {
			if n == most {
				truth.Latest = e.at // the last one is what counts
			}
			n--
			continue
		}
		if n++; n == most && !ok {
			truth.Earliest, ok = e.at, true
		}
	}
	agree = make([]bool, len(of))
	for k, i := range of {
		agree[k] = ok && i.Meets(truth)
	}
	return truth, agree, ok
}

// Meets reports whether the two have a point in common.
func (i Interval) Meets(j Interval) bool {
	return i.Earliest.LessEq(j.Latest) && j.Earliest.LessEq(i.Latest)
}
