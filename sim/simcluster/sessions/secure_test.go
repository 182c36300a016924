package sessions_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// authority signs the certificates of a secure simulated cluster.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	a.cert = a.template("Meridian CA", time.Hour*24*365)
	a.cert.IsCA, a.cert.BasicConstraintsValid, a.cert.KeyUsage = true, true, x509.KeyUsageCertSign
	var der []byte
	a.key, der = a.sign(a.cert, a.cert, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) template(name string, validity time.Duration) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity)}
}

func (a *authority) sign(t, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, der
}

// certificate is one of a user or, with hosts, of a node.
func (a *authority) certificate(name string, validity time.Duration, hosts ...string) tls.Certificate {
	t := a.template(name, validity)
	t.KeyUsage, t.ExtKeyUsage, t.DNSNames = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, hosts
	if len(hosts) > 0 {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	key, der := a.sign(t, a.cert, a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// client is the TLS configuration of a client with these certificates, or none.
func (a *authority) client(name string, certs ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: a.pool, ServerName: name, Certificates: certs}
}

// secure makes a cluster's nodes secure, with HTTP on port 8080.
func (a *authority) secure(o *server.Options) {
	name := strings.TrimSuffix(o.ListenAddr, ":1")
	cert := a.certificate("node", 24*time.Hour, name)
	o.Insecure, o.HTTPAddr = false, name+":8080"
	o.PeerTLS = &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: a.pool, ClientCAs: a.pool,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
	o.SQLTLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: a.pool, ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS12}
}

// secureCluster runs f with a secure cluster of some nodes.
func secureCluster(t *testing.T, nodes int, f func(t *testing.T, c *simcluster.Cluster, a *authority), configure ...func(*server.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		f(t, simcluster.Start(t, simcluster.Options{NodesPerRegion: nodes, Log: simtest.LogTo(), Configure: func(_ int, o *server.Options) {
			a.secure(o)
			for _, g := range configure {
				g(o)
			}
		}}), a)
	})
}

