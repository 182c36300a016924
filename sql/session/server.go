package session

import (
	"context"
	"encoding/binary"
	"math/bits"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"meridian/sql/session/plan"
	"meridian/sql/session/portal"

	"meridian/sql/session/advisory"
	"meridian/sql/session/parameter"

	"meridian/sql/catalog/lease"
	"meridian/sql/session/result"

	"meridian/sql/memory"
	"meridian/sql/notify"
	"meridian/sql/temporary"
	"meridian/sql/types"
	"meridian/sql/virtual"
)

// Metrics are counters of the sessions of a node.
type Metrics struct {
	Selects, Inserts, Updates, Deletes, Other      atomic.Int64
	Errors, Retries, ClientRetries, Ambiguous      atomic.Int64
	StatementRetries                               atomic.Int64 // at READ COMMITTED
	Faults                                         atomic.Int64 // panics that ended a statement alone (session.S6)
	TxnCommits, TxnRollbacks, PlanHits, PlanMisses atomic.Int64
	// Replays counts the transactions that were run again after a part of their output had been sent: ReplaysSucceeded with the same results,
	// ReplaysDiffering with other results, which is an error. ReplaysOff counts those that could not be run again. Retries counts the transactions of
	// whose output nothing had been sent.
	Replays, ReplaysSucceeded, ReplaysDiffering, ReplaysOff atomic.Int64
	// Latency is a histogram of statement times, see LatencyOf.
	Latency [LatencySteps]atomic.Int64
}

// count counts a statement by the verb of its command tag.
func (m *Metrics) count(verb string) {
	switch verb {
	case "SELECT":
		m.Selects.Add(1)
	case "INSERT":
		m.Inserts.Add(1)
	case "UPDATE":
		m.Updates.Add(1)
	case "DELETE":
		m.Deletes.Add(1)
	default:
		m.Other.Add(1)
	}
}

// LatencySteps is the number of steps of the histogram of statement times: one for each microsecond up to 8, then eight for each power of two, up to half an hour.
const LatencySteps = 8 * 29

func (m *Metrics) observe(d time.Duration) { m.Latency[latencyStep(d)].Add(1) }

func latencyStep(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < 8 {
		return int(us)
	}
	e := bits.Len64(us) - 4 // us>>e is from 8 up to 15
	return min(8*e+int(us>>e), LatencySteps-1)
}

// LatencyOf is the middle of a step of the histogram; no time of the step is further from it than a sixteenth.
func LatencyOf(step int) time.Duration {
	if step < 8 {
		return time.Duration(step) * time.Microsecond
	}
	e := step/8 - 1
	low := time.Duration(8+step%8) << e
	return low*time.Microsecond + time.Microsecond<<e/2
}

// Server opens sessions, and lists those that are open on this node.
type Server struct {
	Services
	metrics  Metrics
	plans    *plan.Cache
	defaults map[string]string // of settings
	rowIDs   rowIDs
	finished finished
	looking  atomic.Bool   // LookForUser runs
	ended    atomic.Uint64 // the last generation of roles and grants for which endDisabled has run

	mu       sync.Mutex // guards the fields below; nothing is taken after it
	sessions map[int32]*Session
	nextPID  int32
}

// NewServer makes a server.
func NewServer(s Services) *Server {
	if s.PlanCache == 0 {
		s.PlanCache = 4096
	}
	if s.Notify == nil {
		s.Notify = notify.New(notify.Options{Host: s.Host})
	}
	srv := &Server{Services: s, plans: plan.NewCache(s.PlanCache), sessions: map[int32]*Session{}, nextPID: 1000, defaults: parameter.Defaults()}
	if s.TLS {
		srv.defaults["ssl"] = "on"
	}
	s.Catalog.OnChange(srv.endDisabled)
	return srv
}

// Metrics of this node's sessions.
func (s *Server) Metrics() *Metrics { return &s.metrics }

// Client describes the client that opens a session.
type Client struct {
	User, Database string
	// Settings are the startup message's further parameters.
	Settings map[string]string
	Remote   string
	// Interrupt is called, from another goroutine, when the running statement is cancelled; nil: nothing.
	Interrupt func()
}

