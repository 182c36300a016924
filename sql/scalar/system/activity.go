package system

import (
	"math"
	"time"

	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addTransaction adds notifications, and functions about the transaction.
func addTransaction(r *scalar.Registry) {
	constant := constants(r)
	r.SetFunc("pg_listening_channels() text", "pg_listening_channels text", func(ctx *scalar.Context, _ []types.Datum) ([]types.Row, error) {
		var rows []types.Row
		for _, c := range session(ctx).Listening() {
			rows = append(rows, types.Row{types.NewString(c)})
		}
		return rows, nil
	}).Stable()
	r.Func("pg_notify(text, text) void", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		var channel, payload string
		if !a[0].IsNull() {
			channel = a[0].Str()
		}
		if !a[1].IsNull() {
			payload = a[1].Str()
		}
		return types.NewString(""), session(ctx).Notify(channel, payload)
	}).WithNulls().Volatile()
	xid8 := func(n int64) (types.Datum, error) { return types.NewXID8(uint64(n)), nil }
	for _, f := range []struct {
		signature string
		number    func(int64) (types.Datum, error)
		assigns   bool
	}{{"txid_current() int8", num, true}, {"pg_current_xact_id() xid8", xid8, true},
		{"txid_current_if_assigned() int8", num, false}, {"pg_current_xact_id_if_assigned() xid8", xid8, false}} {
		r.Func(f.signature, func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
			if n := session(ctx).TransactionNumber(f.assigns); n != 0 {
				return f.number(n)
			}
			return types.Null, nil
		}).Stable()
	}
	r.Func("pg_export_snapshot() text", func(*scalar.Context, []types.Datum) (types.Datum, error) {
		return types.Null, sqlstate.New(sqlstate.FeatureNotSupported, "snapshots can't be exported").
			WithHint("Read in several sessions with AS OF SYSTEM TIME of one timestamp.")
	}).Volatile()
	constant("pg_trigger_depth() int4", types.NewInt(0))
	constant("pg_filenode_relation(oid, oid) regclass", types.Null)
	constant("pg_stat_clear_snapshot() void", types.NewString(""))
}

// addSignals adds pg_blocking_pids, signals to other sessions, and sleep.
func addSignals(r *scalar.Registry) {
	r.Func1("pg_blocking_pids(int4) int4[]", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		pids, err := session(ctx).BlockingPIDs(statement(ctx), int32(a.Int()))
		if err != nil {
			return types.Null, err
		}
		out := &types.Array{Elem: types.Int4}
		for _, pid := range pids {
			out.Elems = append(out.Elems, types.NewInt(int64(pid)))
		}
		return types.NewArray(out), nil
	}).Volatile()
	cancel := func(name string, terminate bool) {
		r.Func1(name+"(int4) bool", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
			ok, err := session(ctx).CancelBackend(statement(ctx), int32(a.Int()), terminate)
			return types.NewBool(ok), err
		}).Volatile()
	}
	cancel("pg_cancel_backend", false)
	cancel("pg_terminate_backend", true)
	r.Func2("pg_terminate_backend(int4, int8) bool", func(ctx *scalar.Context, a, timeout types.Datum) (types.Datum, error) {
		if timeout.Int() < 0 {
			return types.Null, sqlstate.New(sqlstate.NumericOutOfRange, "\"timeout\" must not be negative")
		}
		ok, err := session(ctx).CancelBackend(statement(ctx), int32(a.Int()), true)
		if ok && err == nil && timeout.Int() > 0 {
			ok, err = session(ctx).AwaitBackend(statement(ctx), int32(a.Int()), min(timeout.Int(), math.MaxInt32))
		}
		return types.NewBool(ok), err
	}).Volatile()
	sleep := func(ctx *scalar.Context, d time.Duration) (types.Datum, error) {
		if err := session(ctx).Sleep(statement(ctx), d); err != nil {
			return types.Null, err
		}
		return str("")
	}
	r.Func1("pg_sleep(float8) void", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		f := min(max(a.Float(), 0), 1e9)
		return sleep(ctx, time.Duration(f*float64(time.Second)))
	}).Volatile()
	r.Func1("pg_sleep_for(interval) void", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		m, d, us := a.Interval()
		return sleep(ctx, time.Duration((int64(m)*30+int64(d))*types.DayMicros+us)*time.Microsecond)
	}).Volatile()
}
