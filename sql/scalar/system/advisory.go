package system

import (
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// addAdvisory adds PostgreSQL's functions of advisory locks: each by one number and by two.
func addAdvisory(r *scalar.Registry) {
	name := func(l AdvisoryLock, a []types.Datum) AdvisoryLock {
		if l.ID = a[0].Int(); len(a) == 2 {
			l = AdvisoryLock{Class: int32(a[0].Int()), Object: int32(a[1].Int()), Two: true, Shared: l.Shared, Transaction: l.Transaction, Try: l.Try}
		}
		return l
	}
	for _, args := range []string{"(int8)", "(int4, int4)"} {
		for _, shared := range []string{"", "_shared"} {
			l := AdvisoryLock{Shared: shared != ""}
			for _, level := range []string{"", "_xact"} {
				l.Transaction = level != ""
				wait, try := l, l
				try.Try = true
				r.Func("pg_advisory"+level+"_lock"+shared+args+" void", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
					_, err := session(ctx).AdvisoryLock(statement(ctx), name(wait, a))
					return types.NewString(""), err
				}).Volatile()
				r.Func("pg_try_advisory"+level+"_lock"+shared+args+" bool", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
					ok, err := session(ctx).AdvisoryLock(statement(ctx), name(try, a))
					return types.NewBool(ok), err
				}).Volatile()
			}
			l.Transaction = false
			r.Func("pg_advisory_unlock"+shared+args+" bool", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
				ok, err := session(ctx).AdvisoryUnlock(statement(ctx), name(l, a))
				return types.NewBool(ok), err
			}).Volatile()
		}
	}
	r.Func("pg_advisory_unlock_all() void", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		session(ctx).AdvisoryUnlockAll(statement(ctx))
		return types.NewString(""), nil
	}).Volatile()
}
