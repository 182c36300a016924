package bind

import (
	"context"
	"time"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/fault"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// PostgreSQL's limits on the columns of a row and the arguments of a function. Code that compares each entry of a list with each
// other relies on them, and the protocol counts columns in 16 bits.
const (
	maxTargets = 1664
	maxArgs    = 100
)

// maxCachedExprs bounds the cache of parsed stored expressions.
const maxCachedExprs = 4096

// Binder binds statements against one view of the catalogue. A session keeps one and sets the exported fields before
// each call; it is not for concurrent use. A *Query that it made is immutable and may be shared.
type Binder struct {
	View     catalog.View
	Registry *scalar.Registry
	// ParamTypes are the parameter types that the client declared; Unknown or missing ones are inferred.
	ParamTypes []*types.T
	// Location is the session's time zone.
	Location *time.Location
	// Names, if set, finds the objects that literals of regclass and similar types name, so that an unknown name is an error before the
	// first row.
	Names types.Names
	// Adding makes columns that are being added visible, for the validation of constraints.
	Adding bool
	// Refreshing allows writes to a materialized view, for REFRESH MATERIALIZED VIEW.
	Refreshing bool
	// Rehome gives new tables that are REGIONAL BY ROW a region column whose rows move to the gateway that updates them.
	Rehome bool
	// Room, if set, accounts for the memory of a bound statement. It fails when that is too much, and when the
	// statement was cancelled. Nil sets no limit.
	Room func(bytes int64) error

	// stash caches the syntax trees of stored expressions and views by their text.
	stash map[string]storedTree
}

type storedTree struct {
	expr tree.Expr
	sel  *tree.Select
	stmt *parse.Statement
}

// builder is the state of binding one statement.
type builder struct {
	*Binder
	budget
	source
	names
	findings
	meta *opt.Metadata
	// deferrals counts the constraints of a statement, by parse.ConstraintKind.
	deferrals [3]int
	params    []*scalar.Placeholder
	// untyped has the position of each parameter's first use as a value of any type, if the parameter had no type then; zero: there is none.
	untyped []int
	withID  int
	// subqueryNames has the names of the columns of scalar subqueries.
	subqueryNames map[*tree.Subquery]string
	// levels counts the levels that have numbers.
	levels int
	// lockables are the entries of the FROM clause that is bound now, for FOR UPDATE.
	lockables *lockList
	// future are the names of WITH clauses around that are not defined yet.
	future []string
	// locked says that a query around the one that is bound now may lock the rows of that.
	locked bool
	// top is the WITH clause of the whole statement, the only one that may change data.
	top *tree.With
	// text collects what the stored text needs, if the query that is bound now is that of a new view.
	text *viewText
	// rowFields has the columns of the row values that set-returning functions yield, for (row).field.
	rowFields map[*scalar.RowCtor][]column
	// nullableRows are rows of relations on a side of an outer join that may be missing, and markers the columns that tell.
	nullableRows map[*scalar.Case]*scalar.RowCtor
	// renamedRows are the names that the statement gives to the columns of rows of relations, where they are not the relation's own.
	renamedRows map[scalar.Expr][]string
	markers     map[opt.ColumnID]*relation
	// draft is the table that CREATE TABLE defines, and draftName its name.
	draft     *catalog.Table
	draftName Name
}

// bailout carries an error from the depth of the builder to Bind.
type bailout struct{ err error }

func raise(err error) { panic(bailout{err}) }

// check raises an error of the catalogue.
func check(err error) {
	if err != nil {
		raise(err)
	}
}

// guard turns a bailout into err, and any other panic into XX000.
func guard(err *error) {
	switch r := recover().(type) {
	case nil:
	case bailout:
		*err = r.err
	default:
		*err = fault.Recovered(r, "while binding")
	}
}

func (b *Binder) newBuilder(ctx context.Context, stmt *parse.Statement) *builder {
	bd := &builder{Binder: b, budget: budget{room: b.Room}, source: source{stmt: stmt}, names: names{ctx: ctx, view: b.View}, meta: &opt.Metadata{}}
	n := max(stmt.NumParams, len(b.ParamTypes))
	if n > 0 {
		bd.params = make([]*scalar.Placeholder, n)
		for i := range bd.params {
			t := types.Unknown
			if i < len(b.ParamTypes) && b.ParamTypes[i] != nil {
				if t = b.ParamTypes[i]; t.IsEnum() || t.IsRow() {
					// The type as it is now.
					if now := bd.typeByOID(t.OID()); now != nil {
						t = now
					}
				}
			}
			bd.params[i] = &scalar.Placeholder{Index: i, T: t}
		}
	}
	return bd
}

// Bind binds one statement: a *Query, or a command of statement.go.
func (b *Binder) Bind(ctx context.Context, stmt *parse.Statement) (s Statement, err error) {
	defer guard(&err)
	return b.newBuilder(ctx, stmt).statement()
}

// AsOf binds only the AS OF SYSTEM TIME of a query's outermost FROM; nil if it has none. It looks up no relation, so that it
// works for relations that no longer exist.
func (b *Binder) AsOf(ctx context.Context, stmt *parse.Statement) (e scalar.Expr, err error) {
	defer guard(&err)
	n, ok := stmt.Node.(tree.Statement)
	for ok {
		switch x := n.(type) {
		case *tree.ParenSelect:
			n = x.Select
		case *tree.Select:
			n = x.Select
		case *tree.UnionClause:
			n = x.Left
		case *tree.SelectClause:
			if x.From.AsOf.Expr == nil {
				return nil, nil
			}
			bd := b.newBuilder(ctx, stmt)
			bd.setAsOf(x.From.AsOf.Expr)
			return bd.asOf, nil
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// statement dispatches on the kind of statement.
func (b *builder) statement() (Statement, error) {
	switch n := b.stmt.Node.(type) {
	case *tree.Select, *tree.Insert, *tree.Update, *tree.Delete, *tree.ParenSelect:
		return b.query(n.(tree.Statement)), nil
	case *parse.Begin, *parse.Commit, *parse.Rollback, *parse.Savepoint, *parse.Release, *parse.RollbackTo,
		*parse.SetTransaction, *parse.SetVar, *parse.ResetVar, *parse.ShowVar, *parse.SetClusterSetting,
		*parse.ShowClusterSetting, *parse.Explain, *parse.Prepare, *parse.Execute, *parse.Deallocate,
		*parse.DeclareCursor, *parse.Fetch, *parse.CloseCursor, *parse.Discard, *parse.Listen, *parse.Unlisten,
		*parse.Notify, *parse.CreateRole, *parse.AlterRole, *parse.DropRole, *parse.ReassignOwned, *parse.DropOwned, *parse.Noop, *parse.Cancel,
		*parse.SetConstraints:
		return n, nil
	case tree.Statement:
		return b.definition(n), nil
	default:
		return b.command(n), nil
	}
}

// query binds a statement that has rows.
func (b *builder) query(n tree.Statement) *Query {
	if sel, ok := n.(*tree.ParenSelect); ok {
		n = sel.Select
	}
	q := &opt.Query{Meta: b.meta}
	sc := &scope{level: &level{}}
	b.top = withOf(n)
	out := b.rowStatement(n, sc, &q.Tag)
	q.Root = out.rel
	q.Order = out.order
	q.Output = make([]opt.OutputColumn, len(out.cols))
	for i, c := range out.cols {
		q.Output[i] = opt.OutputColumn{Name: c.name, Col: c.id, Type: c.t}
	}
	return b.finish(q)
}

// finish completes a query with the findings of its binding.
func (b *builder) finish(q *opt.Query) *Query {
	res := &Query{Query: q, AsOf: b.asOf, Access: b.access, Writes: b.writes, Locks: b.locks, Locking: b.locking}
	b.meta.Depends = b.depends
	if len(b.params) > 0 {
		res.ParamTypes = make([]*types.T, len(b.params))
		for i, p := range b.params {
			if p.T.Kind == types.KindUnknown {
				raise(sqlstate.New(sqlstate.IndeterminateDatatype, "could not determine data type of parameter $%d", i+1))
			}
			if i < len(b.untyped) && b.untyped[i] != 0 {
				e := sqlstate.New(sqlstate.AmbiguousParameter, "could not determine data type of parameter $%d", i+1)
				raise(e.At(b.untyped[i]))
			}
			res.ParamTypes[i] = p.T
		}
		b.meta.Placeholders = res.ParamTypes
	}
	return res
}

// Argument binds an argument of EXECUTE: the value of parameter $number, which has a type.
func (b *Binder) Argument(ctx context.Context, text string, want *types.T, number int) (scalar.Expr, error) {
	return b.freeStanding(ctx, text, want, number)
}

// Expr binds a free-standing expression, such as a setting's value or an AS OF SYSTEM TIME. With want not nil it is coerced as an assignment to that type.
func (b *Binder) Expr(ctx context.Context, text string, want *types.T) (scalar.Expr, error) {
	return b.freeStanding(ctx, text, want, 0)
}

func (b *Binder) freeStanding(ctx context.Context, text string, want *types.T, number int) (e scalar.Expr, err error) {
	defer guard(&err)
	te, stmt, err := parse.ParseExpr(text)
	if err != nil {
		return nil, err
	}
	bd := b.newBuilder(ctx, stmt)
	c := &exprContext{scope: &scope{level: &level{}}, clause: "an expression"}
	e = bd.expr(c, te)
	switch {
	case want != nil:
		if from := e.Type(); number > 0 && from.Kind != types.KindUnknown && !types.CanCast(from, want, types.CastAssignment) {
			raise(bd.at(sqlstate.New(sqlstate.DatatypeMismatch, "parameter $%d of type %s cannot be coerced to the expected type %s", number, from.Name(), want.Name()).
				WithHint("You will need to rewrite or cast the expression."), te))
		}
		e = bd.coerce(e, want, types.CastAssignment, te)
	case e.Type().Kind == types.KindUnknown:
		e = bd.coerce(e, types.Text, types.CastImplicit, te)
	}
	return e, nil
}
