package invariant

import "fmt"

// Error is what a failed check panics with.
type Error struct{ Message string }

func (e *Error) Error() string { return "broken invariant: " + e.Message }

// Check panics with an *Error unless cond is true. The arguments are only formatted if it is not; on hot paths
// guard the call with the condition itself, so that the arguments are not even boxed.
func Check(cond bool, format string, args ...any) {
	if !cond {
		Fail(format, args...)
	}
}

// Fail panics with an *Error, for places that no execution may reach.
func Fail(format string, args ...any) {
	panic(&Error{Message: fmt.Sprintf(format, args...)})
}
