package session

import (
	"context"

	"meridian/sql/session/result"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Run runs a string of statements as a user, for the node itself; the rows are dropped.
func (s *Server) Run(ctx context.Context, user, database, text string) error {
	sess, err := s.Open(ctx, Client{User: user, Database: database, Remote: "internal"}, &discard{})
	if err != nil {
		return err
	}
	defer sess.Close()
	return sess.Query(ctx, text)
}

// discard is a destination that drops all results.
type discard struct{}

func (d *discard) Describe([]result.Column, []result.Format)             {}
func (d *discard) Row(types.Row, []result.Column, []result.Format) error { return nil }
func (d *discard) Complete(string)                                       {}
func (d *discard) Empty()                                                {}
func (d *discard) Suspend()                                              {}
func (d *discard) Notice(*sqlstate.Error)                                {}
func (d *discard) Parameter(string, string)                              {}
func (d *discard) Mark() result.Mark                                     { return result.Mark{} }
func (d *discard) Rewind(result.Mark) bool                               { return true }
func (d *discard) Watch(result.Fingerprint)                              {}
func (d *discard) Watched(bool) (_, _ result.Fingerprint, _ bool) {
	return result.Fingerprint{}, result.Fingerprint{}, true
}
func (d *discard) Take(int64) []byte          { return nil }
func (d *discard) Give([]byte)                {}
func (d *discard) CopyOut(result.Format, int) {}
func (d *discard) CopyData([]byte) error      { return nil }
func (d *discard) CopyDone()                  {}
func (d *discard) CopyIn(result.Format, int) (result.CopySource, error) {
	return nil, sqlstate.New(sqlstate.FeatureNotSupported, "COPY FROM STDIN needs a client")
}
