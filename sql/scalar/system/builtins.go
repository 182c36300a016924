package system

import (
	"context"
	"sync"

	"meridian/sql/scalar"
	"meridian/sql/types"
)

// Builtins is the table of built-in functions, operators and aggregates, made at its first use.
var Builtins = sync.OnceValue(NewBuiltins)

// NewBuiltins makes the table anew. Functions get their OIDs in this order, and within each subject in the order in which it adds them.
func NewBuiltins() *scalar.Registry {
	return scalar.NewRegistry(
		addSequences, addRegions, addIdentity, addDefinitions, addAddresses, addComments, addSignatures, addLookups, addPrivileges,
		addSizes, addRelations, addTransaction, addNode, addTypes, addSettings, addSignals, addCluster, addNames, addAdvisory, addSets, addEncodings,
	)
}

// session is the environment of this package's functions.
func session(ctx *scalar.Context) Environment { return ctx.Env.(Environment) }

// statement is the context of the running statement, for functions that wait.
func statement(ctx *scalar.Context) context.Context {
	if ctx.Context != nil {
		return ctx.Context
	}
	return context.Background()
}

type evalN = func(ctx *scalar.Context, args []types.Datum) (types.Datum, error)

func str(s string) (types.Datum, error)   { return types.NewString(s), nil }
func num(n int64) (types.Datum, error)    { return types.NewInt(n), nil }
func boolean(b bool) (types.Datum, error) { return types.NewBool(b), nil }

func orNull(s string) (types.Datum, error) {
	if s == "" {
		return types.Null, nil
	}
	return str(s)
}

// null is a function about something that Meridian does not have.
func null(*scalar.Context, []types.Datum) (types.Datum, error) { return types.Null, nil }

// constants adds functions that always return the same value.
func constants(r *scalar.Registry) func(sig string, d types.Datum) {
	return func(sig string, d types.Datum) {
		r.Func(sig, func(*scalar.Context, []types.Datum) (types.Datum, error) { return d, nil }).Stable()
	}
}
