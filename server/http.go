package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sort"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"meridian/console"
	"meridian/keys"
	"meridian/kv"
)

// httpLayer is the node's HTTP side: metrics, health, profiles and the console.
type httpLayer struct {
	listener net.Listener
	server   *http.Server
	bounded  *boundedListener
	// refused counts requests of clients that are not administrators, turnedAway connections beyond the bounds.
	refused, turnedAway atomic.Int64
}

func (h *httpLayer) addr() string {
	if h.listener == nil {
		return ""
	}
	return h.listener.Addr().String()
}

func (h *httpLayer) close() {
	if h.server != nil {
		h.server.Close()
	}
	if h.listener != nil {
		h.listener.Close()
	}
}

func (n *Node) listenHTTP() (err error) {
	if n.o.HTTPAddr == "" {
		return nil
	}
	if n.http.listener, err = n.o.ClientNetwork.Listen(n.o.HTTPAddr); err != nil {
		return &ListenError{"HTTP", n.o.HTTPAddr, err}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{n})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/health", n.serveHealth)
	mux.HandleFunc("/api/v1/cluster", n.serveCluster)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/", console.Handler())
	n.http.server = &http.Server{Handler: n.guard(mux), ReadHeaderTimeout: httpHeaderTimeout, ReadTimeout: httpReadTimeout,
		IdleTimeout: httpIdleTimeout, MaxHeaderBytes: httpMaxHeaderBytes, Protocols: &http.Protocols{},
		ErrorLog:    slog.NewLogLogger(n.host.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return n.host.Group.Context() }}
	// One request at a time on a connection: the bounds of a request are those of its connection.
	n.http.server.Protocols.SetHTTP1(true)
	if n.o.SQLTLS != nil {
		n.http.server.TLSConfig = httpTLS(n.o.SQLTLS)
	}
	n.http.bounded = &boundedListener{Listener: n.http.listener, total: n.o.HTTPConnections, perSource: n.o.HTTPPerSource,
		refused: &n.http.turnedAway, from: map[string]int{}}
	n.host.Group.Go(func(context.Context) {
		if n.o.SQLTLS != nil {
			n.http.server.ServeTLS(n.http.bounded, "", "")
		} else {
			n.http.server.Serve(n.http.bounded)
		}
	})
	return nil
}

// ListenError says that an address can't be listened on.
type ListenError struct {
	What, Addr string
	Err        error
}

func (e *ListenError) Error() string {
	return "cannot listen for " + e.What + " on " + e.Addr + ": " + e.Err.Error()
}
func (e *ListenError) Unwrap() error { return e.Err }

// serveHealth answers 200 if the node serves SQL, 503 if it does not; with ready=0, 200 as long as the process answers.
func (n *Node) serveHealth(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	state := "ok"
	select {
	case <-n.ready:
		if n.cluster.Self().Draining {
			state = "draining"
		} else if _, ok := n.cluster.Incarnation(); !ok {
			state = "not live"
		}
	default:
		state = "waiting for a cluster"
	}
	down := state != "ok"
	switch ready := r.URL.Query().Get("ready"); ready {
	case "", "1":
	case "0":
		down = false // a restart would not help
	default:
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]any{"error": "ready is 0 or 1, not " + strconv.Quote(ready)})
		return
	}
	if down {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	json.NewEncoder(w).Encode(map[string]any{"status": state, "node": n.NodeID()})
}

// ownRange is a range as this node's replica knows it.
func (n *Node) ownRange(start keys.Key) (kv.RangeInfo, bool) {
	s := n.store.Load()
	if s == nil {
		return kv.RangeInfo{}, false
	}
	return s.Lookup(start)
}

// maxConsoleRanges bounds the ranges in the console's data.
const maxConsoleRanges = 500