// Open opens a session, which writes its results to out.
func (s *Server) Open(ctx context.Context, c Client, out result.Results) (*Session, error) {
	// The role or the database may have been created on another node a moment ago.
	if _, err := s.Catalog.User(ctx, c.User); err != nil {
		return nil, err
	}
	if _, err := s.Catalog.DatabaseExists(ctx, c.Database); err != nil {
		return nil, err
	}
	if err := s.mayLogin(&c); err != nil {
		return nil, err
	}
	sess := &Session{srv: s, out: out, held: held{memory: memory.NewSession(s.Memory), perStatement: s.MemoryPerStatement},
		identity: identity{client: c, authorized: c.User, acting: c.User, opened: s.Clock.Wall()}}
	sess.env.s, sess.params = sess, parameter.New(s.defaults, sess.memory)
	sess.statements, sess.portals = portal.NewStatements(sess.memory), portal.NewPortals()
	sess.computed, sess.wall = sess.computedSetting, s.Clock.Wall
	sess.deferred.memory = sess.txnMemory
	sess.advisory = advisory.New(lockOwner{sess}, sess.memory)
	sess.temp = temporaries{local: &lease.Local{}, session: sess.memory, limit: func() int64 { return int64(sess.limit(temporary.Setting)) }}
	sess.parts = sess.participants()
	sess.timer.host = s.Host
	if s.Gate != nil {
		sess.ticket = s.Gate.NewTicket()
	}
	if err := sess.startupSettings(c.Settings); err != nil {
		return nil, err
	}
	var secret [4]byte
	s.Host.Dice.Read(secret[:])
	sess.secret = int32(binary.BigEndian.Uint32(secret[:]))
	sess.settingChanged(parameter.ClientCheck)
	if err := s.register(sess); err != nil {
		return nil, err
	}
	sess.notifying = notifying{exchange: s.Notify, database: c.Database, process: sess.pid, ring: sess.ring, overflowed: sess.overflowed}
	sess.armIdle()
	return sess, nil
}

// register adds a session to the list, under a process id of its own.
func (s *Server) register(sess *Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The check is repeated here: a change of the role after it finds the session in the list.
	if err := s.mayLogin(&sess.client); err != nil {
		return err
	}
	if err := s.tooMany(sess.client.User); err != nil {
		return err
	}
	sess.loginID = s.Catalog.Roles().Role(sess.client.User).ID
	for {
		s.nextPID++
		if s.nextPID <= 0 {
			s.nextPID = 1000
		}
		// The node's number is part of the process id, so that pids are unique in a cluster of up to 2048 nodes.
		sess.pid = int32(s.NodeID()&0x7ff)<<20 | s.nextPID&0xfffff
		if _, taken := s.sessions[sess.pid]; !taken {
			break
		}
	}
	s.sessions[sess.pid] = sess
	return nil
}

// Verifier returns a user's stored password, empty if there is none or it has expired, and whether this node knows the user. It sends no requests.
func (s *Server) Verifier(user string) (verifier string, known bool) {
	u := s.Catalog.KnownUser(user)
	if u == nil {
		return "", false
	}
	if u.Expires && u.ValidUntil < types.MicrosFromTime(s.Clock.Wall()) {
		return "", true
	}
	return u.Verifier, true
}

// LookForUser looks up, in the background, a user that this node does not know: it may have been created on another node a
// moment ago, and can log in the next time. At most one lookup is under way.
func (s *Server) LookForUser(user string) {
	if !s.looking.CompareAndSwap(false, true) {
		return
	}
	ok := s.Host.Group.Go(func(ctx context.Context) {
		defer s.looking.Store(false)
		s.Catalog.User(ctx, user) // an error is dropped: the next login repeats the lookup
	})
	if !ok {
		s.looking.Store(false)
	}
}

// Cancel cancels the running statement of the session with this key; a wrong key does nothing.
func (s *Server) Cancel(pid, secret int32) {
	s.mu.Lock()
	sess := s.sessions[pid]
	s.mu.Unlock()
	if sess != nil && sess.secret == secret {
		sess.cancelStatement()
	}
}

// session returns the open session of a process id; nil if there is none.
func (s *Server) session(pid int32) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[pid]
}

// Activity is one session as pg_stat_activity shows it.
type Activity = virtual.Activity

// Activity lists the open sessions.
func (s *Server) Activity() []Activity {
	s.mu.Lock()
	all := make([]*Session, 0, len(s.sessions))
	for _, x := range s.sessions {
		all = append(all, x)
	}
	s.mu.Unlock()
	out := make([]Activity, 0, len(all))
	for _, x := range all {
		out = append(out, x.activity())
	}
	sort.Slice(out, func(i, j int) bool { return out[i].PID < out[j].PID })
	return out
}

func (s *Server) forget(sess *Session) {
	s.mu.Lock()
	delete(s.sessions, sess.pid)
	s.mu.Unlock()
}
