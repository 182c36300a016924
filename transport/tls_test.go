package transport_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"strings"
	"testing"
	"time"

	"meridian/kv"
	"meridian/transport"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	a := &authority{t: t, cert: cert, key: key, pool: x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

func (a *authority) issue(name string) tls.Certificate {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"n1", "n2", "n3"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) options(o *transport.Options, name string) {
	cert := a.issue(name)
	o.ServerTLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: a.pool, ClientAuth: tls.RequireAndVerifyClientCert, Time: time.Now}
	o.ClientTLS = &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: a.pool, Time: time.Now}
}

func TestTLS(t *testing.T) {
	bubble(t, func(t *testing.T, c *net3) {
		good, other := newAuthority(t), newAuthority(t)
		for id, who := range map[kv.NodeID]func(*transport.Options){
			1: func(o *transport.Options) { good.options(o, "node") },
			2: func(o *transport.Options) { good.options(o, "node") },
			3: func(o *transport.Options) {}, // no TLS
		} {
			n := c.nodes[id]
			n.host.Group.Stop()
			c.start(n, who)
		}
		n1, n2, n3 := c.nodes[1], c.nodes[2], c.nodes[3]
		n2.HandleAdmin("init", func(context.Context, kv.NodeID, []byte) ([]byte, error) { return []byte("done"), nil })
		n2.HandleStream("tail", func(context.Context, kv.NodeID, transport.Stream) error { return nil })
		n1.echo(t, 2)
		for range 2 {
			took(t, 63*ms, "call over TLS", func() { n1.echo(t, 2) })
		}
		var u *transport.UnreachableError
		for _, from := range []*node{n1, n3} {
			if _, err := from.Call(t.Context(), 4-from.id, "echo", nil); !errors.As(err, &u) {
				t.Errorf("TLS and plain text met: %v", err)
			}
		}
		restart := func(who func(*transport.Options)) {
			n3.host.Group.Stop()
			c.start(n3, who)
		}
		// A certificate of another authority.
		restart(func(o *transport.Options) { other.options(o, "node") })
		if _, err := n3.Call(t.Context(), 2, "echo", nil); !errors.As(err, &u) || !strings.Contains(err.Error(), "certificate") {
			t.Error(err)
		}
		// An SQL user's certificate is not a node's, in either direction.
		restart(func(o *transport.Options) { good.options(o, "alice") })
		var s *transport.StatusError
		if _, err := n3.CallAddr(t.Context(), "n2:26257", "init", nil); !errors.As(err, &s) || !strings.Contains(s.Message, "alice") {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if _, err := n1.Call(t.Context(), 3, "echo", nil); !errors.As(err, &s) || !strings.Contains(s.Message, "alice") {
			t.Error(err)
		}
		// An administrator's may call what is for administrators, nothing else.
		restart(func(o *transport.Options) { good.options(o, "root") })
		if b, err := n3.CallAddr(t.Context(), "n2:26257", "init", nil); string(b) != "done" {
			t.Error(err)
		}
		if _, err := n3.CallAddr(t.Context(), "n2:26257", "echo", nil); !errors.As(err, &s) || s.Code != transport.CodeNoMethod {
			t.Error(err)
		}
		st, err := n3.OpenStream(t.Context(), 2, "tail")
		if err == nil {
			_, err = st.Recv()
		}
		if err == nil || err == io.EOF {
			t.Error("an administrator opened a node's stream:", err)
		}
	})
}
