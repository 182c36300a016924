package host

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Host is what one node is lent. All fields are set; none changes after the node was made.
type Host struct {
	Clock   Clock
	Network Network
	FS      vfs.FS
	Dice    Dice
	Group   *Group
	Log     *slog.Logger
}

// Clock is the machine's physical clock and its timers. Readings may be skewed, may drift, and may jump.
// All methods may be called concurrently.
type Clock interface {
	// Now is the wall clock's reading.
	Now() time.Time
	// Monotonic is a reading that never goes back; only differences of two readings have a meaning.
	Monotonic() time.Duration
	// NewTimer fires once after d.
	NewTimer(d time.Duration) Timer
	// Sleep returns nil after d, or the context's error if that ends first.
	Sleep(ctx context.Context, d time.Duration) error
	// WithTimeout is context.WithTimeout by this clock: its d is what this clock takes for d.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// Timer is one alarm. C delivers at most one reading for each NewTimer or Reset.
type Timer interface {
	C() <-chan time.Time
	Stop() bool
	Reset(d time.Duration) bool
}

// Network opens and accepts byte streams. Addresses are host:port.
type Network interface {
	Dial(ctx context.Context, addr string) (net.Conn, error)
	Listen(addr string) (net.Listener, error)
}

// Hanger is what an accepted connection may be besides: one that tells, without reading, whether the other end has closed it or
// is known to be gone. Bytes that have not been read yet may be there all the same.
type Hanger interface {
	HungUp() bool
}

// Dice is a source of randomness; all methods may be called concurrently. It is seeded in simulation and
// cryptographic on a real machine, so keys and nonces may be drawn from it.
type Dice interface {
	Uint64() uint64
	// Int64N is uniform in [0, n); n must be positive.
	Int64N(n int64) int64
	Float64() float64
	// Read fills p and never fails.
	Read(p []byte) (int, error)
}

// SlowDisk is what a Host's FS may be besides: a simulated disk that can take its time. The delay can't be in the file
// system's own syncs, since the engine holds mutexes over some of these (host.H3). So whoever wants something to be durable calls
// BeginSync, waits, and has it synced then.
type SlowDisk interface {
	// BeginSync joins the disk's queue of syncs. The result waits for its turn to be over; nil means at once.
	BeginSync() (wait func())
}

// KernelClock is what a Host's Clock may be besides: one whose kernel keeps a bound of its error.
type KernelClock interface {
	// KernelTime asks the kernel. It is a system call.
	KernelTime() (KernelTime, error)
}

// KernelTime is what a kernel says of its clock: true time is within MaxError of Wall, if it is Synchronised with anything.
type KernelTime struct {
	Wall         time.Time
	MaxError     time.Duration
	Synchronised bool
}

// Datagrams is what a Host's Network may be besides: one that carries datagrams. A simulated network has only streams, and a user of datagrams
// sends them over streams there.
type Datagrams interface {
	// DialPacket gives a connection that carries datagrams to and from one address.
	DialPacket(ctx context.Context, addr string) (net.Conn, error)
	ListenPacket(addr string) (net.PacketConn, error)
}
