package pgwire_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"meridian/sim/simcluster"
)

// startup is a valid first message.
func startup() []byte {
	body := "\x00\x03\x00\x00user\x00root\x00database\x00defaultdb\x00\x00"
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...)
}

func message(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}

// FuzzConnection sends arbitrary bytes after a valid startup. The node goes on serving others.
func FuzzConnection(f *testing.F) {
	c := simcluster.Start(f, simcluster.Options{NodesPerRegion: 1})
	f.Add(message('Q', "select 1\x00"))
	f.Add(message('P', "s\x00select $1::int\x00\x00\x01\x00\x00\x00\x17"))
	f.Add(append(message('P', "\x00select 1\x00\x00\x00"), message('B', "\x00\x00\x00\x00\x00\x00\x00\x00")...))
	f.Add(append(message('E', "\x00\x00\x00\x00\x00"), message('S', "")...))
	f.Add([]byte("Q\xff\xff\xff\xff"))
	f.Add([]byte("Q\x7f\xff\xff\xff"))
	f.Add([]byte{0})
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, data []byte) {
		nc, err := c.Dial(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		nc.SetDeadline(time.Now().Add(5 * time.Second))
		nc.Write(startup())
		nc.Write(data)
		nc.Write(message('X', ""))
		if cw, ok := nc.(interface{ CloseWrite() error }); ok {
			cw.CloseWrite()
		}
		if _, err := io.Copy(io.Discard, nc); err != nil {
			var ne net.Error
			if ok := asNet(err, &ne); ok && ne.Timeout() {
				t.Fatalf("the connection hangs after %q", data)
			}
		}
		nc.Close()
		ask(t, c)
	})
}

func asNet(err error, ne *net.Error) bool {
	n, ok := err.(net.Error)
	if ok {
		*ne = n
	}
	return ok
}

func ask(t *testing.T, c *simcluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := c.Connect(ctx, 0, "defaultdb")
	if err != nil {
		t.Fatalf("the node does not accept others: %v", err)
	}
	defer conn.Close(ctx)
	var n int
	if err := conn.QueryRow(ctx, "SELECT 1").Scan(&n); err != nil || n != 1 {
		t.Fatalf("the node does not answer others: %v", err)
	}
}
