package machine

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/host"
)

// Options are what may differ between two real nodes of one machine. The zero value is a production node.
type Options struct {
	// ClockOffset is added to every wall-clock reading; for tests only.
	ClockOffset time.Duration
	// Log defaults to slog's default logger.
	Log *slog.Logger
	// FS defaults to the operating system's files.
	FS vfs.FS
	// DialTimeout bounds one connection attempt whose context has no earlier deadline; default 5 s.
	DialTimeout time.Duration
}

// New makes a host whose group ends with parent.
func New(parent context.Context, o Options) *host.Host {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = 5 * time.Second
	}
	return &host.Host{
		Clock:   NewClock(o.ClockOffset),
		Network: network{dialer: net.Dialer{Timeout: o.DialTimeout, KeepAlive: 15 * time.Second}},
		FS:      o.FS,
		Dice:    NewDice(),
		Group:   host.NewGroup(parent),
		Log:     o.Log,
	}
}

// Clock is the system clock, shifted by a constant.
type Clock struct {
	start  time.Time
	offset time.Duration
}

// NewClock makes a clock whose wall readings are offset from the system's.
func NewClock(offset time.Duration) *Clock { return &Clock{start: time.Now(), offset: offset} }

// Now implements host.Clock.
func (c *Clock) Now() time.Time { return time.Now().Add(c.offset) }

// Monotonic implements host.Clock.
func (c *Clock) Monotonic() time.Duration { return time.Since(c.start) }

// NewTimer implements host.Clock.
func (c *Clock) NewTimer(d time.Duration) host.Timer { return timer{time.NewTimer(d)} }

// Sleep implements host.Clock.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WithTimeout implements host.Clock.
func (c *Clock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

type timer struct{ *time.Timer }

func (t timer) C() <-chan time.Time { return t.Timer.C }

type network struct{ dialer net.Dialer }

func (n network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return n.dialer.DialContext(ctx, "tcp", addr)
}

func (n network) Listen(addr string) (net.Listener, error) {
	// A peer that vanished without a word is noticed half a minute after it last said something.
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	return listener{l}, nil
}

// listener gives connections that are host.Hangers.
type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if t, ok := c.(*net.TCPConn); ok && err == nil {
		return accepted{t}, nil
	}
	return c, err
}

type accepted struct{ *net.TCPConn }

// HungUp implements host.Hanger.
func (c accepted) HungUp() bool { return hungUp(c.TCPConn) }

// Dice draws from a pool of ChaCha8 generators, each keyed by the operating system, so that concurrent callers share
// neither a lock nor a system call.
type Dice struct{ pool sync.Pool }

// NewDice makes cryptographic dice.
func NewDice() *Dice {
	d := &Dice{}
	d.pool.New = func() any {
		var key [32]byte
		crand.Read(key[:]) // never fails
		return rand.NewChaCha8(key)
	}
	return d
}

// Uint64 implements host.Dice.
func (d *Dice) Uint64() uint64 {
	g := d.pool.Get().(*rand.ChaCha8)
	v := g.Uint64()
	d.pool.Put(g)
	return v
}

// Int64N implements host.Dice.
func (d *Dice) Int64N(n int64) int64 {
	if n <= 0 {
		panic("machine: Int64N of a number that is not positive")
	}
	// The largest multiple of n within 64 bits; what is above it would favour small results.
	limit := ^uint64(0) - (^uint64(0)%uint64(n)+1)%uint64(n)
	for {
		if v := d.Uint64(); v <= limit {
			return int64(v % uint64(n))
		}
	}
}

// Float64 implements host.Dice.
func (d *Dice) Float64() float64 { return float64(d.Uint64()>>11) / (1 << 53) }

// Read implements host.Dice. Keys and nonces come straight from the operating system.
func (d *Dice) Read(p []byte) (int, error) {
	if len(p) <= 8 { // identifiers, not keys
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], d.Uint64())
		return copy(p, b[:]), nil
	}
	return crand.Read(p)
}
