package truetime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/beevik/ntp"

	"meridian/clock"
	"meridian/host"
)

// packetBytes is the size of an NTP packet without extensions (RFC 5905 §7.3).
const packetBytes = 48

// rounding is how much the timestamps of a packet, in units of 2^-32 s, and their conversion to nanoseconds may add.
const rounding = 2 * time.Nanosecond

// unsynchronised is stratum and leap indicator of a server that has no time to give (RFC 5905 §7.3).
const (
	unsynchronisedStratum = 16
	unsynchronisedLeap    = 3
)

// errEvicted says that a master does not trust its own clock.
var errEvicted = errors.New("the master is not synchronised, or has evicted itself")

// answer is what one master said.
type answer struct {
	// truth is where true time was when the monotonic clock showed at.
	truth clock.Interval
	at    time.Duration
	// delay is the round trip, distance the bound on the error of the master's time.
	delay, distance time.Duration
	leaps           bool // it announces a leap second, so it does not smear
}

// ask asks a master for the time. The network of a real machine carries datagrams; a simulated one carries the same packets as a stream.
func ask(ctx context.Context, h *host.Host, addr string, limit time.Duration) (a answer, err error) {
	ctx, cancel := h.Clock.WithTimeout(ctx, limit)
	defer cancel()
	c, err := dial(ctx, h.Network, addr)
	if err != nil {
		return a, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	r, err := ntp.QueryWithOptions(addr, ntp.QueryOptions{
		Dialer: func(_, _ string) (net.Conn, error) { return c, nil },
		// The library's own readings of this machine are those of the monotonic clock, since a wall clock may be set in between.
		GetSystemTime: func() time.Time { return time.Unix(0, int64(h.Clock.Monotonic())) },
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return a, fmt.Errorf("no answer within %s", limit)
	case err != nil:
		return a, err
	case r.Stratum >= unsynchronisedStratum || r.Leap == ntp.LeapNotInSync:
		return a, errEvicted
	}
	if err := r.Validate(); err != nil {
		return a, err
	}
	a = answer{at: time.Duration(r.Timestamps.ClientRecv.UnixNano()), delay: r.Timestamps.ClientRecv.Sub(r.Timestamps.ClientXmit), distance: r.RootDelay/2 + r.RootDispersion + r.Precision,
		leaps: r.Leap == ntp.LeapAddSecond || r.Leap == ntp.LeapDelSecond}
	then, error := clock.FromTime(r.Timestamps.ServerXmit), a.distance+rounding
	a.truth = clock.Interval{Earliest: then.Add(-error), Latest: then.Add(a.delay + clock.Drifted(a.delay) + error)}
	return a, nil
}

// dial opens a connection on which one Write is a packet, and one Read.
func dial(ctx context.Context, n host.Network, addr string) (net.Conn, error) {
	if d, ok := n.(host.Datagrams); ok {
		c, err := d.DialPacket(ctx, addr)
		return asked{c}, err
	}
	c, err := n.Dial(ctx, addr)
	return asked{framed{c}}, err
}

// asked is a connection whose deadline is the end of its context, and not the library's by the machine's wall clock.
type asked struct{ net.Conn }

func (asked) SetDeadline(time.Time) error { return nil }

// framed reads packets from a stream.
type framed struct{ net.Conn }

func (c framed) Read(p []byte) (int, error) { return io.ReadFull(c.Conn, p[:packetBytes]) }
