package session

import (
	"context"

	"meridian/sql/session/plan"

	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// runLiterals runs a text of the simple protocol through the plan that it shares with texts that differ in constants
// only. It reports false if the text is not of that kind. Where the shared plan can't be made, or can't take one of
// the constants, the text runs as it was written, so that errors refer to the client's own text.
func (s *Session) runLiterals(ctx context.Context, text string) (bool, error) {
	if s.state.Failed() {
		return false, nil
	}
	shared, found, ok := s.parser.Parameterize(text)
	if !ok {
		return false, nil
	}
	// The statement may run again after the parser's buffers have been used for another text.
	lits := append([]parse.Literal(nil), found...)
	ts := make([]*types.T, len(lits))
	for i := range lits {
		ts[i] = lits[i].T
	}
	stmts, err := s.parser.Parse(shared)
	if err != nil || len(stmts) != 1 {
		return false, nil
	}
	return true, s.step(ctx, text, 0, nil, func(ctx context.Context, final bool) error {
		s.ensureTxn()
		p, err := s.planFor(ctx, &stmts[0], ts)
		if err != nil && (Retryable(err) || Outcome(err).Code == sqlstate.LockNotAvailable) {
			return err // running the text as it was written would wait as long again
		}
		if err == nil && p.Query != nil {
			if params, ok := literalValues(p, lits, s.textEnv()); ok {
				return s.runPlan(ctx, p, params, nil, true, final)
			}
		}
		own, err := s.parser.Parse(text)
		if err != nil {
			return err
		}
		return s.runStatement(ctx, &own[0], final)
	}, true)
}

// literalValues reads the constants as the plan's parameters.
func literalValues(p *plan.Plan, lits []parse.Literal, env types.Env) ([]types.Datum, bool) {
	if len(p.Params) != len(lits) {
		return nil, false
	}
	params := make([]types.Datum, len(lits))
	for i, l := range lits {
		if l.T.Kind != types.KindUnknown {
			params[i] = types.NewInt(l.Int)
			continue
		}
		d, err := types.ParseTextEnv(p.Params[i], l.Text, env)
		if err != nil {
			return nil, false
		}
		params[i] = d
	}
	return params, true
}
