package admission

const (
	// A session that has lost belongs to the rivals for rivalFirst transactions that win, and for as many more with each
	// further loss, rivalMost at most.
	rivalFirst, rivalMost = 8, 64
	// A window has at least windowMin transactions, and windowPer for each that is under way at once.
	windowMin, windowPer = 8, 2
	// lossHigh and lossLow are the shares of lost transactions, in percent, above which the limit shrinks and up to which it
	// grows. With two at once of which one always loses, as much is done as with one, at twice the price.
	lossHigh, lossLow = 25, 10
	// probeMost is the largest number of windows between two attempts to let one more in. The limit grows by rowMost eighths
	// at most.
	probeMost, rowMost = 32, 2
)

// rivals bounds how many transactions are under way of sessions whose transactions lose to each other (admission.AD7). Of transactions
// of which nearly every pair conflicts, those that overlap do their work for nothing: the limit follows the share that
// is lost, down to one at a time.
//
//	share lost   above lossHigh     the limit shrinks by that share
//	             up to lossLow      it grows by one, and more if that went well; not so soon again if it went wrong
type rivals struct {
	room
	// members is how many sessions are rivals.
	members int
	// won and lost count since the window began.
	won, lost int
	// calm is how many windows in a row had few losses, probe how many it takes for the limit to grow; grown says that it
	// has just done so, row how often in a row.
	calm, probe, row int
	grown            bool
}

// note counts a transaction of a rival. queued says that others wait.
func (r *rivals) note(lost, queued bool) {
	if lost {
		r.lost++
	} else {
		r.won++
	}
	n := r.won + r.lost
	share := 100 * r.lost / n
	switch {
	case n >= max(windowMin, windowPer*min(r.now, r.inside.n)) && share > lossHigh:
		if r.grown {
			r.probe = min(2*r.probe, probeMost)
		}
		at := max(min(r.now, r.inside.n), 1)
		r.now = max(at-max(at*share/100, 1), r.min)
		r.calm, r.row, r.grown = 0, 0, false
	case n < max(windowMin, windowPer*r.now):
		return // of those that it let in when it grew, some are still to end
	case share > lossLow || !queued:
		r.calm, r.row, r.grown = 0, 0, false
	default:
		if r.grown {
			r.probe, r.row = max(r.probe/2, 1), r.row+1
		}
		r.grown = false
		if r.calm++; r.calm >= r.probe {
			r.now = min(r.now+1+min(r.row, rowMost)*r.now/8, r.max)
			r.calm, r.grown = 0, true
		}
	}
	r.won, r.lost = 0, 0
}

// join and quit keep account of who is a rival. When nobody is, what was learned is forgotten.
func (r *rivals) join() { r.members++ }

func (r *rivals) quit() {
	if r.members--; r.members == 0 {
		r.now, r.won, r.lost = r.base, 0, 0
		r.calm, r.probe, r.row, r.grown = 0, 1, 0, false
	}
}
