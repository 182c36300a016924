package machine

import (
	"context"
	"net"
)

// DialPacket implements host.Datagrams.
func (n network) DialPacket(ctx context.Context, addr string) (net.Conn, error) {
	return n.dialer.DialContext(ctx, "udp", addr)
}

// ListenPacket implements host.Datagrams.
func (n network) ListenPacket(addr string) (net.PacketConn, error) {
	var lc net.ListenConfig
	return lc.ListenPacket(context.Background(), "udp", addr)
}
