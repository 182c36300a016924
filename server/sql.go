package server

import (
	"context"

	"meridian/console"
)

// sqlLayer is the node's SQL side.
type sqlLayer struct{}

func (s *sqlLayer) addr() string              { return "" }
func (s *sqlLayer) close()                    {}
func (s *sqlLayer) drain(ctx context.Context) {}
func (n *Node) listenSQL() error              { return nil }
func (n *Node) startSQL(ctx context.Context, id identity) error {
	return nil
}
func (n *Node) setPassword(ctx context.Context, user, password string) error { return nil }
func (s *sqlLayer) collect(counter func(name, help string, v int64), gauge func(name, help string, v float64)) {
}

func (s *sqlLayer) counters() console.SQL { return console.SQL{} }
