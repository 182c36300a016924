package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"meridian/console"
	"meridian/kv"
	"meridian/setting"
	"meridian/sql/job"
	"meridian/transport"
	"meridian/upgrade"
	"meridian/version"
	"meridian/wire"
)

// Methods of upgrades: methodLook asks a node to read the cluster's version, methodUpgrade is for administrators.
const (
	methodLook    = "server.version"
	methodUpgrade = "server.upgrade"
)

// upgradeRequest asks for the progress of an upgrade; with Finalize it begins to finalize it.
type upgradeRequest struct{ Finalize bool }

// Upgrade is the progress of a cluster's upgrade.
type Upgrade struct {
	upgrade.Cluster
	// Latest is the latest version by which the binaries of all nodes could act.
	Latest version.Version
	// Job is the job of the upgrade under way, or of the last one; nil: there was none.
	Job *upgradeJob
	// Migrations are the known migrations, in the order in which they were begun.
	Migrations []*upgradeJob
	// Rows has a row for each node, as upgradeHeader says.
	Rows [][]string
}

type upgradeJob struct {
	Description string
	Status      job.Status
	Doing       string `json:",omitempty"`
	Error       string `json:",omitempty"`
}

var upgradeHeader = []string{"node", "address", "live", "build", "binary", "works from", "acts by", "promised"}

// newFinalizer makes the node's part in finalizing upgrades. It comes before the jobs start.
func (n *Node) newFinalizer(jobs *job.Registry) *upgrade.Finalizer {
	return upgrade.NewFinalizer(upgrade.FinalizerOptions{DB: n.db, Host: n.host, Jobs: jobs, Handle: n.version, Live: n.cluster.Live, Kick: n.kickVersion,
		Migrations: n.migrations()})
}

// kickVersion asks a node to read the cluster's version. A node that the request does not reach reads it when it starts, or sees in membership that
// others act by a later one.
func (n *Node) kickVersion(node kv.NodeID) {
	if node == n.NodeID() {
		n.upgrade.Kick()
		return
	}
	n.host.Group.Go(func(ctx context.Context) {
		ctx, cancel := n.host.Clock.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, _ = n.transport.CallClass(ctx, transport.ClassSystem, node, methodLook, nil)
	})
}

// automatic reports whether upgrades are to be finalized without a command.
func (n *Node) automatic() bool {
	return n.settings.Known() && n.settings.Bool(setting.UpgradeAutomatic)
}

// serveUpgrade is the handler of methodUpgrade.
func (n *Node) serveUpgrade(ctx context.Context, _ kv.NodeID, req []byte) ([]byte, error) {
	var r upgradeRequest
	if err := wire.JSON(req, "upgrade request", &r); err != nil {
		return nil, err
	}
	p := n.sql.parts.Load()
	if p == nil {
		return nil, errors.New("the node belongs to no cluster yet, or has just started")
	}
	if r.Finalize {
		id, _, err := p.upgrade.Begin(ctx)
		if err != nil {
			return nil, err
		}
		if id != 0 { // the job outlives the call
			n.host.Group.Go(func(ctx context.Context) { _ = p.upgrade.Run(ctx, id) })
		}
	}
	u, err := n.upgradeStatus(ctx, p)
	if err != nil {
		return nil, err
	}
	return json.Marshal(u)
}

