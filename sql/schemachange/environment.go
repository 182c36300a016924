package schemachange

import (
	"context"
	"time"

	"meridian/host"
	"meridian/replica/closedts"
	"meridian/sql/bind"
	"meridian/sql/catalog/lease"
	"meridian/sql/exec"
	"meridian/sql/memory"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/scalar/system"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// environment is the session that stored expressions see when no session evaluates them. Calls of missing methods panic, which
// evaluate turns into an error.
type environment struct {
	system.Environment
	user, database string
	path           []string
	dice           host.Dice
}

func (e environment) CurrentUser() string                        { return e.user }
func (e environment) SessionUser() string                        { return e.user }
func (e environment) CurrentDatabase() string                    { return e.database }
func (e environment) SearchPath(bool) []string                   { return e.path }
func (e environment) Setting(string) (string, bool)              { return "", false }
func (e environment) Random() float64                            { return e.dice.Float64() }
func (e environment) UniqueRowID() int64                         { return int64(e.dice.Uint64() >> 1) }
func (e environment) Sleep(context.Context, time.Duration) error { return nil }
func (e environment) TypeIsVisible(uint32) bool                  { return true }
func (e environment) Description(string, uint32, int) string     { return "" }
func (e environment) RegName(types.Kind, uint32) string          { return "" }
func (e environment) ResolveReg(types.Kind, string) (uint32, error) {
	return 0, sqlstate.New(sqlstate.FeatureNotSupported, "names of objects are not supported in stored expressions")
}

func (e environment) RandomUUID() (u [16]byte) {
	e.dice.Read(u[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u
}

func (o *Options) scalarContext(ctx context.Context, info lease.Info, loc *time.Location) *scalar.Context {
	now := o.Clock.Wall()
	if loc == nil {
		loc = time.UTC
	}
	return &scalar.Context{Context: ctx, StatementTime: now, TxnTime: now, Clock: o.Clock.Wall,
		FollowerReadLag: closedts.ReadLag, Location: loc,
		Env: environment{user: info.User, database: info.Database, path: info.SearchPath, dice: o.Host.Dice}}
}

// evaluate computes an expression without columns.
func evaluate(ctx *scalar.Context, e scalar.Expr) (d types.Datum, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = sqlstate.New(sqlstate.FeatureNotSupported, "this expression can't be evaluated here")
		}
	}()
	ev, err := scalar.Compile(e, nil)
	if err != nil {
		return types.Null, err
	}
	return ev.Eval(ctx, nil)
}

// query runs a statement's text within a transaction, for the validation of constraints.
func (o *Options) query(ctx context.Context, tx exec.KV, view *lease.View, text string, row func(types.Row) error) error {
	stmt, err := parse.ParseOne(text)
	if err != nil {
		return err
	}
	b := &bind.Binder{View: view, Registry: o.Registry, Location: time.UTC, Adding: true}
	bound, err := b.Bind(ctx, stmt)
	if err != nil {
		return err
	}
	q, ok := bound.(*bind.Query)
	if !ok {
		return sqlstate.New(sqlstate.InternalError, "schemachange: not a query: %s", text)
	}
	plan, err := opt.Optimize(q.Query, opt.Env{Registry: o.Registry})
	if err != nil {
		return err
	}
	program, err := exec.Build(ctx, plan, exec.Options{View: view})
	if err != nil {
		return err
	}
	tx.StepStatement()
	sctx := o.scalarContext(ctx, lease.Info{User: view.CurrentUser(), Database: view.CurrentDatabase(), SearchPath: view.SearchPath()}, nil)
	account := memory.NewSession(o.Memory)
	defer account.Close()
	cur, err := program.Start(ctx, &exec.Env{Txn: tx, Scalar: sctx, Budget: account})
	if err != nil {
		return err
	}
	defer cur.Close()
	for {
		r, err := cur.Next(ctx)
		if err != nil || r == nil {
			return err
		}
		if err := row(r); err != nil {
			return err
		}
	}
}
