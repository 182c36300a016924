package ranges_test

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestMetricsAreThere: a node has every metric that the documentation names.
func TestMetricsAreThere(t *testing.T) {
	t.Parallel()
	// These names stand for something else, or need a state that this cluster is not in.
	other := map[string]string{
		"meridian_internal":        "a schema",
		"meridian_range_troubled":  "of a range without enough replicas",
		"meridian_next_uses_total": "of the build with the tag nextversion",
	}
	named := map[string]string{}
	note := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bmeridian_[a-z0-9_]+`).FindAllString(string(text), -1) {
			named[name] = path
		}
	}
	note("../../../README.md")
	note("../../../CHANGELOG.md")
	if err := filepath.WalkDir("../../../docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			note(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{TimeMasters: 3, Log: simtest.LogTo(), Configure: func(i int, o *server.Options) {
			o.HTTPAddr = strings.TrimSuffix(o.ListenAddr, ":1") + ":8080"
		}})
		simtest.Replicated(t, c, 3)
		tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return c.Network.Node("monitor", c.Machines[0].Region).Dial(ctx, addr)
		}}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr}).Get("http://" + c.Machines[0].Name + ":8080/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for name, path := range named {
			// A name that ends in _ is the beginning of several.
			if other[name] == "" && !regexp.MustCompile(`(?m)^`+name+map[bool]string{false: `(_bucket|_sum|_count)?[{ ]`}[strings.HasSuffix(name, "_")]).Match(body) {
				t.Errorf("%s names %s, and a node does not have it", path, name)
			}
		}
	})
}
