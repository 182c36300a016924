package session

import (
	"context"
	"errors"
	"io"

	"meridian/sql/session/plan"

	"meridian/sql/session/copydata"

	"meridian/sql/session/result"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/charset"
	"meridian/sql/exec"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// copyCommand runs COPY in either direction.
func (s *Session) copyCommand(ctx context.Context, c *bind.Copy) (string, error) {
	if c.Target != "" {
		return "", sqlstate.New(sqlstate.FeatureNotSupported, "COPY reads from and writes to the client only").
			WithHint("Use STDIN or STDOUT, or psql's \\copy.")
	}
	s.ensureTxn()
	if err := s.holdCursors(ctx); err != nil {
		return "", err
	}
	if c.From {
		return s.copyFrom(ctx, c)
	}
	return s.copyTo(ctx, c)
}

func copyFormat(c *bind.Copy) result.Format {
	if c.Options.Format == "binary" {
		return result.Binary
	}
	return result.Text
}

// copyFrom reads the client's rows. They are written in chunks, within the transaction.
func (s *Session) copyFrom(ctx context.Context, c *bind.Copy) (string, error) {
	if s.state.Modes().ReadOnly && !c.Table.Temporary() {
		return "", sqlstate.New(sqlstate.ReadOnlyTransaction, "cannot execute COPY FROM in a read-only transaction")
	}
	if err := s.underProtocol(c.Insert); err != nil {
		return "", err
	}
	if err := s.external(c.Insert); err != nil {
		return "", err
	}
	p := &plan.Plan{Bound: c.Insert, Private: true}
	if err := s.compile(ctx, p, c.Insert, s.planRoom(ctx)); err != nil {
		return "", err
	}
	cs, err := s.copyCharset(c)
	if err != nil {
		return "", err
	}
	kinds := make([]*types.T, len(c.Columns))
	for i, o := range c.Columns {
		kinds[i] = c.Table.Columns[o].Type
	}
	src, err := s.copySource(c)
	if err != nil {
		return "", err
	}
	// The client sends its data before it reads the error, as with PostgreSQL: a script's data would be statements otherwise.
	if c.Options.Freeze && !c.Table.Temporary() && !s.emptied(c.Table.ID) {
		return "", sqlstate.New(sqlstate.ObjectNotInPrerequisite, "cannot perform COPY FREEZE because the table was not created or truncated in the current subtransaction")
	}
	n, err := s.ingest(ctx, c, p, kinds, src, cs)
	if err != nil {
		// The connection ignores further data of the client.
		return "", err
	}
	return "COPY " + itoa(n), nil
}

// emptied reports whether a table was made or truncated in the current subtransaction: since the last savepoint that is left.
func (s *Session) emptied(id catalog.ID) bool {
	var since *lease.Mark
	if sp := s.savepoints.Last(); sp != nil {
		for _, m := range sp.marks {
			if k, ok := m.(lease.Mark); ok {
				since = &k
			}
		}
	}
	return s.cat.Emptied(id, since)
}

// copySource requests data from the client, and records it up to a bound. When the statement runs again, it reads the recorded data.
func (s *Session) copySource(c *bind.Copy) (result.CopySource, error) {
	st := s.replay.Step()
	if t := st.Copies(); t != nil {
		return t, nil
	}
	src, err := s.out.CopyIn(copyFormat(c), len(c.Columns))
	if err != nil {
		return nil, err
	}
	return st.Copy(s.out, src, s.replay.TapeLimit(s.replayLimits())), nil
}

func (s *Session) ingest(ctx context.Context, c *bind.Copy, p *plan.Plan, kinds []*types.T, src result.CopySource, cs *charset.Charset) (int64, error) {
	w, err := exec.NewCopyWriter(p.Program, s.environmentFor(nil, false))
	if err != nil {
		return 0, err
	}
	defer w.Close()
	in := copydata.NewReader(src, c, copydata.Reading{Kinds: kinds, Env: s.textEnv(), Charset: cs, Client: s.charset, Memory: s.account()})
	n := int64(0)
	row := make(types.Row, len(kinds))
	for {
		if n%16 == 0 && ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		err := in.Next(row)
		if errors.Is(err, io.EOF) {
			return n, w.Flush(ctx)
		}
		if err != nil {
			return n, err
		}
		if err := w.Add(ctx, row); err != nil {
			return n, in.Where(err)
		}
		n++
	}
}

// copyTo sends a query's rows.
func (s *Session) copyTo(ctx context.Context, c *bind.Copy) (string, error) {
	p := &plan.Plan{Bound: c.Query, Private: true}
	if err := s.compile(ctx, p, c.Query, s.planRoom(ctx)); err != nil {
		return "", err
	}
	p, err := s.prepareQuery(ctx, p, nil, true)
	if err != nil {
		return "", err
	}
	cs, err := s.copyCharset(c)
	if err != nil {
		return "", err
	}
	cur, err := p.Program.Start(ctx, s.environmentFor(nil, false))
	if err != nil {
		return "", err
	}
	defer cur.Close()
	s.out.CopyOut(copyFormat(c), len(p.Columns))
	w := copydata.NewWriter(&c.Options, p.Columns, copydata.Writing{Style: &s.style, Charset: cs, Memory: s.account()})
	buf, header, err := w.Begin()
	if err == nil && header {
		err = s.out.CopyData(buf)
		buf = buf[:0]
	}
	if err != nil {
		return "", err
	}
	n := int64(0)
	for {
		row, err := cur.Next(ctx)
		if err != nil {
			return "", err
		}
		if row == nil {
			break
		}
		n++
		if err := w.Room(row); err != nil {
			return "", err
		}
		if buf, err = w.Append(buf, row); err != nil {
			return "", err
		}
		if err := s.out.CopyData(buf); err != nil {
			return "", err
		}
		buf = buf[:0]
	}
	if buf = w.End(buf); len(buf) > 0 {
		if err := s.out.CopyData(buf); err != nil {
			return "", err
		}
	}
	s.out.CopyDone()
	return "COPY " + itoa(n), nil
}

// copyCharset is the encoding of COPY's data: the client's, unless the statement names one.
func (s *settings) copyCharset(c *bind.Copy) (*charset.Charset, error) {
	if c.Options.Encoding == "" {
		return s.charset, nil
	}
	cs, _, err := charset.Find(c.Options.Encoding)
	if err != nil {
		return nil, sqlstate.New(sqlstate.InvalidParameterValue, "argument to option \"encoding\" must be a valid encoding name")
	}
	return cs, nil
}
