package console

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestPageIsServed(t *testing.T) {
	for path, kind := range map[string]string{"/": "text/html", "/universe.html": "text/html", "/console.js": "javascript", "/common.js": "javascript", "/universe.js": "javascript", "/console.css": "text/css", "/icon.svg": "image/svg+xml"} {
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Type"), kind) || w.Body.Len() == 0 {
			t.Errorf("%s: %d %s", path, w.Code, w.Header())
		}
	}
}

// TestNothingFromOutside: the page must work on a machine without any other network.
func TestNothingFromOutside(t *testing.T) {
	namespaces := regexp.MustCompile(`http://www\.w3\.org/2000/svg`)
	err := fs.WalkDir(static, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		text := namespaces.ReplaceAllString(string(raw), "")
		for _, bad := range []string{"http://", "https://", "src=\"//", "url(//", "innerHTML", "eval("} {
			if strings.Contains(text, bad) {
				t.Errorf("%s contains %s", name, bad)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPageKnowsTheFields: every field that a page's script reads of the answer is one that the structs have.
func TestPageKnowsTheFields(t *testing.T) {
	answer, err := json.Marshal(Cluster{Now: time.Now(), Nodes: []Node{{}}, Ranges: []Range{{}}, Troubled: []Range{{}}, RoundTrips: []RoundTrip{{}}, Tables: []Table{{Locality: "x", Places: []Place{{}}, Violation: "x"}},
		Moving: []Range{{Change: "x", Coming: []int{1}, Leaving: []int{1}}}, Zones: []Zone{{}}, Directories: []Directory{{Prefix: "x", Reason: "x"}}, Latencies: []Latency{{}}, Error: "x", Upgrade: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for page, fields := range map[string][]string{
		"console.js": {"nodes", "ranges", "range_count", "name", "version", "node", "now", "sql", "error", "id", "region", "zone", "live", "draining",
			"leases", "bytes", "latency_ms", "uptime_seconds", "sql_addr", "start", "end", "leaseholder", "replicas", "connections", "selects", "inserts", "updates",
			"deletes", "other", "errors", "retries", "underreplicated", "unavailable", "troubled", "live_voters", "wanted_voters", "state",
			"acting", "upgrade", "binary", "round_trips", "from", "to", "ms", "tables", "table_count", "locality", "places", "voters", "witnesses", "non_voters", "schema", "moves",
			"violations", "violation", "violating", "moving", "change", "latencies", "statements", "p50_ms", "p99_ms"},
		"universe.js": {"zones", "region", "zone", "state", "nodes", "live_nodes", "suspect_nodes", "dead_nodes", "draining_nodes", "leaders", "replicas", "bytes", "arriving", "leaving", "epsilon_ms",
			"coming", "moving", "change", "leaseholder", "round_trips", "from", "to", "ms", "directories", "directory_count", "database", "table", "prefix", "placement", "ranges", "stuck",
			"reason", "places", "max_offset_ms", "live", "id", "start", "name", "node", "error"},
	} {
		raw, err := static.ReadFile("static/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range fields {
			if !strings.Contains(string(answer), `"`+field+`":`) {
				t.Errorf("the answer lacks %s", field)
			}
			if !regexp.MustCompile(`[."]` + field + `\b`).Match(raw) {
				t.Errorf("%s does not use %s", page, field)
			}
		}
	}
}
