package fault

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"meridian/sql/sqlstate"
)

// TestClientIsToldANumber: a panic of a statement is in the log with its stack, and the client has the number of that line and no stack
// (fault.FA4), whether Run recovers it or a room that recovers by itself; what no panic caused is neither logged nor counted.
func TestClientIsToldANumber(t *testing.T) {
	boom := func() { var none *sqlstate.Error; none.Message = "x" }
	for _, c := range []struct {
		name string
		f    func() error
		logs bool
	}{
		{"a panic", func() error { boom(); return nil }, true},
		{"a panic of a room", func() (err error) {
			defer func() { err = Recovered(recover(), "while binding") }()
			boom()
			return nil
		}, true},
		{"an error", func() error { return sqlstate.New(sqlstate.InternalError, "unexpected") }, false},
		{"a mistake", func() error { return sqlstate.New(sqlstate.SyntaxError, "no") }, false},
		{"success", func() error { return nil }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text strings.Builder
			var count atomic.Int64
			count.Store(6)
			err := Run(slog.New(slog.NewTextHandler(&text, nil)), &count, c.f)
			if !c.logs {
				if text.Len() > 0 || count.Load() != 6 {
					t.Errorf("%d are counted, and the log has %s", count.Load(), text.String())
				}
				return
			}
			e, ok := err.(*sqlstate.Error)
			if !ok || e.Code != sqlstate.InternalError || !strings.Contains(e.Hint, "defect 7.") {
				t.Fatalf("%+v", err)
			}
			if told := e.Message + e.Detail + e.Hint; strings.Contains(told, "goroutine") || strings.Contains(told, ".go:") {
				t.Errorf("the client is told %s", told)
			}
			if l := text.String(); !strings.Contains(l, "defect=7") || !strings.Contains(l, "fault_test.go:") || strings.Count(l, "\n") != 1 {
				t.Errorf("the log has %s", l)
			}
		})
	}
}
