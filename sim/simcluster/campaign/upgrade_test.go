package campaign_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/console"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/version"
)

// TestUpgradeTold takes a cluster through an upgrade, and an operator into each dead end: docs/operate has each message that appears here, and
// the console shows the progress of the upgrade.
func TestUpgradeTold(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../../docs/operate/README.md")
	if err != nil {
		t.Fatal(err)
	}
	v := func(text string) version.Version { v, _ := version.Parse(text); return v }
	binary := func(own, oldest string) version.Binary { return version.Binary{Own: v(own), Oldest: v(oldest)} }
	earlier, later, skipping := binary("0.1", "0.1"), binary("0.2", "0.1"), binary("0.3", "0.2")
	synctest.Test(t, func(t *testing.T) {
		documented := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
			if !strings.Contains(string(docs), "`"+strings.NewReplacer(`store "store"`, `store "/data"`, "n1:1", "db1:26257").Replace(want)+"`") {
				t.Errorf("docs/operate does not have %q", want)
			}
		}
		runs := []version.Binary{earlier, earlier, earlier, skipping}
		c := simcluster.New(t, simcluster.Options{NodesPerRegion: 4, Log: simtest.LogTo(), Configure: func(i int, o *server.Options) {
			o.Binary = runs[i]
			o.HTTPAddr = strings.TrimSuffix(o.ListenAddr, ":1") + ":8080"
		}})
		c.Boot(0)
		if _, err := c.Node(0).Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if i > 0 {
				c.Boot(i)
			}
			c.WaitReady(i)
		}
		simtest.Replicated(t, c, 3)
		again := func(i int, b version.Binary) {
			t.Helper()
			runs[i] = b
			c.StopNode(i)
			c.Boot(i)
			c.WaitReady(i)
		}
		finalize := func() (version.Version, error) {
			a := c.Admin(0)
			defer a.Close()
			return a.Finalize(t.Context(), func(*server.Upgrade) {})
		}
		refused := func(what, want string) {
			t.Helper()
			if _, err := finalize(); err == nil {
				t.Errorf("%s: the upgrade was finalized", what)
			} else {
				documented(what, err.Error(), want)
			}
		}
		shown := func(want string, binaries ...string) {
			t.Helper()
			time.Sleep(3 * time.Second) // membership
			page := consoleOf(t, c, 0)
			if page.Upgrade != want {
				t.Errorf("the console says %q, want %q", page.Upgrade, want)
			}
			for i, b := range binaries {
				if len(page.Nodes) <= i || page.Nodes[i].Binary != b {
					t.Errorf("the console has the nodes %+v", page.Nodes)
				}
			}
		}

		if to, err := finalize(); err != nil || !to.IsZero() {
			t.Errorf("nothing is to be finalized: %s, %v", to, err)
		}
		shown("", "0.1", "0.1", "0.1")
		again(0, later)
		again(1, later)
		shown("2 of 3 nodes are live with the binary of 0.2, and the cluster acts by 0.1. The upgrade can be finalized when all are.", "0.2", "0.2", "0.1")
		refused("a node has the earlier binary", "the upgrade from 0.1 to 0.2 can't be finalized yet: node 3 does not run the binary of version 0.2: restart it with that")
		again(2, later)
		shown("All nodes run the binary of 0.2, and the cluster acts by 0.1. The upgrade can be finalized (meridian upgrade finalize); until then nodes can go back to the earlier binary.",
			"0.2", "0.2", "0.2")

		c.Boot(3)
		documented("a release was skipped", simtest.Fails(t, c, 3, 20*time.Second).Error(), "cannot join the cluster through n1:1: the binary of this node is too new: it has version 0.3 and works in clusters of version 0.2 or later, and the cluster acts by 0.1; "+
			"start it with a binary of version 0.2, upgrade the cluster to that, and finalize it (meridian upgrade finalize) before the next one")
		c.StopNode(3)

		c.StopNode(2)
		runs[2] = skipping
		written := c.Machines[2].Disk.Written()
		if err := c.TryBoot(2); err == nil {
			t.Error("a store of a version that is not supported any more was opened")
		} else {
			documented("an old store", strings.TrimPrefix(err.Error(), "node 2: "), `store "store": the binary of this node is too new: it has version 0.3 and works in clusters of version 0.2 or later, and the cluster acts by 0.1; `+
				"start it with a binary of version 0.2, upgrade the cluster to that, and finalize it (meridian upgrade finalize) before the next one")
		}
		if now := c.Machines[2].Disk.Written(); now != written {
			t.Errorf("%d bytes were written to it", now-written)
		}
		time.Sleep(15 * time.Second) // until it is not live
		refused("a node is down", "the upgrade from 0.1 to 0.2 can't be finalized yet: node 3 is not live, and might come back with another binary: start it, or decommission it (meridian node decommission)")
		runs[2] = later
		c.Boot(2)
		c.WaitReady(2)

		if to, err := finalize(); err != nil || to != later.Own {
			t.Fatalf("finalized %s: %v", to, err)
		}
		if to, err := finalize(); err != nil || !to.IsZero() {
			t.Errorf("finalized twice: %s, %v", to, err)
		}
		shown("", "0.2", "0.2", "0.2")
		if page := consoleOf(t, c, 0); page.Acting != "0.2" {
			t.Errorf("the console says that the cluster acts by %s", page.Acting)
		}

		runs[3] = earlier
		c.Machines[3].Disk.Wipe()
		c.Boot(3)
		documented("a new node with the earlier binary", simtest.Fails(t, c, 3, 20*time.Second).Error(),
			"cannot join the cluster through n1:1: the binary of this node is too old: it has version 0.1, and the cluster is upgraded to 0.2; start it with a binary of version 0.2 or later")
		c.StopNode(3)
		c.StopNode(2)
		runs[2] = earlier
		written = c.Machines[2].Disk.Written()
		if err := c.TryBoot(2); err == nil {
			t.Error("a store went back after the upgrade was finalized")
		} else {
			documented("back after the end", strings.TrimPrefix(err.Error(), "node 2: "),
				`store "store": the binary of this node is too old: it has version 0.1, and the cluster is upgraded to 0.2; start it with a binary of version 0.2 or later`)
		}
		if now := c.Machines[2].Disk.Written(); now != written {
			t.Errorf("%d bytes were written to the store of a later version", now-written)
		}
		runs[2] = later
		c.Boot(2)
		c.WaitReady(2)
		simtest.Healthy(t, c, 2)
	})
}

// consoleOf is the data of node i's console.
func consoleOf(t *testing.T, c *simcluster.Cluster, i int) (page console.Cluster) {
	t.Helper()
	m := c.Machines[i]
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return c.Network.Node("browser", m.Region).Dial(ctx, addr)
	}}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get("http://" + m.Name + ":8080/api/v1/cluster")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, &page)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return page
}
