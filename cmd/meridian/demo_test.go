package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// freePorts is the first of two ports that nobody listens at.
func freePorts(t *testing.T) int {
	t.Helper()
	for {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := a.Addr().(*net.TCPAddr).Port
		b, err := net.Listen("tcp", (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port + 1}).String())
		a.Close()
		if err == nil {
			b.Close()
			return port
		}
	}
}

// TestDemoControl goes through the commands on a demonstration of two regions.
func TestDemoControl(t *testing.T) {
	d := &demo{flags: &demoFlags{regions: []string{"east", "west"}, perRegion: 1, rtt: []float64{2}, port: freePorts(t), empty: true}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	defer d.stop()
	if err := d.start(ctx, func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	run := func(line string) string {
		var out strings.Builder
		if err := d.control(ctx, strings.Fields(line), &out); err != nil {
			return "error: " + err.Error()
		}
		return out.String()
	}
	for _, step := range []struct{ line, want string }{
		{"", `n2 +west-a +up +\+0 ms`},
		{"kill nowhere", `error: "nowhere" is no node, zone or region`},
		{"kill", "error: that is none of the commands"},
		{"cut east west", "1 links are cut"},
		{"", `n1 +east-a +up +\+0 ms +n2`},
		{"heal", "all links are open"},
		{"rtt east west 7", "east and west are 7ms apart"},
		{"rtt east south 7", `error: "south" is no region`},
		{"skew n2 -40", "the clock of n2 is -40ms off"},
		{"", `n2 +west-a +up +-(39|40) ms`},
		{"skew n2 0", "is 0s off"},
		{"kill west", `n2 \(west-a\) is down`},
		{"", "n2 +west-a +down"},
		{"restart west-a", `n2 \(west-a\) is up`},
		{"latency", "error: there is no load"},
		{"watch 1", "error: there is no load"},
		{"watch soon", "error: that is none"},
		{"watch 0", "error: that is none"},
		{"load sometimes", "error: that is none"},
		{"help", `\\demo skew`},
	} {
		if got := run(step.line); !regexp.MustCompile(step.want).MatchString(got) {
			t.Errorf("\\demo %s: %s\nwant %s", step.line, got, step.want)
		}
	}
	if err := d.nodes[1].running().WaitReady(ctx); err != nil {
		t.Errorf("the node that was restarted: %v", err)
	}
}

// TestDemoOfTheReadme runs the commands of the README and of the tutorial that begin a demonstration, on other ports, with statements instead of a prompt.
func TestDemoOfTheReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("nine nodes in real time")
	}
	commands := map[string]bool{}
	for _, name := range []string{"../../README.md", "../../docs/tutorial.md"} {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^go run \./cmd/meridian (demo[^#\n]*)`).FindAllStringSubmatch(string(page), -1)
		if len(found) == 0 {
			t.Errorf("%s has no demonstration", name)
		}
		for _, f := range found {
			commands[strings.TrimSpace(f[1])] = true
		}
	}
	for command := range commands {
		out := filepath.Join(t.TempDir(), "out")
		f, err := os.Create(out)
		if err != nil {
			t.Fatal(err)
		}
		was := os.Stdout
		os.Stdout = f
		c := root()
		c.SetArgs(append(strings.Fields(command), "--port", strconv.Itoa(freePorts(t)), "--http", "127.0.0.1:0", "-e", "SHOW REGIONS FROM DATABASE movr", "-e", `\c movr`,
			"-e", "SELECT count(*) FROM vehicles", "-e", `\demo load on`, "-e", `\demo watch 3`, "-e", `\demo rtt us-east1 europe-west1 10`, "-e", `\demo latency`))
		err = c.ExecuteContext(t.Context())
		os.Stdout = was
		f.Close()
		text, _ := os.ReadFile(out)
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, text)
		}
		for _, want := range []string{`us-west1 +\| f`, "connected to database movr", `\(1 row\)`, `us-east1 +us-west1 +europe-west1\n`, "us-east1 and europe-west1 are 10ms apart", `median +p99 +slowest`} {
			if !regexp.MustCompile(want).Match(text) {
				t.Errorf("%s: no %s in\n%s", command, want, text)
			}
		}
	}
}
