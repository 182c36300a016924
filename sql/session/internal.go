package session

import (
	"context"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Run runs a string of statements as a user, for the node's own purposes; rows are dropped.
func (s *Server) Run(ctx context.Context, user, database, text string) error {
	sess, err := s.Open(ctx, Client{User: user, Database: database, Remote: "internal"}, &discard{})
	if err != nil {
		return err
	}
	defer sess.Close()
	return sess.Query(ctx, text)
}

// discard is a client that listens to nothing.
type discard struct{}

func (d *discard) Describe([]Column, []Format)             {}
func (d *discard) Row(types.Row, []Column, []Format) error { return nil }
func (d *discard) Complete(string)                         {}
func (d *discard) Empty()                                  {}
func (d *discard) Suspend()                                {}
func (d *discard) Notice(*sqlstate.Error)                  {}
func (d *discard) Parameter(string, string)                {}
func (d *discard) Mark() Mark                              { return Mark{} }
func (d *discard) Rewind(Mark) bool                        { return true }
func (d *discard) Watch(Fingerprint)                       {}
func (d *discard) Watched(bool) (_, _ Fingerprint, _ bool) { return Fingerprint{}, Fingerprint{}, true }
func (d *discard) Take(int64) []byte                       { return nil }
func (d *discard) Give([]byte)                             {}
func (d *discard) CopyOut(Format, int)                     {}
func (d *discard) CopyData([]byte) error                   { return nil }
func (d *discard) CopyDone()                               {}
func (d *discard) CopyIn(Format, int) (CopySource, error) {
	return nil, sqlstate.New(sqlstate.FeatureNotSupported, "COPY FROM STDIN needs a client")
}
