package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"meridian/admission"
	"meridian/clock/truetime"
	"meridian/cluster"
	"meridian/commit/fastpaxos/replica"
	"meridian/commit/leader"
	"meridian/kv"
	"meridian/placement"
	"meridian/rangeserver"
	"meridian/route"
	"meridian/sql/catalog/lease"
	"meridian/storage/engine"
	"meridian/transport"
	"meridian/txn"
)

// collector gives Prometheus the node's counters. Each package counts for itself; this file names the metrics: meridian_ and the package's
// subject, with _total for counters, and the unit, which is a base unit. Every metric carries the node's id.
type collector struct{ n *Node }

// Describe implements prometheus.Collector: the collector is unchecked, since its metrics depend on the node's state.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// emitter writes metrics of one node.
type emitter struct {
	out    chan<- prometheus.Metric
	labels prometheus.Labels
}

func (e *emitter) emit(kind prometheus.ValueType, name, help string, v float64, more prometheus.Labels) {
	labels := e.labels
	if len(more) > 0 {
		labels = prometheus.Labels{}
		for k, v := range e.labels {
			labels[k] = v
		}
		for k, v := range more {
			labels[k] = v
		}
	}
	e.out <- prometheus.MustNewConstMetric(prometheus.NewDesc("meridian_"+name, help, nil, labels), kind, v)
}

func (e *emitter) counter(name, help string, v int64) {
	e.emit(prometheus.CounterValue, name+"_total", help, float64(v), nil)
}

func (e *emitter) gauge(name, help string, v float64) {
	e.emit(prometheus.GaugeValue, name, help, v, nil)
}

// late emits a histogram of seconds.
func (e *emitter) late(name, help string, l *cluster.Lateness) {
	n, sum, below := l.Histogram()
	e.out <- prometheus.MustNewConstHistogram(prometheus.NewDesc("meridian_"+name, help, nil, e.labels), n, sum, below)
}

// time emits how well the node knows the time.
func (e *emitter) time(d *truetime.Daemon) {
	e.gauge("clock_epsilon_seconds", "Bound on the error of this node's time, now.", d.Epsilon().Seconds())
	e.gauge("clock_epsilon_max_seconds", "Epsilon beyond which a node whose time is not the system's stops: half of the maximum offset.", (d.MaxOffset() / 2).Seconds())
	if d.Kind() == truetime.System {
		return
	}
	e.epsilons("clock_epsilon_after_poll_seconds", "Epsilon right after a reading of the source of time counted; quantiles of the latest 4096.", d.AfterPolls())
	e.epsilons("clock_epsilon_before_poll_seconds", "Epsilon right before the source of time was read; quantiles of the latest 4096.", d.BeforePolls())
	s := d.Stats()
	e.counter("clock_polls", "Readings of the source of time that counted.", s.Polls)
	e.counter("clock_polls_failed", "Readings of the source of time that did not count.", s.Failed)
	e.counter("clock_masters_rejected", "Answers of time masters that were rejected as lies.", s.Rejected)
	e.counter("clock_masters_evicted", "Answers of time masters that did not trust their own clocks.", s.Evicted)
	e.counter("clock_masters_silent", "Questions to time masters without an answer.", s.Silent)
}

func (e *emitter) epsilons(name, help string, d truetime.Distribution) {
	quantiles := make(map[float64]float64, len(d.Quantiles))
	for q, v := range d.Quantiles {
		quantiles[q] = v.Seconds()
	}
	e.out <- prometheus.MustNewConstSummary(prometheus.NewDesc("meridian_"+name, help, nil, e.labels), d.Count, d.Sum.Seconds(), quantiles)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	n := c.n
	e := &emitter{out, prometheus.Labels{"node": strconv.Itoa(int(n.NodeID()))}}
	e.gauge("uptime_seconds", "Time since the node started.", n.host.Clock.Now().Sub(n.startedAt).Seconds())
	e.cluster(n)
	e.time(n.time)
	e.emit(prometheus.GaugeValue, "version_info", "1, with the version that the node acts by and the latest one that its binary has.", 1,
		prometheus.Labels{"acting": n.version.Acting().String(), "binary": n.version.Binary().Own.String()})
	e.later(n)
	if s := n.store.Load(); s != nil {
		e.ranges(s)
		e.news(n.protocols.news)
		e.troubled(n)
		e.leader(n.leader.Metrics) // set before the store was
	}
	if n.db != nil {
		e.transactions(n.db.Metrics())
	}
	if m := n.Catalog(); m != nil {
		e.catalog(m)
	}
	if n.router != nil {
		e.route(n.router.Metrics())
	}
	if n.transport != nil {
		e.transport(n.transport.Stats())
	}
	e.engine(n.engine.Metrics())
	e.admission(n.gate)
	n.sql.collect(e.counter, e.gauge)
	if b := n.http.bounded; b != nil {
		e.gauge("http_connections", "Open HTTP connections.", float64(b.connections()))
		e.counter("http_connections_refused", "HTTP connections closed because there were too many, of all clients or of one.", n.http.turnedAway.Load())
		e.counter("http_requests_refused", "HTTP requests of clients that are not administrators.", n.http.refused.Load())
	}
}

