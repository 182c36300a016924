package postgres

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// DefaultBin is where Debian keeps PostgreSQL 15's programs.
const DefaultBin = "/usr/lib/postgresql/15/bin"

// Server is one running server.
type Server struct {
	Port   string
	bin    string
	dir    string
	cmd    *exec.Cmd
	exited chan struct{}
	// connections bounds the server's connections.
	connections int
	settings    []string
}

// Group is a primary and its standbys, the primary first.
type Group []*Server

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// Start starts a server with a number of synchronous standbys, for up to 200 connections.
func Start(ctx context.Context, bin, dir string, standbys int) (Group, error) {
	return StartFor(ctx, bin, dir, standbys, 200)
}

// StartFor is Start for a number of connections, with settings of the form name=value.
func StartFor(ctx context.Context, bin, dir string, standbys, connections int, settings ...string) (g Group, err error) {
	defer func() {
		if err != nil {
			g.Stop()
			g = nil
		}
	}()
	primary, err := newServer(bin, dir, "primary", connections, settings)
	if err != nil {
		return nil, err
	}
	if err := primary.tool(ctx, "initdb", "-D", primary.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return nil, err
	}
	g = append(g, primary)
	if err := primary.start(ctx); err != nil {
		return g, err
	}
	for i := range standbys {
		s, err := newServer(bin, dir, fmt.Sprintf("standby%d", i+1), connections, settings)
		if err != nil {
			return g, err
		}
		source := fmt.Sprintf("host=127.0.0.1 port=%s user=postgres application_name=standby%d", primary.Port, i+1)
		if err := s.tool(ctx, "pg_basebackup", "-D", s.data(), "-R", "-X", "stream", "-c", "fast", "-d", source); err != nil {
			return g, err
		}
		g = append(g, s)
		if err := s.start(ctx); err != nil {
			return g, err
		}
	}
	if standbys > 0 {
		if err := primary.requireStandby(ctx, standbys); err != nil {
			return g, err
		}
	}
	return g, nil
}

func newServer(bin, dir, name string, connections int, settings []string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{Port: port, bin: bin, dir: filepath.Join(dir, name), connections: connections, settings: settings}
	if err := os.MkdirAll(s.data(), 0o700); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		for _, d := range []string{s.dir, s.data()} {
			if err := os.Chown(d, nobody, nobody); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// tool runs one of PostgreSQL's programs as the server's user.
func (s *Server) tool(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	unprivileged(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

func (s *Server) start(ctx context.Context) error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", s.Port, "-k", s.dir,
		"-c", "listen_addresses=127.0.0.1", "-c", fmt.Sprint("max_connections=", s.connections), "-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB", "-c", "max_wal_senders=10")
	for _, v := range s.settings { // the last of a name counts
		cmd.Args = append(cmd.Args, "-c", v)
	}
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, s.dir
	unprivileged(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go func() { cmd.Wait(); close(exited) }()
	for {
		if err = s.exec(ctx, "SELECT 1"); err == nil {
			return nil
		}
		select {
		case <-exited:
			raw, _ := os.ReadFile(log.Name())
			return fmt.Errorf("postgres ended: %s", raw)
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// URL returns the server's PostgreSQL URL.
func (s *Server) URL() string {
	return "postgres://postgres@127.0.0.1:" + s.Port + "/postgres?sslmode=disable"
}

func (s *Server) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// requireStandby makes commits wait for any one standby, and waits until all of them stream.
func (s *Server) requireStandby(ctx context.Context, standbys int) error {
	for _, q := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'", "SELECT pg_reload_conf()"} {
		if err := s.exec(ctx, q); err != nil {
			return err
		}
	}
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for {
		var n int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'").Scan(&n); err != nil {
			return err
		}
		if n == standbys {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d standbys stream: %w", n, standbys, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// PIDs returns the servers' first processes.
func (g Group) PIDs() (out []int) {
	for _, s := range g {
		out = append(out, s.cmd.Process.Pid)
	}
	return out
}

// Stop ends all servers at once; their data is not needed any more.
func (g Group) Stop() {
	for _, s := range g {
		if s.cmd != nil {
			s.cmd.Process.Signal(syscall.SIGQUIT)
		}
	}
	for _, s := range g {
		if s.cmd == nil {
			continue
		}
		select {
		case <-s.exited:
		case <-time.After(10 * time.Second):
			s.cmd.Process.Kill()
			<-s.exited
		}
	}
}

// Version asks for the server's version, the short form.
func (s *Server) Version(ctx context.Context) string {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return "unknown"
	}
	defer conn.Close(ctx)
	var v string
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&v); err != nil {
		return "unknown"
	}
	return strings.Fields(v)[0]
}
