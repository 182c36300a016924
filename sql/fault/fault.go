package fault

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"meridian/sql/sqlstate"
)

// Run calls f. A panic of the statement's own code becomes its error, with XX000 (fault.FA1); it is logged with its stack, and counted. Any
// other panic continues (fault.FA2).
func Run(log *slog.Logger, count *atomic.Int64, f func() error) (err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if fn := shared(); fn != "" {
			log.Error("a defect in code that statements share ends the node", "function", fn)
			panic(r)
		}
		count.Add(1)
		log.Error("a statement met a defect, and was ended", "panic", r, "stack", string(debug.Stack()))
		err = sqlstate.New(sqlstate.InternalError, "internal error: %v", r).WithHint("The log of the node has more. Please report it.")
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