func (n *Node) upgradeStatus(ctx context.Context, p *sqlParts) (*Upgrade, error) {
	v, err := p.upgrade.Look(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := p.jobs.List(ctx)
	if err != nil {
		return nil, err
	}
	u := &Upgrade{Cluster: v.Cluster, Latest: v.Target()}
	for _, j := range jobs {
		if !strings.HasPrefix(j.Type, upgrade.JobPrefix+" ") {
			continue
		}
		one := &upgradeJob{Description: j.Description, Status: j.Status}
		var progress upgrade.Progress
		if len(j.Progress) > 0 && json.Unmarshal(j.Progress, &progress) == nil {
			one.Doing = progress.Doing
		}
		if j.Error != nil {
			one.Error = j.Error.Message
		}
		if int64(j.ID) == v.Job {
			u.Job = one
		} else if strings.Contains(j.Type, " migration ") {
			u.Migrations = append(u.Migrations, one)
		}
	}
	for _, m := range v.Members {
		e, _ := n.cluster.Get(m.Node)
		u.Rows = append(u.Rows, []string{strconv.Itoa(int(m.Node)), e.Addr, strconv.FormatBool(n.cluster.Live(m.Node)), e.Build,
			m.Own.String(), m.Oldest.String(), m.Acting.String(), m.Promised.String()})
	}
	return u, nil
}

// describeUpgrade writes into the console's data by which version the cluster acts, and for what an upgrade waits. The versions of the nodes'
// binaries come from membership, so that the page reads only one key.
func (n *Node) describeUpgrade(ctx context.Context, c *console.Cluster) {
	at, err := upgrade.ReadCluster(ctx, n.db)
	if err != nil { // another part of the page says what can't be read
		c.Acting = n.version.Acting().String()
		return
	}
	c.Acting = at.Active.String()
	latest, all, ready := at.Active, 0, 0
	for pass := range 2 {
		for _, e := range n.cluster.Nodes() {
			if r, ok := n.cluster.Record(e.Node); ok && r.Decommissioned {
				continue
			}
			if latest = latest.Max(e.Versions.Own); pass == 0 {
				continue
			}
			if all++; n.cluster.Live(e.Node) && !e.Versions.Own.Less(latest) {
				ready++
			}
		}
	}
	switch {
	case !at.Raising.IsZero():
		c.Upgrade = fmt.Sprintf("The upgrade from %s to %s is being finalized.", at.From, at.Raising)
	case !at.Active.Less(latest):
	case ready == all:
		c.Upgrade = fmt.Sprintf("All nodes run the binary of %s, and the cluster acts by %s. The upgrade can be finalized (meridian upgrade finalize); until then nodes can go back to the earlier binary.",
			latest, at.Active)
	default:
		c.Upgrade = fmt.Sprintf("%d of %d nodes are live with the binary of %s, and the cluster acts by %s. The upgrade can be finalized when all are.", ready, all, latest, at.Active)
	}
}

// Upgrade returns the progress of an upgrade, and with finalize begins to finalize it.
func (a *Admin) Upgrade(ctx context.Context, finalize bool) (*Upgrade, error) {
	req, err := json.Marshal(upgradeRequest{finalize})
	if err != nil {
		return nil, err
	}
	reply, err := a.call(ctx, methodUpgrade, req)
	if err != nil {
		return nil, err
	}
	u := &Upgrade{}
	return u, json.Unmarshal(reply, u)
}

// Header names the columns of Rows.
func (u *Upgrade) Header() []string { return upgradeHeader }

// UpgradeFailedError says that the job which finalizes an upgrade has failed; it may be begun again.
type UpgradeFailedError struct {
	To      version.Version
	Status  job.Status
	Message string
}

func (e *UpgradeFailedError) Error() string {
	text := "the upgrade to " + e.To.String() + " was not finalized: its job has " + string(e.Status)
	if e.Status == job.Canceled {
		text = "the upgrade to " + e.To.String() + " was not finalized: its job was canceled"
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text + "; `meridian upgrade finalize` goes on from where it stopped"
}

// Finalize finalizes the upgrade of the cluster, and returns when the migrations are done; it calls progress on the way. To is zero if
// there was nothing to finalize.
func (a *Admin) Finalize(ctx context.Context, progress func(*Upgrade)) (to version.Version, err error) {
	u, err := a.Upgrade(ctx, true)
	for {
		if err != nil {
			return to, err
		}
		progress(u)
		to = to.Max(u.Raising)
		if u.Raising.IsZero() {
			return to, nil
		}
		if j := u.Job; j != nil && j.Status.Finished() && j.Status != job.Succeeded {
			return to, &UpgradeFailedError{u.Raising, j.Status, j.Error}
		}
		if err := a.h.Clock.Sleep(ctx, 200*time.Millisecond); err != nil {
			return to, err
		}
		u, err = a.Upgrade(ctx, false)
	}
}
