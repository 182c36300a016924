package scalar

import "meridian/sql/types"

// addAdvisory adds PostgreSQL's functions of advisory locks: each by one number and by two.
func addAdvisory(r *Registry) {
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
				r.fn("pg_advisory"+level+"_lock"+shared+args+" void", func(ctx *Context, a []types.Datum) (types.Datum, error) {
					_, err := ctx.Env.AdvisoryLock(ctx.context(), name(wait, a))
					return types.NewString(""), err
				}).volatile()
				r.fn("pg_try_advisory"+level+"_lock"+shared+args+" bool", func(ctx *Context, a []types.Datum) (types.Datum, error) {
					ok, err := ctx.Env.AdvisoryLock(ctx.context(), name(try, a))
					return types.NewBool(ok), err
				}).volatile()
			}
			l.Transaction = false
			r.fn("pg_advisory_unlock"+shared+args+" bool", func(ctx *Context, a []types.Datum) (types.Datum, error) {
				ok, err := ctx.Env.AdvisoryUnlock(ctx.context(), name(l, a))
				return types.NewBool(ok), err
			}).volatile()
		}
	}
	r.fn("pg_advisory_unlock_all() void", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		ctx.Env.AdvisoryUnlockAll(ctx.context())
		return types.NewString(""), nil
	}).volatile()
}
