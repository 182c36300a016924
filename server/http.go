package server

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"sort"
	"strconv"
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
	n.http.server = &http.Server{Handler: n.guard(mux), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return n.host.Group.Context() }}
	if n.o.SQLTLS != nil {
		n.http.server.TLSConfig = n.o.SQLTLS.Clone()
	}
	n.host.Group.Go(func(context.Context) {
		if n.o.SQLTLS != nil {
			n.http.server.ServeTLS(n.http.listener, "", "")
		} else {
			n.http.server.Serve(n.http.listener)
		}
	})
	return nil
}

// guard keeps profiles and the cluster's contents from strangers: on a secure node they need a client certificate.
// Health and metrics are for monitors, which have none.
func (n *Node) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open := r.URL.Path == "/health" || r.URL.Path == "/metrics"
		if !n.o.Insecure && !open && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
			http.Error(w, "a client certificate is needed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
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

// serveHealth answers 200 if the node serves SQL, 503 if it does not.
func (n *Node) serveHealth(w http.ResponseWriter, _ *http.Request) {
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
	if state != "ok" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	json.NewEncoder(w).Encode(map[string]any{"status": state, "node": n.NodeID()})
}

// maxConsoleRanges bounds the list of ranges that the console is given.
const maxConsoleRanges = 500

// serveCluster answers what the console shows.
func (n *Node) serveCluster(w http.ResponseWriter, r *http.Request) {
	c := console.Cluster{Name: n.ClusterName(), Node: int(n.NodeID()), Version: n.o.Version, Now: n.host.Clock.Now().UTC()}
	for _, e := range n.cluster.Nodes() {
		rtt, _ := n.cluster.Latency(e.Node)
		c.Nodes = append(c.Nodes, console.Node{ID: int(e.Node), Addr: e.Addr, SQLAddr: e.SQLAddr, Region: e.Locality.Region(), Zone: e.Locality.Zone(),
			Live: n.cluster.Live(e.Node), Draining: e.Draining, Ranges: int64(e.Capacity.Ranges), Leases: int64(e.Capacity.Leases), Bytes: int64(e.Capacity.UsedBytes),
			UptimeSeconds: c.Now.Sub(e.StartedAt).Seconds(), LatencyMS: float64(rtt) / float64(time.Millisecond)})
	}
	sort.Slice(c.Nodes, func(i, j int) bool { return c.Nodes[i].ID < c.Nodes[j].ID })
	c.SQL = n.sql.counters()
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	err := n.eachRange(ctx, keys.Min, keys.Max, func(info kv.RangeInfo) error {
		c.RangeCount++
		if len(c.Ranges) < maxConsoleRanges {
			row := console.Range{ID: uint64(info.Desc.ID), Start: keys.PrettyPrint(info.Desc.Start), End: keys.PrettyPrint(info.Desc.End),
				Leaseholder: int(info.Leaseholder.Node)}
			for _, d := range info.Desc.Replicas {
				row.Replicas = append(row.Replicas, int(d.Node))
			}
			c.Ranges = append(c.Ranges, row)
		}
		return nil
	})
	if err != nil {
		c.Error = err.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(&c)
}

// collector gives Prometheus the node's counters.
type collector struct{ n *Node }

// Describe implements prometheus.Collector: the collector is unchecked, since what it has depends on the node's state.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	n := c.n
	labels := prometheus.Labels{"node": strconv.Itoa(int(n.NodeID()))}
	emit := func(kind prometheus.ValueType, name, help string, v float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("meridian_"+name, help, nil, labels), kind, v)
	}
	counter := func(name, help string, v int64) { emit(prometheus.CounterValue, name+"_total", help, float64(v)) }
	gauge := func(name, help string, v float64) { emit(prometheus.GaugeValue, name, help, v) }

	gauge("uptime_seconds", "Time since the node started.", n.host.Clock.Now().Sub(n.startedAt).Seconds())
	if s := n.store.Load(); s != nil {
		g := s.Gauges()
		gauge("ranges", "Replicas on this node.", float64(g.Ranges))
		gauge("range_leaseholders", "Ranges whose lease this node has.", float64(g.Leaseholders))
		gauge("raft_leaders", "Raft groups that this node leads.", float64(g.Leaders))
		gauge("ranges_quiesced", "Replicas that sleep.", float64(g.Quiesced))
		gauge("live_bytes", "Bytes that reads at the present can see.", float64(g.LiveBytes))
		gauge("raft_log_bytes", "Bytes of raft logs.", float64(g.RaftLogBytes))
		m := &s.Metrics
		counter("raft_proposals", "Commands proposed.", m.Proposals.Load())
		counter("raft_applied", "Commands applied.", m.Applied.Load())
		counter("raft_rejected", "Commands refused at application.", m.Rejected.Load())
		counter("raft_log_appends", "Appends to raft logs.", m.LogAppends.Load())
		counter("raft_log_syncs", "Syncs of the log, each for all ranges that were ready.", m.LogSyncs.Load())
		counter("raft_elections", "Elections begun.", m.Elections.Load())
		counter("raft_snapshots_sent", "Raft snapshots sent.", m.SnapshotsSent.Load())
		counter("raft_snapshots_applied", "Raft snapshots applied.", m.SnapshotsApplied.Load())
		counter("range_splits", "Splits applied.", m.Splits.Load())
		counter("lease_requests", "Leases asked for.", m.LeaseRequests.Load())
		counter("lease_transfers", "Leases handed over.", m.LeaseTransfers.Load())
	}
	if n.router != nil {
		m := n.router.Metrics()
		counter("route_batches", "Batches sent to ranges.", m.Batches.Load())
		counter("route_local", "Batches served on this node.", m.Local.Load())
		counter("route_remote", "Batches sent to other nodes.", m.Remote.Load())
		counter("route_lookups", "Lookups in the range index.", m.Lookups.Load())
	}
	if n.transport != nil {
		s := n.transport.Stats()
		counter("rpc_bytes_sent", "Bytes sent to nodes.", int64(s.BytesSent))
		counter("rpc_bytes_received", "Bytes received from nodes.", int64(s.BytesReceived))
	}
	em := n.engine.Metrics()
	gauge("disk_bytes", "Bytes of the store on disk.", float64(em.DiskBytes))
	n.sql.collect(counter, gauge)
}
