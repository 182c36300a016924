package session

import (
	"context"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/schemachange"
)

// analyze collects statistics of the named tables, or of all tables of the database, as far as the current role may maintain them.
func (s *Session) analyze(ctx context.Context, c *bind.Analyze, verb string) error {
	tables := c.Tables
	s.ensureTxn()
	if tables == nil {
		all, err := s.view().Tables(ctx, s.client.Database)
		if err != nil {
			return err
		}
		tables = all
	}
	for _, t := range s.mayMaintain(tables, c.Tables != nil, verb) {
		if t.Temporary() && t.Kind == catalog.KindTable {
			st, err := s.srv.Schema.Collect(ctx, t, s.temp.through(s.tx), schemachange.Collection{})
			if err != nil {
				return err
			}
			s.temp.local.SetStatistics(t.ID, st)
			s.viewCache = nil
			continue
		}
		if err := s.srv.Schema.Analyze(ctx, t); err != nil {
			return err
		}
	}
	return nil
}