// admission emits the state of the gate that admits clients' statements.
func (e *emitter) admission(g *admission.Gate) {
	now, m := g.Gauges(), &g.Metrics
	e.gauge("admission_running", "Running statements of clients.", float64(now.Running))
	e.gauge("admission_limit", "Running statements beyond which others queue.", float64(now.Limit))
	e.gauge("admission_crowd", "Running transactions of sessions that often wait for locks.", float64(now.Crowd))
	e.gauge("admission_crowd_limit", "Running transactions of sessions that often wait for locks, beyond which others queue.", float64(now.CrowdLimit))
	e.gauge("admission_rivals", "Running transactions of sessions that lost conflicts.", float64(now.Rivals))
	e.gauge("admission_rivals_limit", "Running transactions of sessions that lost conflicts, beyond which others queue.", float64(now.RivalLimit))
	for _, q := range []struct {
		class string
		n     int
	}{{"open", now.Open}, {"fresh", now.Fresh}, {"crowd", now.CrowdQueued}, {"rivals", now.RivalsQueued}} {
		e.emit(prometheus.GaugeValue, "admission_queue", "Sessions that queue, by class.", float64(q.n), prometheus.Labels{"class": q.class})
	}
	e.gauge("admission_scheduling_latency_seconds", "Mean delay until goroutines got a processor, at the last measurement.", now.Load.Late.Seconds())
	e.gauge("admission_idle_ratio", "Idle share of the machine's processors, at the last measurement.", now.Load.Idle)
	e.counter("admission_queued", "Statements that had to queue.", m.Queued.Load())
	e.counter("admission_cancelled", "Statements that were cancelled while they queued.", m.Cancelled.Load())
	e.counter("admission_blocked", "Waits for locks during which another session had the place.", m.Blocked.Load())
	e.counter("admission_lost", "Transactions that lost a conflict after their client had seen answers.", m.Lost.Load())
	e.counter("admission_elastic_waits", "Pieces of elastic work that had to wait.", m.ElasticWaits.Load())
	e.emit(prometheus.CounterValue, "admission_elastic_wait_seconds_total", "Time that pieces of elastic work waited.", time.Duration(m.ElasticNanos.Load()).Seconds(), nil)
	buckets, n := make(map[float64]uint64, len(m.Wait)), uint64(0)
	for i := range m.Wait {
		n += uint64(m.Wait[i].Load())
		buckets[float64(uint64(1)<<i)/1e6] = n
	}
	e.out <- prometheus.MustNewConstHistogram(prometheus.NewDesc("meridian_admission_wait_seconds", "How long statements queued.", nil, e.labels),
		n, time.Duration(m.WaitNanos.Load()).Seconds(), buckets)
}

