package truetime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/host"
)

// ServerOptions are those of a time master.
type ServerOptions struct {
	Host *host.Host
	// Listen is the address at which it answers.
	Listen string
	// Source is its reference.
	Source clock.Source
	// Peers are the addresses of the other masters.
	Peers []string
	// Every is the time between two checks of the reference; default 16 s.
	Every time.Duration
	// Timeout bounds one question to a peer; default 1 s.
	Timeout time.Duration
}

// rateChecks is in how many checks the reference's rate is measured from one beginning: so slow a drift that two readings in succession agree is seen as well.
const rateChecks = 40

// connectionsMost bounds the connections to a master on a network of streams.
const connectionsMost = 1000

// Server is a time master: it answers questions in NTP (RFC 5905), and evicts itself if its clock can't be right (truetime.TT5).
type Server struct {
	o       ServerOptions
	addr    net.Addr
	close   func() error
	evicted atomic.Pointer[EvictedError]
	checked atomic.Int64 // wall time of the last check

	mu    sync.Mutex // guards conns; nothing is taken after it
	conns map[net.Conn]bool
}

// EvictedError says why a master does not trust its own clock.
type EvictedError struct {
	// Cause, if any, is what its source has found. Otherwise Own is the source's interval, and Correct that of a majority of all masters (Peers), or
	// the one that the monotonic clock has kept.
	Cause        error
	Peers        bool
	Own, Correct clock.Interval
}

func (e *EvictedError) Unwrap() error { return e.Cause }

func (e *EvictedError) Error() string {
	if e.Cause != nil {
		return e.Cause.Error()
	}
	if e.Peers {
		return fmt.Sprintf("the reference says that true time is in %s, and a majority of the time masters says %s", show(e.Own), show(e.Correct))
	}
	return fmt.Sprintf("the reference says that true time is in %s, and by the monotonic clock it is in %s: its rate is off by more than 200 µs in a second, or it has jumped", show(e.Own), show(e.Correct))
}

func show(i clock.Interval) string {
	const layout = "15:04:05.000000"
	return "[" + i.Earliest.Time().Format(layout) + ", " + i.Latest.Time().Format(layout) + "]"
}

// Serve starts a master; it answers until the host's group ends.
func Serve(o ServerOptions) (*Server, error) {
	if o.Every == 0 {
		o.Every = 16 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	s := &Server{o: o, conns: map[net.Conn]bool{}}
	wall, _ := o.Source.Read()
	s.checked.Store(wall)
	if d, ok := o.Host.Network.(host.Datagrams); ok {
		c, err := d.ListenPacket(o.Listen)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on %s: %w", o.Listen, err)
		}
		s.addr, s.close = c.LocalAddr(), c.Close
		o.Host.Group.Go(func(ctx context.Context) { s.packets(ctx, c) })
	} else {
		l, err := o.Host.Network.Listen(o.Listen)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on %s: %w", o.Listen, err)
		}
		s.addr, s.close = l.Addr(), l.Close
		o.Host.Group.Go(func(ctx context.Context) { s.streams(ctx, l) })
	}
	o.Host.Group.Go(func(ctx context.Context) {
		<-ctx.Done()
		s.stop()
	})
	o.Host.Group.Go(s.check)
	return s, nil
}

// Addr is where the master listens.
func (s *Server) Addr() net.Addr { return s.addr }

// Evicted says why the master has evicted itself; nil: it has not.
func (s *Server) Evicted() error {
	if e := s.evicted.Load(); e != nil {
		return e
	}
	return nil
}

func (s *Server) stop() {
	s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

// packets answers datagrams.
func (s *Server) packets(ctx context.Context, c net.PacketConn) {
	b := make([]byte, 1024)
	for ctx.Err() == nil {
		n, from, err := c.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of an earlier answer, such as a port that is closed
			_ = s.o.Host.Clock.Sleep(ctx, time.Millisecond)
			continue
		}
		if a := s.answer(b[:n]); a != nil {
			_, _ = c.WriteTo(a, from)
		}
	}
}