// login connects from a machine of that name to node i.
func login(c *simcluster.Cluster, from string, i int, user, password string, t *tls.Config) (*pgx.Conn, error) {
	m := c.Machines[i]
	cfg, err := pgx.ParseConfig("postgres://" + m.Name + ":5432/defaultdb?sslmode=require")
	if err != nil {
		return nil, err
	}
	cfg.User, cfg.Password, cfg.TLSConfig = user, password, t
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	cfg.DialFunc = func(ctx context.Context, _, addr string) (net.Conn, error) {
		return c.Network.Node(from, m.Region).Dial(ctx, addr)
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	return pgx.ConnectConfig(ctx, cfg)
}

func codeOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// TestHTTPIsForAdministrators: the pages that a node serves over HTTP, by certificate.
func TestHTTPIsForAdministrators(t *testing.T) {
	t.Parallel()
	secureCluster(t, 1, func(t *testing.T, c *simcluster.Cluster, a *authority) {
		root, err := login(c, "desk", 0, "root", "", a.client("n1", a.certificate("root", time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close(context.Background())
		for _, s := range []string{"CREATE ROLE alice LOGIN", "CREATE ROLE boss LOGIN SUPERUSER", "CREATE ROLE former SUPERUSER NOLOGIN",
			"CREATE ROLE heir LOGIN", "GRANT boss TO heir"} {
			simtest.Exec(t, root, s)
		}
		get := func(cfg *tls.Config, path string) (int, string) {
			t.Helper()
			tr := &http.Transport{DisableKeepAlives: true, TLSClientConfig: cfg, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
				return c.Network.Node("browser", c.Machines[0].Region).Dial(ctx, addr)
			}}
			defer tr.CloseIdleConnections()
			resp, err := (&http.Client{Transport: tr}).Get("https://n1:8080" + path)
			if err != nil {
				return 0, err.Error()
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			return resp.StatusCode, string(body)
		}
		stranger := newAuthority(t)
		for _, x := range []struct {
			who  string
			cfg  *tls.Config
			want int
		}{
			{"nobody", a.client("n1"), 403},
			{"root", a.client("n1", a.certificate("root", time.Hour)), 200},
			{"node", a.client("n1", a.certificate("node", time.Hour)), 200},
			{"boss", a.client("n1", a.certificate("boss", time.Hour)), 200},
			{"alice", a.client("n1", a.certificate("alice", time.Hour)), 403},
			{"former", a.client("n1", a.certificate("former", time.Hour)), 403},
			{"heir", a.client("n1", a.certificate("heir", time.Hour)), 403}, // being a superuser is not inherited
			{"ghost", a.client("n1", a.certificate("ghost", time.Hour)), 403},
			{"Root", a.client("n1", a.certificate("Root", time.Hour)), 403},
			{"", a.client("n1", a.certificate("", time.Hour)), 403},
			{"root of yesterday", a.client("n1", a.certificate("root", -time.Minute)), 0},
			{"root of another authority", a.client("n1", stranger.certificate("root", time.Hour)), 0},
		} {
			for _, path := range []string{"/", "/api/v1/cluster", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/heap", "/static/app.js",
				"//debug/pprof/heap", "/health/../debug/pprof/heap", "/metrics/", "/%6detrics/x"} {
				code, body := get(x.cfg, path)
				if x.want == 200 && (code == 403 || code == 0) || x.want != 200 && code != x.want {
					t.Errorf("%s asks for %s: %d %.80s, want %d", x.who, path, code, body, x.want)
				}
				if x.want == 403 && !strings.Contains(body, "only administrators") {
					t.Errorf("%s is told %q", x.who, body)
				}
			}
			for _, path := range []string{"/health", "/metrics"} {
				if code, body := get(x.cfg, path); x.want != 0 && code != 200 {
					t.Errorf("%s asks for %s: %d %.80s", x.who, path, code, body)
				}
			}
		}
		if code, body := get(a.client("n1", a.certificate("boss", time.Hour)), "/debug/pprof/profile?seconds=100000"); code != 400 {
			t.Errorf("a profile of a day: %d %s", code, body)
		}
		simtest.Exec(t, root, "ALTER ROLE boss NOSUPERUSER")
		if code, _ := get(a.client("n1", a.certificate("boss", time.Hour)), "/api/v1/cluster"); code != 403 {
			t.Errorf("a superuser of yesterday sees the console: %d", code)
		}
	})
}

// TestAdminCallsAreForAdministrators: the calls of `meridian node` and `meridian user` want the certificate of a node or of root.
func TestAdminCallsAreForAdministrators(t *testing.T) {
	t.Parallel()
	secureCluster(t, 1, func(t *testing.T, c *simcluster.Cluster, a *authority) {
		root, err := login(c, "desk", 0, "root", "", a.client("n1", a.certificate("root", time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close(context.Background())
		simtest.Exec(t, root, "CREATE ROLE alice LOGIN SUPERUSER")
		for name, allowed := range map[string]bool{"node": true, "root": true, "alice": false, "ghost": false, "": false} {
			h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "desk-of-" + name, Region: c.Machines[0].Region, Network: c.Network, Seed: 1})
			admin := server.NewAdmin(h, "n1:1", a.client("n1", a.certificate(name, time.Hour)))
			_, _, err := admin.Nodes(context.Background())
			if (err == nil) != allowed {
				t.Errorf("%q lists the nodes: %v", name, err)
			}
			if err := admin.SetPassword(context.Background(), "mallory", "secret"); (err == nil) != allowed {
				t.Errorf("%q sets a password: %v", name, err)
			}
			if err := admin.SetPassword(context.Background(), "mallory", ""); err == nil {
				t.Errorf("%q sets an empty password", name)
			}
			admin.Close()
			h.Group.Stop()
		}
	})
}

// TestSlowHTTPClients: clients that send slowly, or nothing, or don't read are cut off, and one client can't take every place.
func TestSlowHTTPClients(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"insecure", "secure"} {
		t.Run(mode, func(t *testing.T) {
			secureCluster(t, 1, func(t *testing.T, c *simcluster.Cluster, a *authority) {
				dial := func(from string) net.Conn {
					t.Helper()
					nc, err := c.Network.Node(from, c.Machines[0].Region).Dial(context.Background(), "n1:8080")
					if err != nil {
						t.Fatal(err)
					}
					return nc
				}
				wrap := func(nc net.Conn) net.Conn {
					if mode == "secure" {
						return tls.Client(nc, a.client("n1"))
					}
					return nc
				}
				// lives is how long the node keeps a connection that sends a byte a second after these.
				lives := func(nc net.Conn, first, drip string) time.Duration {
					start := time.Now()
					nc.Write([]byte(first))
					over := make(chan struct{})
					var dripping sync.WaitGroup
					if drip != "" {
						dripping.Go(func() {
							for i := 0; ; i++ {
								select {
								case <-over:
									return
								case <-time.After(time.Second):
								}
								nc.Write([]byte{drip[i%len(drip)]})
							}
						})
					}
					nc.SetReadDeadline(start.Add(10 * time.Minute))
					io.Copy(io.Discard, nc)
					close(over)
					dripping.Wait()
					nc.Close()
					return time.Since(start)
				}
				for _, x := range []struct {
					name, first, drip string
					raw               bool
					most              time.Duration
				}{
					{"nothing", "", "", true, 11 * time.Second},
					{"bytes of nothing", "", "G", true, 11 * time.Second},
					{"a head that never ends", "GET /health HTTP/1.1\r\nHost: n1\r\n", "X-A: b\r\n", false, 12 * time.Second},
					{"a body that never ends", "POST /health HTTP/1.1\r\nHost: n1\r\nContent-Length: 60000\r\n\r\n", "x", false, 25 * time.Second},
					{"a body without a length", "POST /metrics HTTP/1.1\r\nHost: n1\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", false, 25 * time.Second},
					{"no second request", "GET /health HTTP/1.1\r\nHost: n1\r\n\r\n", "", false, 62 * time.Second},
				} {
					nc := dial("slow")
					if !x.raw {
						nc = wrap(nc)
					}
					if d := lives(nc, x.first, x.drip); d > x.most {
						t.Errorf("%s: cut off after %s", x.name, d)
					}
				}
				// A head that is too long is refused.
				nc := wrap(dial("long"))
				fmt.Fprintf(nc, "GET /health HTTP/1.1\r\nHost: n1\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", 200<<10))
				if line, _ := bufio.NewReader(nc).ReadString('\n'); !strings.Contains(line, "431") && line != "" {
					t.Errorf("a head of 200 KiB: %q", line)
				}
				nc.Close()
				// One that does not read its answers is cut off too.
				nc = wrap(dial("deaf"))
				start := time.Now()
				nc.SetWriteDeadline(start.Add(10 * time.Minute))
				var err error
				for ; err == nil && time.Since(start) < 9*time.Minute; time.Sleep(10 * time.Millisecond) {
					_, err = io.WriteString(nc, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: n1\r\n\r\n", 100))
				}
				if d := time.Since(start); d > 2*time.Minute {
					t.Errorf("a client that reads nothing is cut off after %s", d)
				}
				nc.Close()
				time.Sleep(2 * time.Minute)

				// A hundred connections of one client leave room for another's.
				var held []net.Conn
				for range 100 {
					held = append(held, dial("greedy"))
				}
				time.Sleep(time.Second)
				nc = wrap(dial("monitor"))
				io.WriteString(nc, "GET /metrics HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n")
				answer, _ := io.ReadAll(nc)
				nc.Close()
				if !bytes.Contains(answer, []byte(" 200 ")) || !bytes.Contains(answer, []byte(`meridian_http_connections_refused_total{node="1"} 36`)) {
					t.Errorf("while one client holds all it may: %.300s", answer)
				}
				for _, nc := range held {
					nc.Close()
				}
			}, func(o *server.Options) {
				if mode == "insecure" {
					o.Insecure, o.PeerTLS, o.SQLTLS = true, nil, nil
				}
			})
		})
	}
}

// challenge is a node's answer to a role that logs in, before the proof, and the time that it takes.
func challenge(t *testing.T, c *simcluster.Cluster, a *authority, i int, user string) (string, time.Duration) {
	t.Helper()
	m := c.Machines[i]
	raw, err := c.Network.Node("prober", m.Region).Dial(context.Background(), m.Name+":5432")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	raw.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47})
	one := make([]byte, 1)
	if _, err := io.ReadFull(raw, one); err != nil || one[0] != 'S' {
		t.Fatal(err, one)
	}
	nc := tls.Client(raw, a.client(m.Name))
	if err := nc.Handshake(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	body := append([]byte{0, 3, 0, 0}, "user\x00"+user+"\x00\x00"...)
	nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...))
	read := func() string {
		head := make([]byte, 5)
		if _, err := io.ReadFull(nc, head); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		io.ReadFull(nc, body)
		return string(head[0]) + string(body)
	}
	read()
	first := "n,,n=,r=rOprNGfwEbeRWgbNEkqO"
	body = append([]byte("SCRAM-SHA-256\x00"), binary.BigEndian.AppendUint32(nil, uint32(len(first)))...)
	body = append(body, first...)
	nc.Write(append(append([]byte{'p'}, binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))...), body...))
	answer := read()
	_, tail, _ := strings.Cut(answer, ",") // the nonce comes first
	return tail, time.Since(start)
}