// cluster emits the node's knowledge of the others.
func (e *emitter) cluster(n *Node) {
	nodes, live := 0, 0
	for _, m := range n.cluster.Nodes() {
		if m.Node == 0 {
			continue
		}
		if r, ok := n.cluster.Record(m.Node); ok && r.Decommissioned {
			continue
		}
		nodes++
		up := 0.0
		if n.cluster.Live(m.Node) {
			live, up = live+1, 1
		}
		e.emit(prometheus.GaugeValue, "cluster_node_live", "1 if the peer is live, as far as this node knows.", up,
			prometheus.Labels{"peer": strconv.Itoa(int(m.Node))})
	}
	e.late("heartbeat_late_seconds", "How late the node begins to renew its liveness record.", &n.cluster.HeartbeatLate)
	e.late("heartbeat_seconds", "Time to renew the node's liveness record.", &n.cluster.HeartbeatTook)
	e.counter("support_asks", "Heartbeats to other nodes, by which leases last.", n.support.Asks.Load())
	e.counter("support_refused", "Heartbeats that got no support.", n.support.Refused.Load())
	e.counter("support_lapsed", "How often another node lost this node's support, since it was not heard of in time.", n.support.Lapsed.Load())
	e.counter("support_withdrawals", "Incarnations of other nodes from which this node withdrew its support for good.", n.support.Withdrawals.Load())
	e.emit(prometheus.CounterValue, "support_missed_seconds_total", "Time in which this node did not listen to heartbeats, because it got no processor; deadlines move by it.", time.Duration(n.support.Missed.Load()).Seconds(), nil)
	e.gauge("cluster_nodes", "Nodes of the cluster that were not decommissioned.", float64(nodes))
	e.gauge("cluster_nodes_live", "Live nodes, as far as this node knows.", float64(live))
	_, self := n.cluster.Incarnation()
	e.gauge("node_live", "1 if the node's own liveness record has not expired.", flag(self))
	e.gauge("node_draining", "1 if the node is draining.", flag(n.cluster.Self().Draining))
	e.gauge("clock_max_offset_seconds", "Configured bound on the difference between any two clocks.", n.clock.MaxOffset().Seconds())
	for _, o := range n.cluster.Offsets() {
		if o.State == cluster.OffsetUnknown {
			continue
		}
		peer := prometheus.Labels{"peer": strconv.Itoa(int(o.Node))}
		e.emit(prometheus.GaugeValue, "clock_offset_seconds", "How far the peer's clock is ahead of this node's.", o.Offset.Seconds(), peer)
		e.emit(prometheus.GaugeValue, "clock_offset_error_seconds", "Uncertainty of the measured offset.", o.Error.Seconds(), peer)
		if rtt, ok := n.cluster.Latency(o.Node); ok {
			e.emit(prometheus.GaugeValue, "rpc_round_trip_seconds", "Round trip to the peer, smoothed.", rtt.Seconds(), peer)
		}
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// news emits how old the rows are that replicas of ranges without leaseholders read.
func (e *emitter) news(n *replica.News) {
	if n == nil {
		return
	}
	e.gauge("fastpaxos_age_seconds", "How long ago the replicas here of ranges of the protocol fast_paxos have heard from quorums, of the range where that is longest; 0 without such ranges.", n.Age().Seconds())
	e.gauge("fastpaxos_rows_lacking", "Rows of which replicas here have not heard something that others have.", float64(n.Lacking()))
}

// ranges emits the store's side: replicas, raft, leases, queues.
func (e *emitter) ranges(s *rangeserver.Store) {
	g := s.Gauges()
	e.late("raft_tick_late_seconds", "Delay of raft's ticks.", &s.Metrics.TickLate)
	e.gauge("ranges", "Replicas on this node.", float64(g.Ranges))
	e.gauge("ranges_uninitialised", "Replicas that wait for their first raft snapshot.", float64(g.Uninitialised))
	e.gauge("range_leaseholders", "Ranges whose lease this node has.", float64(g.Leaseholders))
	e.gauge("raft_leaders", "Raft groups that this node leads.", float64(g.Leaders))
	e.gauge("ranges_quiesced", "Replicas that sleep.", float64(g.Quiesced))
	e.gauge("live_bytes", "Bytes that reads at the present can see.", float64(g.LiveBytes))
	e.gauge("total_bytes", "Bytes of all versions.", float64(g.TotalBytes))
	e.gauge("range_rows_lagging", "Rows of ranges without leaseholders of which a replica here lacks what has committed, or has not heard for a while whether it has.", float64(g.RowsLagging))
	e.gauge("raft_log_bytes", "Bytes of raft logs.", float64(g.RaftLogBytes))
	high, waits, waited := s.Backlog()
	e.gauge("store_backlog", "1 while requests with new data wait, because the engine is behind.", flag(high))
	e.counter("store_backlog_waits", "Requests that had to wait for the engine.", waits)
	e.emit(prometheus.CounterValue, "store_backlog_wait_seconds_total", "Time that requests waited for the engine.", waited.Seconds(), nil)
	m := &s.Metrics
	e.counter("raft_proposals", "Commands proposed.", m.Proposals.Load())
	e.counter("raft_reproposals", "Commands proposed again, because the first proposal may have been lost.", m.Reproposals.Load())
	e.counter("raft_applied", "Commands applied.", m.Applied.Load())
	e.counter("raft_rejected", "Commands refused at application.", m.Rejected.Load())
	e.counter("raft_log_appends", "Appends to raft logs.", m.LogAppends.Load())
	e.counter("raft_log_syncs", "Syncs of the log, each for all ranges that were ready.", m.LogSyncs.Load())
	e.counter("raft_log_truncations", "Truncations of raft logs.", m.Truncations.Load())
	e.counter("raft_elections", "Elections won.", m.Elections.Load())
	e.counter("raft_snapshots_sent", "Raft snapshots sent.", m.SnapshotsSent.Load())
	e.counter("raft_snapshots_applied", "Raft snapshots applied.", m.SnapshotsApplied.Load())
	e.counter("raft_messages_sent", "Raft messages sent.", m.RaftMessagesSent.Load())
	e.counter("raft_frames_sent", "Frames of raft messages sent; messages for one node share a frame.", m.RaftFrames.Load())
	e.counter("raft_messages_received", "Raft messages received.", m.RaftMessagesReceived.Load())
	e.counter("raft_messages_dropped", "Raft messages dropped, because a peer was too slow or unreachable.", m.RaftMessagesDropped.Load())
	e.counter("ranges_fell_asleep", "Times that a replica quiesced.", m.Quiesced.Load())
	e.counter("ranges_woke", "Times that a replica woke up.", m.Awakenings.Load())
	e.counter("range_splits", "Splits applied.", m.Splits.Load())
	e.counter("replica_changes", "Changes of a range's replicas that this node began.", m.ReplicaChanges.Load())
	e.counter("replica_changes_applied", "Changes of a range's replicas applied here.", m.ConfChanges.Load())
	e.counter("replica_rebalances", "Replicas moved to even out the load.", m.Rebalances.Load())
	e.counter("leases_followed", "Leases moved to where their requests come from.", m.LeasesFollowed.Load())
	e.counter("replicas_removed", "Replicas of this node whose data was removed after they had moved away.", m.ReplicasGCed.Load())
	e.counter("lease_requests", "Requests for leases.", m.LeaseRequests.Load())
	e.counter("leases_at_once", "Requests for leases that new raft leaders sent with their first entries.", m.LeasesAtOnce.Load())
	e.counter("lease_transfers", "Leases transferred.", m.LeaseTransfers.Load())
	e.counter("closed_timestamp_messages_sent", "Messages with closed timestamps of quiescent ranges.", m.ClosedSent.Load())
	e.counter("closed_timestamp_messages_received", "Messages of peers with closed timestamps of quiescent ranges.", m.ClosedReceived.Load())
	e.gauge("ranges_leading", "Ranges of GLOBAL tables whose leases are here: they close timestamps ahead of the clock.", float64(m.Leads.Load()))
	e.gauge("range_lead_longest_seconds", "How far ahead of the clock the range with the longest lead closes, and its writers wait.", time.Duration(m.LongestLead.Load()).Seconds())
	e.counter("range_checks", "Comparisons of a range's replicas.", m.RangeChecks.Load())
	e.counter("range_deviations", "Replicas that differed from the rest of their range; their nodes were stopped.", m.Deviations.Load())
	e.counter("range_statistics_wrong", "Ranges whose statistics differed from a count; they were corrected.", m.StatisticsWrong.Load())
	e.counter("range_seals", "Generations of ranges without a log that were sealed for a change, or to be folded.", m.Seals.Load())
	e.counter("range_reopened", "Generations that were sealed for a change that was abandoned.", m.Reopened.Load())
	e.counter("range_folded", "Generations that were sealed because their delta was large.", m.Folded.Load())
	e.counter("range_absorbed", "Rows of ranges without a log that went into the base while the range was served.", m.Absorbed.Load())
	e.counter("gc_versions", "Old versions removed.", m.MVCCVersionsGCed.Load())
}

// namedRanges bounds the ranges that metrics name.
const namedRanges = 20

// troubled emits the ranges without their full number of live voters. Each range is counted by one node, so that
// the sum over all nodes is the cluster's number.
func (e *emitter) troubled(n *Node) {
	under, unavailable, named := 0, 0, 0
	n.survey().mine(func(r troubled) {
		switch r.state {
		case rangeOK:
			return
		case rangeUnavailable:
			unavailable++
		default:
			under++
		}
		if named++; named <= namedRanges {
			e.emit(prometheus.GaugeValue, "range_troubled", "1 for a range that is under-replicated or unavailable; 20 of them at most.", 1,
				prometheus.Labels{"range": strconv.FormatUint(uint64(r.id), 10), "state": r.state})
		}
	})
	e.gauge("ranges_underreplicated", "Ranges with fewer live voters than configured, of those that this node counts.", float64(under))
	violating := 0
	if s := n.store.Load(); s != nil {
		s.Violations(func(_ *kv.RangeDescriptor, v placement.Violation) {
			if v.Constraints() {
				violating++
			}
		})
	}
	e.gauge("ranges_violating_constraints", "Ranges with replicas where their configuration forbids them, or too few where it wants some, of those whose lease this node has.", float64(violating))
	e.gauge("ranges_unavailable", "Ranges without a majority of live voters, of those that this node counts.", float64(unavailable))
}

// StoreMetrics are the counters of the node's store.
func (n *Node) StoreMetrics() engine.Metrics { return n.engine.Metrics() }

// LeaderMetrics count requests at the ranges whose lease this node has.
func (n *Node) LeaderMetrics() *leader.Metrics { return n.leader.Metrics }

// leader emits the counters of requests at the ranges whose lease this node has.
func (e *emitter) leader(m *leader.Metrics) {
	if m == nil {
		return
	}
	e.counter("kv_reads", "Batches that only read.", m.Reads.Load())
	e.counter("kv_writes", "Batches that write.", m.Writes.Load())
	e.counter("kv_dead_runs_passed", "Runs of deleted keys that scans passed without reading them.", m.DeadRuns.Load())
	e.counter("kv_reads_ahead", "Scans with a limit that ended before the keys of concurrent writers.", m.ReadsAhead.Load())
	e.counter("kv_latch_waits", "Requests that waited for another request on the same keys.", m.LatchWaits.Load())
	e.counter("kv_lock_waits", "Requests that waited for a transaction.", m.LockWaits.Load())
	e.emit(prometheus.CounterValue, "kv_lock_wait_seconds_total", "Time spent waiting for transactions.",
		time.Duration(m.LockWaitNanos.Load()).Seconds(), nil)
	e.counter("kv_lock_waits_long", "Requests that waited for a transaction for more than ten seconds.", m.LongWaits.Load())
	e.gauge("kv_lock_waiting_long", "Requests that have been waiting for a lock for more than ten seconds.", float64(m.LongWaiting.Load()))
	e.counter("kv_lock_signals_missed", "Waits for a lock that ended only by the request's own check: a defect.", m.SignalsMissed.Load())
	e.counter("kv_locks_lost", "Commits that were refused because row locks which the client asked for may have been lost.", m.LocksLost.Load())
	e.counter("kv_lock_timeouts", "Waits for a transaction that ended with the client's lock timeout.", m.LockTimeouts.Load())
	e.counter("kv_locks_not_available", "Requests that got an error instead of waiting for a lock (NOWAIT).", m.NotAvailable.Load())
	e.counter("kv_pushes", "Pushes of conflicting transactions.", m.Pushes.Load())
	e.counter("kv_push_waits", "Pushes that waited for a transaction to end.", m.PushWaits.Load())
	e.counter("kv_expired", "Transactions aborted because their coordinator was gone.", m.Expired.Load())
	e.counter("kv_deadlocks", "Deadlocks found.", m.Deadlocks.Load())
	e.counter("kv_recoveries", "Staging transactions that were recovered.", m.Recoveries.Load())
	e.counter("kv_one_phase_commits", "Commits in one command.", m.OnePhaseCommits.Load())
	e.counter("kv_commits", "Commits with a record.", m.Commits.Load())
	e.counter("kv_stages", "Parallel commits begun.", m.Stages.Load())
	e.counter("kv_aborts", "Transactions rolled back at their record.", m.Aborts.Load())
	e.counter("kv_intents_resolved", "Intents resolved by requests that met them.", m.Resolved.Load())
	e.emit(prometheus.CounterValue, "kv_retries_total", "Requests that had to be retried at a later timestamp.",
		float64(m.RetriesSerialize.Load()), prometheus.Labels{"reason": "pushed"})
	e.emit(prometheus.CounterValue, "kv_retries_total", "Requests that had to be retried at a later timestamp.",
		float64(m.RetriesWriteTooOld.Load()), prometheus.Labels{"reason": "write too old"})
	e.emit(prometheus.CounterValue, "kv_retries_total", "Requests that had to be retried at a later timestamp.",
		float64(m.RetriesUncertain.Load()), prometheus.Labels{"reason": "uncertain"})
	e.counter("kv_forwarded", "Requests whose timestamp the range moved by itself.", m.Forwarded.Load())
	e.counter("kv_follower_reads", "Batches of reads that were served without the lease.", m.FollowerReads.Load())
	e.counter("kv_present_reads", "Batches of reads of the present that were served without the lease, in ranges of GLOBAL tables.", m.PresentReads.Load())
	e.counter("kv_present_read_waits", "Batches of reads of the present that waited until this replica had closed enough.", m.PresentWaits.Load())
	e.counter("kv_follower_conflicts", "Batches of reads that were sent to the leaseholder, because of an intent.", m.FollowerConflicts.Load())
	e.counter("kv_follower_not_closed", "Batches of reads that were sent to the leaseholder, because their timestamp was not closed here.", m.NotClosed.Load())
	e.counter("kv_negotiations", "Batches that asked up to when reads in the past can be served here.", m.Negotiations.Load())
}

// catalog emits waits for versions of descriptors.
func (e *emitter) catalog(m *lease.Manager) {
	count, together, longest := m.Coming()
	e.counter("schema_waits", "Transactions that waited for the time from which a change of a schema is valid.", count)
	e.emit(prometheus.CounterValue, "schema_wait_seconds_total", "Time that transactions waited so.", together.Seconds(), nil)
	e.emit(prometheus.GaugeValue, "schema_wait_longest_seconds", "The longest such wait.", longest.Seconds(), nil)
}

// transactions emits the gateway's side of transactions.
func (e *emitter) transactions(m *txn.Metrics) {
	e.counter("txn_begun", "Transactions begun, the node's own included.", m.Begun.Load())
	e.counter("txn_one_phase_commits", "Transactions committed in one command.", m.OnePhaseCommits.Load())
	e.counter("txn_record_commits", "Transactions committed with a record.", m.TwoPhaseCommits.Load())
	e.counter("txn_read_only_commits", "Transactions that wrote nothing.", m.ReadOnlyCommits.Load())
	e.counter("txn_aborts", "Transactions rolled back, the node's own included.", m.Rollbacks.Load())
	e.counter("txn_restarts", "Transactions begun anew after a conflict.", m.Restarts.Load())
	e.counter("txn_commit_waits", "Transactions whose answer waited until the gateway's clock had passed their timestamp.", m.CommitWaits.Load())
	e.emit(prometheus.CounterValue, "txn_commit_wait_seconds_total", "Time that transactions waited until the gateway's clock had passed their timestamp.", time.Duration(m.CommitWaitNanos.Load()).Seconds(), nil)
	e.counter("txn_refreshes", "Checks of a transaction's reads, so that it could move its timestamp.", m.Refreshes.Load())
	e.counter("txn_refreshes_failed", "Checks of a transaction's reads that found a change.", m.RefreshesFailed.Load())
	e.counter("txn_ambiguous", "Commits whose outcome stayed unknown.", m.Ambiguous.Load())
	e.counter("txn_heartbeats", "Heartbeats of transactions that hold locks.", m.Heartbeats.Load())
	e.counter("txn_cleanups", "Transactions whose intents were resolved after their end.", m.Cleanups.Load())
	e.counter("txn_cleanups_dropped", "Transactions whose intents are left to later requests, because too many were queued.", m.CleanupsDropped.Load())
}

// route emits the paths of the gateway's batches.
func (e *emitter) route(m *route.Metrics) {
	e.counter("route_batches", "Batches sent to ranges.", m.Batches.Load())
	e.counter("route_divided", "Batches that were divided among ranges.", m.Divided.Load())
	e.counter("route_local", "Batches served on this node.", m.Local.Load())
	e.counter("route_remote", "Batches sent to other nodes.", m.Remote.Load())
	e.counter("route_lookups", "Lookups in the range index.", m.Lookups.Load())
	e.counter("route_not_leaseholder", "Batches that came to a replica without the lease.", m.NotLeaseholder.Load())
	e.counter("route_mismatches", "Batches that came to a range that had changed.", m.Mismatches.Load())
	e.counter("route_unreachable", "Batches that did not reach a node.", m.Unreachable.Load())
	e.counter("route_stale", "Batches that read in the past.", m.Stale.Load())
	e.counter("route_nearest", "Batches of reads in the past that the nearest replica served, without the lease.", m.Nearest.Load())
	e.counter("route_followed", "Rows that this node has read for other gateways together with the entries that lead to them.", m.Followed.Load())
	e.counter("route_not_closed", "Batches of reads in the past that the nearest replica could not serve, and that were sent to the leaseholder.", m.NotClosed.Load())
	e.counter("route_unserved", "Batches that no replica served.", m.Unserved.Load())
}

// transport emits the traffic between nodes.
func (e *emitter) transport(s transport.Stats) {
	e.counter("rpc_bytes_sent", "Bytes sent to nodes.", s.BytesSent)
	e.counter("rpc_bytes_received", "Bytes received from nodes.", s.BytesReceived)
	e.counter("rpc_calls", "Calls of other nodes.", s.Calls)
	e.counter("rpc_served", "Calls answered for other nodes.", s.Served)
	e.counter("rpc_link_failures", "Links to nodes that broke.", s.LinkFailures)
	e.counter("rpc_refusals", "Nodes that were refused: of another cluster, or without a certificate.", s.Refusals)
	e.counter("rpc_overloaded", "Calls refused because too many were running.", s.Overloaded)
	e.counter("rpc_clock_errors", "Messages refused because a clock was too far off.", s.ClockOffsetFails)
	e.counter("rpc_relayed", "Calls and streams that went through other nodes, because a link was missing.", s.Relayed)
	e.counter("rpc_forwarded", "Calls and streams of other nodes that were forwarded.", s.Forwarded)
	e.counter("rpc_path_searches", "Searches for a way to a node whose link is missing.", s.Searches)
	e.gauge("rpc_inflight", "Calls of other nodes that are being served.", float64(s.Inflight))
}

// engine emits the state of the store on disk.
func (e *emitter) engine(m engine.Metrics) {
	e.gauge("disk_bytes", "Bytes of the store on disk.", float64(m.DiskBytes))
	if m.FreeBytes > 0 {
		e.gauge("disk_free_bytes", "Bytes free on the store's disk.", float64(m.FreeBytes))
	}
	e.gauge("wal_bytes", "Bytes of the write-ahead log that hold live data.", float64(m.WALBytes))
	e.counter("wal_written_bytes", "Bytes written to the write-ahead log.", int64(m.WALBytesWritten))
	e.gauge("memtable_bytes", "Bytes of memtables.", float64(m.MemTableBytes))
	e.gauge("sstables", "Tables on disk.", float64(m.TableCount))
	e.gauge("l0_sstables", "Tables of level 0.", float64(m.L0Files))
	e.gauge("read_amplification", "Levels that a read may have to search.", float64(m.ReadAmp))
	e.gauge("compaction_debt_bytes", "Bytes that wait to be compacted.", float64(m.CompactionDebt))
	e.counter("flushes", "Memtables flushed.", m.Flushes)
	e.counter("compactions", "Compactions.", m.Compactions)
	e.counter("flushed_bytes", "Bytes of tables that flushes wrote.", int64(m.FlushedBytes))
	e.counter("compacted_bytes", "Bytes of tables that compactions wrote.", int64(m.CompactedBytes))
	e.gauge("block_cache_bytes", "Bytes in the block cache.", float64(m.CacheBytes))
	e.counter("block_cache_hits", "Blocks found in the block cache.", m.CacheHits)
	e.counter("block_cache_misses", "Blocks read from disk.", m.CacheMisses)
	e.counter("write_stalls", "Times that writes waited for compactions.", m.WriteStalls)
	e.counter("iterator_steps", "Entries that iterators have stepped over, dead ones included.", m.IteratorSteps)
	e.gauge("iterators_open", "Open iterators.", float64(m.OpenIterators))
}
