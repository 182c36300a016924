package host_test

import (
	"net"
	"testing"

	"meridian/host"
)

type address string

func (a address) Network() string { return "sim" }
func (a address) String() string  { return string(a) }

func TestSource(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.1:5": "10.0.0.1", "[::ffff:10.0.0.1]:5": "10.0.0.1", "[2001:db8:1:2:3:4:5:6]:7": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:7": "fe80::/64", "[::1]:7": "::1", "client:9": "client", "@": "@",
	} {
		if got := host.Source(address(in)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	if got := host.Source(net.Addr(nil)); got != "" {
		t.Errorf("nil: %s", got)
	}
}
