// Package invariant has the checks that stay on in production.
//
// A failed check means a defect, or a fault of memory or disk. Continuing could acknowledge wrong results, so the check panics, and the
// process (in simulation: the node) stops. The numbered invariants I1 to I9 are listed in docs/invariants.md; a check names the one that it
// serves in its message.
package invariant
