package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

// File names in a certificate directory.
const (
	caCertFile   = "ca.crt"
	caKeyFile    = "ca.key"
	nodeCertFile = "node.crt"
	nodeKeyFile  = "node.key"
)

const defaultCerts = "certs"

// newCertCmd is `meridian cert`: the certificates that a cluster needs, without another tool.
func newCertCmd() *cobra.Command {
	var dir, caKey string
	var days uint
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Create the certificates of a secure cluster",
		Long: `Create the certificates of a secure cluster: one authority, one certificate for each node that names every
address under which the node is reached, and certificates for clients that log in without a password.`,
	}
	cmd.PersistentFlags().StringVar(&dir, "certs", defaultCerts, "directory of the certificates")
	cmd.PersistentFlags().StringVar(&caKey, "ca-key", "", "file of the authority's key (default ca.key in the directory)")
	cmd.PersistentFlags().UintVar(&days, "days", 0, "validity in days (default 3650 for the authority, 1825 for others)")
	keyFile := func() string {
		if caKey != "" {
			return caKey
		}
		return filepath.Join(dir, caKeyFile)
	}
	validity := func(def int) time.Duration {
		if days > 0 {
			def = int(days)
		}
		return time.Duration(def) * 24 * time.Hour
	}
	cmd.AddCommand(&cobra.Command{
		Use: "create-ca", Short: "Make the authority", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			t := template("Meridian CA", validity(3650))
			t.IsCA, t.BasicConstraintsValid = true, true
			t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
			return issue(t, nil, nil, filepath.Join(dir, caCertFile), keyFile())
		},
	}, &cobra.Command{
		Use: "create-node HOST...", Short: "Create a node's certificate for all its names and addresses", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, hosts []string) error {
			t := template("node", validity(1825))
			t.KeyUsage = x509.KeyUsageDigitalSignature
			t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
			for _, h := range hosts {
				if ip := net.ParseIP(h); ip != nil {
					t.IPAddresses = append(t.IPAddresses, ip)
				} else {
					t.DNSNames = append(t.DNSNames, h)
				}
			}
			return issueSigned(t, dir, keyFile(), nodeCertFile, nodeKeyFile)
		},
	}, &cobra.Command{
		Use: "create-client USER", Short: "Create a client's certificate, which logs USER in without a password", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] == "node" {
				return errors.New("the user name \"node\" is reserved for nodes")
			}
			t := template(args[0], validity(1825))
			t.KeyUsage = x509.KeyUsageDigitalSignature
			t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			return issueSigned(t, dir, keyFile(), "client."+args[0]+".crt", "client."+args[0]+".key")
		},
	})
	return cmd
}

func template(name string, validity time.Duration) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Meridian"}, CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(validity),
	}
}

// issueSigned issues a certificate that the authority in dir signs.
func issueSigned(t *x509.Certificate, dir, caKey, certName, keyName string) error {
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, caCertFile), caKey)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("no authority in %s; make one with: meridian cert create-ca --certs %s", dir, dir)
		}
		return err
	}
	parent, err := x509.ParseCertificate(ca.Certificate[0])
	if err != nil {
		return err
	}
	return issue(t, parent, ca.PrivateKey.(*ecdsa.PrivateKey), filepath.Join(dir, certName), filepath.Join(dir, keyName))
}

// issue writes a new key and its certificate; a nil parent signs itself. Existing files are not overwritten.
func issue(t, parent *x509.Certificate, signer *ecdsa.PrivateKey, certFile, keyFile string) error {
	for _, f := range []string{certFile, keyFile} {
		if _, err := os.Stat(f); err == nil {
			return fmt.Errorf("%s exists already; it is not overwritten", f)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if parent == nil {
		parent, signer = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, signer)
	if err != nil {
		return err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return err
	}
	fmt.Printf("wrote %s and %s\n", certFile, keyFile)
	return nil
}

// nodeTLS loads a node's certificates: those that it shows to other nodes and those for SQL clients.
func nodeTLS(dir string) (peers, sql *tls.Config, err error) {
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, nodeCertFile), filepath.Join(dir, nodeKeyFile))
	if err != nil {
		return nil, nil, fmt.Errorf("%w\nhint: make certificates with `meridian cert`, or start an unprotected node with --insecure", err)
	}
	pool, err := caPool(dir)
	if err != nil {
		return nil, nil, err
	}
	peers = &tls.Config{
		Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}
	sql = &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool,
		ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS12,
	}
	return peers, sql, nil
}

// clientTLS loads the certificate that the administration commands show to a node: a node's own, since they act as one.
func clientTLS(dir string) (*tls.Config, error) {
	peers, _, err := nodeTLS(dir)
	return peers, err
}

func caPool(dir string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(filepath.Join(dir, caCertFile))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("%s has no certificate", filepath.Join(dir, caCertFile))
	}
	return pool, nil
}