// TestUnknownRolesLookLikeKnownOnes: before a proof nothing tells whether a role exists, on no node, and not by the time it takes.
func TestUnknownRolesLookLikeKnownOnes(t *testing.T) {
	t.Parallel()
	secureCluster(t, 3, func(t *testing.T, c *simcluster.Cluster, a *authority) {
		simtest.Replicated(t, c, 3)
		root, err := login(c, "desk", 0, "root", "", a.client("n1", a.certificate("root", time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close(context.Background())
		simtest.Exec(t, root, "CREATE ROLE alice LOGIN PASSWORD 'right'")
		simtest.Exec(t, root, "CREATE ROLE blank LOGIN")
		simtest.Exec(t, root, "CREATE ROLE locked PASSWORD 'right'")
		shapes, times := map[string]bool{}, map[time.Duration]bool{}
		for _, user := range []string{"alice", "ghost", "blank", "locked", "root", strings.Repeat("long", 1000)} {
			said, took := challenge(t, c, a, 0, user)
			for i := range 3 {
				for range 2 {
					if again, d := challenge(t, c, a, i, user); again != said || d != took {
						t.Errorf("%.10s: node %d says %q after %s; node 1 %q after %s", user, i+1, again, d, said, took)
					}
				}
			}
			salt, rest, _ := strings.Cut(said, ",")
			shapes[fmt.Sprint(len(salt), rest)] = true
			times[took] = true
		}
		if len(shapes) != 1 || len(times) != 1 {
			t.Errorf("challenges differ: %v, after %v", shapes, times)
		}
		answers, took := map[string]bool{}, map[time.Duration]bool{}
		for _, user := range []string{"alice", "ghost", "blank", "locked", "root"} {
			start := time.Now()
			_, err := login(c, "guesser", 1, user, "wrong", a.client("n2"))
			took[time.Since(start)] = true
			var e *pgconn.PgError
			if !errors.As(err, &e) {
				t.Fatalf("%s: %v", user, err)
			}
			answers[e.Code+" "+strings.Replace(e.Message, user, "...", 1)+e.Detail+e.Hint] = true
		}
		if len(answers) != 1 || len(took) != 1 {
			t.Errorf("failed logins differ: %v, after %v", answers, took)
		}
	})
}

// TestGuessingIsSlow: failures of one role from one address take turns, ever longer ones; the owner, elsewhere, does not wait.
func TestGuessingIsSlow(t *testing.T) {
	t.Parallel()
	secureCluster(t, 1, func(t *testing.T, c *simcluster.Cluster, a *authority) {
		root, err := login(c, "desk", 0, "root", "", a.client("n1", a.certificate("root", time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close(context.Background())
		simtest.Exec(t, root, "CREATE ROLE alice LOGIN PASSWORD 'right'")
		for _, user := range []string{"alice", "ghost"} {
			start := time.Now()
			for i := range 12 {
				if _, err := login(c, "guesser", 0, user, fmt.Sprint(i), a.client("n1")); codeOf(err) != "28P01" {
					t.Fatalf("guess %d: %v", i, err)
				}
			}
			if d := time.Since(start); d < 30*time.Second || d > time.Minute {
				t.Errorf("12 guesses of %s's password took %s", user, d)
			}
		}
		// Many at once are no faster.
		start, answers := time.Now(), make(chan string)
		for i := range 40 {
			go func() {
				_, err := login(c, "guesser", 0, "alice", fmt.Sprint(i), a.client("n1"))
				answers <- codeOf(err)
			}()
		}
		count := map[string]int{}
		for range 40 {
			count[<-answers]++
		}
		if count["28P01"] > 3 || count["28000"]+count["28P01"] != 40 {
			t.Errorf("40 guesses at once, answered after %s: %v", time.Since(start), count)
		}
		start = time.Now()
		conn, err := login(c, "home", 0, "alice", "right", a.client("n1"))
		if err != nil || time.Since(start) > time.Second {
			t.Errorf("the owner waits %s: %v", time.Since(start), err)
		} else {
			conn.Close(context.Background())
		}
		// At the guesser's address the owner waits for a turn, and is forgiven then.
		time.Sleep(20 * time.Second)
		for range 3 {
			start = time.Now()
			conn, err = login(c, "guesser", 0, "alice", "right", a.client("n1"))
			if err != nil || time.Since(start) > 9*time.Second {
				t.Errorf("the owner beside the guesser waits %s: %v", time.Since(start), err)
			} else {
				conn.Close(context.Background())
			}
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("after a success the next login takes %s", d)
		}
	})
}

// TestCertificatesNameTheirRole: a certificate logs its own role in and no other, for as long as it is valid.
func TestCertificatesNameTheirRole(t *testing.T) {
	t.Parallel()
	secureCluster(t, 1, func(t *testing.T, c *simcluster.Cluster, a *authority) {
		root, err := login(c, "desk", 0, "root", "", a.client("n1", a.certificate("root", time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close(context.Background())
		if got := simtest.Ask[string](t, root, "SHOW ssl"); got != "on" {
			t.Errorf("ssl is %s on a node with TLS", got)
		}
		for _, s := range []string{"CREATE ROLE alice LOGIN PASSWORD 'right'", "CREATE ROLE bob LOGIN", "CREATE ROLE locked"} {
			simtest.Exec(t, root, s)
		}
		for _, x := range []struct{ cert, user, password, want string }{
			{"alice", "alice", "", ""},
			{"alice", "bob", "x", "28P01"},
			{"alice", "root", "x", "28P01"},
			{"bob", "alice", "right", ""}, // by the password
			{"ghost", "ghost", "", "28000"},
			{"node", "node", "", "28000"},
			{"locked", "locked", "", "28000"},
			{"", "root", "x", "28P01"},
		} {
			conn, err := login(c, "desk-"+x.cert, 0, x.user, x.password, a.client("n1", a.certificate(x.cert, time.Hour)))
			if got := codeOf(err); got != x.want {
				t.Errorf("certificate of %q, user %s: %q, want %q", x.cert, x.user, got, x.want)
			}
			if err == nil {
				conn.Close(context.Background())
			}
		}
		if _, err := login(c, "desk", 0, "alice", "right", a.client("n1", a.certificate("alice", -time.Minute))); err == nil {
			t.Error("an expired certificate opens a session")
		}
		if _, err := login(c, "desk", 0, "alice", "", a.client("n1", newAuthority(t).certificate("alice", time.Hour))); err == nil {
			t.Error("another authority's certificate opens a session")
		}
		// A session that was resumed would not be looked at again.
		cfg := a.client("n1", a.certificate("alice", time.Hour))
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(8)
		for range 3 {
			conn, err := login(c, "desk", 0, "alice", "", cfg)
			if err != nil {
				t.Fatal(err)
			}
			if conn.PgConn().Conn().(*tls.Conn).ConnectionState().DidResume {
				t.Error("a TLS session was resumed")
			}
			conn.Close(context.Background())
		}
	})
}

// TestConnectionsThatSayNothing: connections that do not authenticate end after a minute, and do not keep others out.
func TestConnectionsThatSayNothing(t *testing.T) {
	t.Parallel()
	secureCluster(t, 1, func(t *testing.T, c *simcluster.Cluster, a *authority) {
		dial := func() net.Conn {
			t.Helper()
			nc, err := c.Network.Node("silent", c.Machines[0].Region).Dial(context.Background(), "n1:5432")
			if err != nil {
				t.Fatal(err)
			}
			return nc
		}
		start := time.Now()
		for _, first := range [][]byte{nil, {0, 0}, {0, 0, 0, 8, 4, 210, 22, 47}, {0, 0, 39, 0, 0, 3, 0, 0}} {
			nc := dial()
			start := time.Now()
			nc.Write(first)
			nc.SetReadDeadline(start.Add(10 * time.Minute))
			io.Copy(io.Discard, nc)
			if d := time.Since(start); d > 61*time.Second {
				t.Errorf("%v: kept for %s", first, d)
			}
			nc.Close()
		}
		if d := time.Since(start); d < 3*time.Minute {
			t.Errorf("slow clients get %s instead of a minute each", d/4)
		}
		var held []net.Conn
		for range 2500 {
			held = append(held, dial())
		}
		time.Sleep(3 * time.Second)
		for range 3 {
			conn, err := login(c, "desk", 0, "root", "", a.client("n1", a.certificate("root", time.Hour)))
			if err != nil {
				t.Fatalf("while 2,000 connections say nothing: %v", err)
			}
			conn.Close(context.Background())
		}
		for _, nc := range held {
			nc.Close()
		}
		time.Sleep(time.Second)
	})
}
