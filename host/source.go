package host

import (
	"net"
	"net/netip"
)

// Source names where a connection comes from, for limits that hold for each client: the address without its port. Of
// IPv6 it is the network of 64 bits, because one client has all of its addresses.
func Source(a net.Addr) string {
	if a == nil {
		return ""
	}
	name, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return name
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() && !ip.IsLoopback() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}