// serveCluster serves the data of the console.
func (n *Node) serveCluster(w http.ResponseWriter, r *http.Request) {
	c := console.Cluster{Name: n.ClusterName(), Node: int(n.NodeID()), Version: n.o.Version, Now: n.clock.Wall().UTC()}
	ctx, cancel := n.host.Clock.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	n.describeUpgrade(ctx, &c)
	heard := n.heard(ctx)
	zones, directories, epsilon := n.newUniverse(heard), n.newConsoleDirectories(), n.epsilons()
	for _, e := range n.cluster.Nodes() {
		if r, ok := n.cluster.Record(e.Node); ok && r.Decommissioned {
			continue
		}
		rtt, _ := n.cluster.Latency(e.Node)
		live, up := n.cluster.Live(e.Node), 0.0
		if live {
			up = c.Now.Sub(e.StartedAt).Seconds()
		}
		c.Nodes = append(c.Nodes, console.Node{ID: int(e.Node), Addr: e.Addr, SQLAddr: e.SQLAddr, Region: e.Locality.Region(), Zone: e.Locality.Zone(),
			Live: live, Draining: e.Draining, State: zones.state[e.Node], EpsilonMS: float64(epsilon(e.Node)) / float64(time.Millisecond), Binary: e.Versions.Own.String(), Ranges: heard[e.Node].Ranges, Leases: heard[e.Node].Leases, Bytes: int64(e.Capacity.UsedBytes),
			UptimeSeconds: up, LatencyMS: float64(rtt) / float64(time.Millisecond)})
	}
	sort.Slice(c.Nodes, func(i, j int) bool { return c.Nodes[i].ID < c.Nodes[j].ID })
	c.SQL = n.sql.counters()
	parts := n.consoleParts(ctx)
	c.RoundTrips, c.Latencies = n.regionMatrix(parts), n.regionLatencies(parts)
	holders := leaseholders(parts)
	tables := n.newConsoleTables()
	v := n.survey()
	err := n.eachRange(ctx, keys.Min, keys.Max, func(info kv.RangeInfo) error {
		c.RangeCount++
		if own, ok := n.ownRange(info.Desc.Start); ok && own.Desc.ID == info.Desc.ID && own.Leaseholder.Node != 0 {
			info.Leaseholder = own.Leaseholder
		}
		if id, ok := holders[info.Desc.ID]; ok {
			info.Leaseholder.Node = id
		}
		if !v.live[info.Leaseholder.Node] {
			info.Leaseholder = kv.ReplicaDescriptor{} // the last known one is not live
		}
		h, state := v.of(&info.Desc)
		violation, change := v.violation(&info.Desc), changeOf(&info.Desc)
		tables.add(&info.Desc, info.Leaseholder.Node, violation)
		zones.add(&info.Desc)
		directories.add(&info.Desc, info.Leaseholder.Node, state == rangeUnavailable)
		if violation != "" {
			c.Violating++
		}
		switch state {
		case rangeUnavailable:
			c.Unavailable++
		case rangeUnderReplicated:
			c.Underreplicated++
		}
		listed, troubled := len(c.Ranges) < maxConsoleRanges, (state != rangeOK || violation != "") && len(c.Troubled) < maxConsoleRanges
		moving := change != "" && len(c.Moving) < maxConsoleRanges
		if !listed && !troubled && !moving {
			return nil
		}
		row := console.Range{ID: uint64(info.Desc.ID), Start: keys.PrettyPrint(info.Desc.Start), End: keys.PrettyPrint(info.Desc.End),
			Leaseholder: int(info.Leaseholder.Node), LiveVoters: h.Live, WantedVoters: h.Wanted, State: state, Violation: violation, Change: change}
		for _, d := range info.Desc.Replicas {
			row.Replicas = append(row.Replicas, int(d.Node))
			if d.Type == kv.Voter {
				row.Voters++
			}
			switch d.Type {
			case kv.Learner, kv.VoterIncoming:
				row.Coming = append(row.Coming, int(d.Node))
			case kv.VoterOutgoing, kv.VoterDemoting:
				row.Leaving = append(row.Leaving, int(d.Node))
			}
			if d.Witness {
				row.Witnesses = append(row.Witnesses, int(d.Node))
			}
		}
		if listed {
			c.Ranges = append(c.Ranges, row)
		}
		if troubled {
			c.Troubled = append(c.Troubled, row)
		}
		if moving {
			c.Moving = append(c.Moving, row)
		}
		return nil
	})
	c.Tables, c.TableCount = tables.rows(), tables.count
	c.Zones, c.Directories, c.DirectoryCount = zones.console(), directories.rows(), directories.count
	c.MaxOffsetMS = float64(n.clock.MaxOffset()) / float64(time.Millisecond)
	if err != nil {
		c.Error = err.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(&c)
}
