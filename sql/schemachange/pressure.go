package schemachange

import (
	"context"
	"time"

	"meridian/sql/job"
)

// pressureEach is about how often a node looks whether a disk is nearly full and dropped data waits to be removed.
const pressureEach = 5 * time.Second

// watchPressure has the data of dropped and truncated tables removed early when a disk becomes nearly full after the statement: plan has looked at the disk at the time of the statement only, and a
// disk that is filled, and often compacted, is nearly full at one moment and not at the next.
func (e *Executor) watchPressure(ctx context.Context) {
	for e.o.Host.Clock.Sleep(ctx, pressureEach/2+time.Duration(e.o.Host.Dice.Int64N(int64(pressureEach)))) == nil {
		if !e.o.Pressed() {
			continue
		}
		if n, err := e.hasten(ctx); err != nil && ctx.Err() == nil {
			e.o.Host.Log.Debug("schemachange: can't have dropped data removed early", "err", err)
		} else if n > 0 {
			e.o.Host.Log.Info("schemachange: a disk is nearly full, so dropped data is removed early", "jobs", n)
		}
	}
}

// hasten lets removals of data begin PressedRemoveAfter their statement. Those that wait for the end of a transaction keep their time.
func (e *Executor) hasten(ctx context.Context) (int, error) {
	now := e.o.Clock.Wall()
	return e.o.Jobs.Hasten(ctx, jobRemove, now.Add(PressedRemoveAfter), func(rec *job.Record) bool {
		var p removePayload
		if rec.Describes(&p) != nil || p.Table != 0 || p.Reserved || p.Pressed {
			return false
		}
		p.Pressed = true
		rec.After = max(now.UnixNano(), rec.Created+int64(PressedRemoveAfter))
		return rec.Describe(p) == nil
	})
}
