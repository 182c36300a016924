package fault

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"meridian/sql/sqlstate"
)

// Defect is the panic of a room that recovers by itself, such as the parser and the binder. It is the cause of the room's error, for Run.
type Defect struct {
	Panic any
	Stack string
}

// Recovered makes the error of a room that recovered from a panic of its own, in that same deferred call.
func Recovered(r any, doing string) *sqlstate.Error {
	e := sqlstate.New(sqlstate.InternalError, "internal error %s: %v", doing, r)
	e.Cause = &Defect{Panic: r, Stack: string(debug.Stack())}
	return e
}

// Error implements error.
func (d *Defect) Error() string { return fmt.Sprint(d.Panic) }

// Unwrap is the error that was the panic's value, if it was one.
func (d *Defect) Unwrap() error {
	err, _ := d.Panic.(error)
	return err
}

// report logs a defect and counts it; the error tells the client the number by which the log has it.
func report(log *slog.Logger, count *atomic.Int64, e *sqlstate.Error, r any, stack string) error {
	n := count.Add(1)
	log.Error("a statement met a defect, and was ended", "defect", n, "panic", r, "stack", stack)
	return e.WithHint("The log of the node has more, as defect %d. Please report it.", n)
}

// Run calls f. A panic of the statement's own code becomes its error, with XX000 (fault.FA1); it is logged with its stack and its number, by
// which the client can ask for it (fault.FA4), as is a Defect that f returns. Any other panic continues (fault.FA2).
func Run(log *slog.Logger, count *atomic.Int64, f func() error) (err error) {
	defer func() {
		r := recover()
		if r == nil {
			var d *Defect
			if e, ok := err.(*sqlstate.Error); ok && e.Code == sqlstate.InternalError && errors.As(e.Cause, &d) {
				told := *e
				told.Cause = d.Unwrap() // it is logged once
				err = report(log, count, &told, d.Panic, d.Stack)
			}
			return
		}
		if fn := shared(); fn != "" {
			log.Error("a defect in code that statements share ends the node", "function", fn)
			panic(r)
		}
		err = report(log, count, sqlstate.New(sqlstate.InternalError, "internal error: %v", r), r, string(debug.Stack()))
	}()
	return f()
}

// depthMax bounds the calls of a stack that are examined: a panic whose Run is further down ends the process.
const depthMax = 1 << 16

// shared returns the innermost function between a panic and Run whose values other statements share; empty if there is none. Run's deferred function
// calls it, on top of the panic's stack.
func shared() string {
	pcs := make([]uintptr, 128)
	for {
		n := runtime.Callers(2, pcs)
		if n < len(pcs) || len(pcs) >= depthMax {
			pcs = pcs[:n]
			break
		}
		pcs = make([]uintptr, 2*len(pcs))
	}
	frames := runtime.CallersFrames(pcs)
	last := "" // a function outside of confined: shared, unless the next frame is Run, which was given that function
	for {
		f, more := frames.Next()
		switch {
		case f.Function == here+".Run":
			return ""
		case last != "":
			return last
		case !more:
			return fmt.Sprint("beyond ", len(pcs), " calls")
		case !confined(f.Function):
			last = f.Function
		}
	}
}

const here = "meridian/sql/fault"

// confined reports whether a function's values belong to one statement or one session (fault.FA1). Functions outside of this project,
// such as those of Go's library and of the grammar library, are confined if their callers are.
func confined(function string) bool {
	rest, ours := strings.CutPrefix(function, "meridian/")
	if !ours {
		return true
	}
	if rest, sql := strings.CutPrefix(rest, "sql/"); sql {
		for _, p := range []string{"catalog/lease.", "job.", "memory."} {
			if strings.HasPrefix(rest, p) {
				return false
			}
		}
		return true
	}
	for _, p := range []string{"encoding.", "encoding/", "keys.", "txn.(*DB).Run"} {
		if strings.HasPrefix(rest, p) {
			return true
		}
	}
	return false
}
