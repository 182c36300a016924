package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"time"

	"meridian/cluster"
	"meridian/host"
	"meridian/kv"
	"meridian/transport"
	"meridian/wire"
)

// Methods for administrators. Their requests are JSON, and a node refuses members that it does not know (wire.JSON): if it ignored one, it
// would carry out another request. Answers are only displayed, and may have unknown members.
const (
	methodNodes        = "server.nodes"
	methodDecommission = "server.decommission"
	methodPassword     = "server.password"
	methodDrain        = "server.drain"
)

func (n *Node) registerAdmin() {
	n.transport.Handle(methodJoin, n.serveJoin)
	n.transport.HandleAdmin(methodInit, func(ctx context.Context, _ kv.NodeID, _ []byte) ([]byte, error) {
		name, err := n.Init(ctx)
		return []byte(name), err
	})
	n.transport.HandleAdmin(methodNodes, func(ctx context.Context, _ kv.NodeID, _ []byte) ([]byte, error) {
		return json.Marshal(n.nodeRows(ctx))
	})
	n.transport.HandleAdmin(methodUpgrade, n.serveUpgrade)
	n.transport.Handle(methodLook, func(context.Context, kv.NodeID, []byte) ([]byte, error) {
		n.upgrade.Kick()
		return nil, nil
	})
	n.transport.HandleAdmin(methodDecommission, n.serveDecommission)
	n.transport.HandleAdmin(methodDrain, n.serveDrain)
	n.transport.HandleAdmin(methodPassword, func(ctx context.Context, _ kv.NodeID, req []byte) ([]byte, error) {
		var p passwordRequest
		if err := wire.JSON(req, "password request", &p); err != nil {
			return nil, err
		}
		return nil, n.setPassword(ctx, p.User, p.Password)
	})
}

type passwordRequest struct{ User, Password string }

// nodeHeader names the columns of nodeRows.
var nodeHeader = []string{"id", "address", "sql", "locality", "build", "live", "draining", "ranges", "leases", "clock offset"}

// nodeRows lists the nodes as this one knows them.
func (n *Node) nodeRows(ctx context.Context) [][]string {
	heard := n.heard(ctx)
	offsets := map[kv.NodeID]string{}
	for _, o := range n.cluster.Offsets() {
		if o.State == cluster.OffsetUnknown {
			continue
		}
		offsets[o.Node] = o.Offset.Round(10 * time.Microsecond).String()
	}
	var rows [][]string
	for _, e := range n.cluster.Nodes() {
		state := strconv.FormatBool(n.cluster.Live(e.Node))
		if r, ok := n.cluster.Record(e.Node); ok && r.Decommissioned {
			state = "decommissioned"
		} else if ok && r.Decommissioning {
			state += ", decommissioning"
		}
		rows = append(rows, []string{strconv.Itoa(int(e.Node)), e.Addr, e.SQLAddr, e.Locality.String(), e.Build, state,
			strconv.FormatBool(e.Draining), strconv.FormatInt(heard[e.Node].Ranges, 10), strconv.FormatInt(heard[e.Node].Leases, 10), offsets[e.Node]})
	}
	sort.Slice(rows, func(i, j int) bool {
		a, _ := strconv.Atoi(rows[i][0])
		b, _ := strconv.Atoi(rows[j][0])
		return a < b
	})
	return rows
}

// decommissionRequest asks for a node's decommissioning, or for its end (Cancel). Force begins even if too few nodes remain for the
// configured voters: the replicas then wait for another node.
type decommissionRequest struct {
	Node          kv.NodeID
	Force, Cancel bool
}

// Decommissioning is the progress of a node's decommissioning.
type Decommissioning struct {
	// Left is how many replicas the node still has.
	Left int
	// Waiting says what some of them wait for; empty: they are being moved.
	Waiting string
}

// serveDecommission marks a node and returns how many replicas it still has; a node with none is decommissioned for
// good.
func (n *Node) serveDecommission(ctx context.Context, _ kv.NodeID, req []byte) ([]byte, error) {
	var r decommissionRequest
	if err := wire.JSON(req, "decommission request", &r); err != nil {
		return nil, err
	}
	record, known := n.cluster.Record(r.Node)
	if record.Decommissioned {
		return nil, fmt.Errorf("node %d is decommissioned already", r.Node)
	}
	if r.Cancel {
		_, err := n.cluster.SetDecommissioning(ctx, r.Node, false, false)
		if err != nil {
			return nil, err
		}
		return json.Marshal(Decommissioning{})
	}
	zone := n.zones.whole()
	if stay, want := n.staying(r.Node), zone.Voters(); known && !record.Decommissioning && stay < want {
		if stay == 0 {
			return nil, fmt.Errorf("node %d is the last one", r.Node)
		}
		if !r.Force {
			return nil, fmt.Errorf("%d live nodes would remain, too few for %d voters of each range: start another node first, or lower "+
				"the cluster setting replicas.voters, or use --force to begin now and wait for another node", stay, want)
		}
	}
	if _, err := n.cluster.SetDecommissioning(ctx, r.Node, true, false); err != nil {
		return nil, err
	}
	left, why, err := n.stuckOn(ctx, r.Node)
	if err != nil {
		return nil, err
	}
	if left == 0 {
		if _, err := n.cluster.SetDecommissioning(ctx, r.Node, true, true); err != nil {
			return nil, err
		}
	}
	return json.Marshal(Decommissioning{left, why})
}