// streams answers packets that come as streams.
func (s *Server) streams(ctx context.Context, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		s.mu.Lock()
		ok := s.conns != nil && len(s.conns) < connectionsMost
		if ok {
			s.conns[c] = true
		}
		s.mu.Unlock()
		if !ok || !s.o.Host.Group.Go(func(context.Context) { s.stream(c) }) {
			c.Close()
		}
	}
}

func (s *Server) stream(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	p := make([]byte, packetBytes)
	for {
		if _, err := io.ReadFull(c, p); err != nil {
			return
		}
		a := s.answer(p)
		if a == nil {
			return
		}
		if _, err := c.Write(a); err != nil {
			return
		}
	}
}

// answer is the answer to a packet; nil: none. It is no longer than the question, so that nobody can use a master against a third machine.
func (s *Server) answer(question []byte) []byte {
	if !isQuestion(question) {
		return nil
	}
	received, _ := s.o.Source.Read()
	r := reply{unsynchronised: s.evicted.Load() != nil, received: received, set: s.checked.Load()}
	r.sent, r.truth = s.o.Source.Read()
	r.received, r.set = min(r.received, r.sent), min(r.set, r.sent)
	return r.append(question)
}

// check compares the reference with the monotonic clock and with the peers.
func (s *Server) check(ctx context.Context) {
	c := s.o.Host.Clock
	last, long := clock.NewDisciplined(c), clock.NewDisciplined(c)
	at, own := s.reading()
	last.Set(at, own)
	long.Set(at, own)
	for n := 1; ; n++ {
		if c.Sleep(ctx, s.o.Every) != nil {
			return
		}
		at, own = s.reading()
		for _, by := range []*clock.Disciplined{last, long} {
			if correct := by.At(at); !own.Meets(correct) {
				s.evict(&EvictedError{Own: own, Correct: correct})
				return
			}
		}
		last.Set(at, own)
		if n%rateChecks == 0 {
			long.Set(at, own)
		}
		if peers, correct, ok := s.ofPeers(ctx); ok {
			if at, own = s.reading(); !own.Meets(correct.Later(at - peers)) {
				s.evict(&EvictedError{Peers: true, Own: own, Correct: correct})
				return
			}
		}
		s.checked.Store(middle(own))
	}
}

// reading is where true time is by the reference, when the monotonic clock shows at.
func (s *Server) reading() (at time.Duration, truth clock.Interval) {
	begun := s.o.Host.Clock.Monotonic()
	_, truth = s.o.Source.Read()
	at = s.o.Host.Clock.Monotonic()
	truth.Latest = truth.Latest.Add(at - begun)
	return at, truth
}

// ofPeers is the interval of true time by a majority of all masters, this one included, without what this one says, when the monotonic clock showed at.
func (s *Server) ofPeers(ctx context.Context) (at time.Duration, truth clock.Interval, ok bool) {
	if len(s.o.Peers) == 0 {
		return 0, truth, false
	}
	answers, errs := askAll(ctx, Options{Host: s.o.Host, Timeout: s.o.Timeout}, s.o.Peers)
	at = s.o.Host.Clock.Monotonic()
	var of []clock.Interval
	for k := range answers {
		if errs[k] == nil {
			of = append(of, answers[k].truth.Later(at-answers[k].at))
		}
	}
	truth, agree, ok := clock.Marzullo(of)
	agreed := 0
	for _, a := range agree {
		if a {
			agreed++
		}
	}
	return at, truth, ok && agreed*2 > len(of)+1 && ctx.Err() == nil
}

func (s *Server) evict(e *EvictedError) {
	s.evicted.Store(e)
	s.o.Host.Log.Error("this time master evicts itself: it answers as unsynchronised until it is started again", "error", e)
}

// Evict takes the master out of service for a reason that its source has found, such as a kernel that has lost its synchronisation.
func (s *Server) Evict(cause error) { s.evict(&EvictedError{Cause: cause}) }
