package session

import (
	"context"

	"meridian/sql/bind"
)

// analyze collects statistics of tables, of all tables of the database if none are named.
func (s *Session) analyze(ctx context.Context, c *bind.Analyze) error {
	tables := c.Tables
	if tables == nil {
		s.ensureTxn()
		all, err := s.view().Tables(ctx, s.client.Database)
		if err != nil {
			return err
		}
		tables = all
	}
	for _, t := range tables {
		if err := s.srv.Schema.Analyze(ctx, t); err != nil {
			return err
		}
	}
	return nil
}