// drainRequest asks for a node's draining, and its progress. Node zero is the node that gets the request.
type drainRequest struct {
	Node          kv.NodeID
	Unready, Wait time.Duration
}

// serveDrain begins to drain this node, or forwards the request to another one, and answers immediately.
func (n *Node) serveDrain(ctx context.Context, _ kv.NodeID, req []byte) ([]byte, error) {
	var r drainRequest
	if err := wire.JSON(req, "drain request", &r); err != nil {
		return nil, err
	}
	self := n.NodeID()
	if self == 0 {
		return nil, errors.New("the node belongs to no cluster")
	}
	if r.Node != 0 && r.Node != self {
		if !n.cluster.Live(r.Node) {
			return nil, fmt.Errorf("node %d is not live", r.Node)
		}
		return n.transport.CallClass(ctx, transport.ClassSystem, r.Node, methodDrain, req)
	}
	// The draining outlives the call.
	n.host.Group.Go(func(ctx context.Context) { n.Drain(ctx, DrainOptions{Unready: r.Unready, Wait: r.Wait}) })
	return json.Marshal(n.Draining())
}

// staying counts the live nodes, except one, that are not being decommissioned.
func (n *Node) staying(but kv.NodeID) (count int) {
	for _, e := range n.cluster.Nodes() {
		r, ok := n.cluster.Record(e.Node)
		if ok && e.Node != but && !r.Decommissioning && !r.Decommissioned && n.cluster.Live(e.Node) {
			count++
		}
	}
	return count
}

// Admin is an administrator's connection to one node.
type Admin struct {
	h    *host.Host
	addr string
	t    *transport.Transport
}

// NewAdmin makes a connection; certificates are the administrator's, nil for an insecure cluster.
func NewAdmin(h *host.Host, addr string, certificates *tls.Config) *Admin {
	return &Admin{h: h, addr: addr, t: transport.New(transport.Options{Host: h, ClientTLS: certificates})}
}

// Close ends it.
func (a *Admin) Close() { a.t.Close() }

func (a *Admin) call(ctx context.Context, method string, req []byte) ([]byte, error) {
	ctx, cancel := a.h.Clock.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	reply, err := a.t.CallAddr(ctx, a.addr, method, req)
	var status *transport.StatusError
	if errors.As(err, &status) {
		return nil, errors.New(status.Message)
	}
	return reply, err
}

// Init begins a cluster and returns its name.
func (a *Admin) Init(ctx context.Context) (string, error) {
	reply, err := a.call(ctx, methodInit, nil)
	return string(reply), err
}

// Nodes lists the nodes: column names and rows.
func (a *Admin) Nodes(ctx context.Context) ([]string, [][]string, error) {
	reply, err := a.call(ctx, methodNodes, nil)
	if err != nil {
		return nil, nil, err
	}
	var rows [][]string
	return nodeHeader, rows, json.Unmarshal(reply, &rows)
}

// Decommission moves all replicas off a node and returns when it is done; it calls progress on the way.
func (a *Admin) Decommission(ctx context.Context, node kv.NodeID, force bool, progress func(Decommissioning)) error {
	for {
		d, err := a.decommission(ctx, decommissionRequest{Node: node, Force: force})
		if err != nil {
			return err
		}
		progress(d)
		if d.Left == 0 {
			return nil
		}
		if err := a.h.Clock.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// Recommission cancels a decommissioning that is not complete.
func (a *Admin) Recommission(ctx context.Context, node kv.NodeID) error {
	_, err := a.decommission(ctx, decommissionRequest{Node: node, Cancel: true})
	return err
}

func (a *Admin) decommission(ctx context.Context, r decommissionRequest) (d Decommissioning, err error) {
	req, err := json.Marshal(r)
	if err != nil {
		return d, err
	}
	reply, err := a.call(ctx, methodDecommission, req)
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(reply, &d)
}

// Drain takes a node out of service, the connected one if node is zero, and returns when it is done; it calls progress on the way.
func (a *Admin) Drain(ctx context.Context, node kv.NodeID, o DrainOptions, progress func(Drained)) error {
	req, err := json.Marshal(drainRequest{Node: node, Unready: o.Unready, Wait: o.Wait})
	if err != nil {
		return err
	}
	for {
		reply, err := a.call(ctx, methodDrain, req)
		if err != nil {
			return err
		}
		var d Drained
		if err := json.Unmarshal(reply, &d); err != nil {
			return err
		}
		progress(d)
		if d.Done {
			return nil
		}
		if err := a.h.Clock.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// SetPassword sets a user's password, and creates the user if necessary.
func (a *Admin) SetPassword(ctx context.Context, user, password string) error {
	req, err := json.Marshal(passwordRequest{user, password})
	if err != nil {
		return err
	}
	_, err = a.call(ctx, methodPassword, req)
	return err
}
