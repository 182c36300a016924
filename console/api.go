package console

import (
	"embed"
	"io/fs"
	"net/http"
	"time"
)

// Cluster is the answer of /api/v1/cluster: the cluster as one node knows it.
type Cluster struct {
	Name    string `json:"name"`
	Node    int    `json:"node"` // who answers
	Version string `json:"version"`
	// Acting is the version that the cluster acts by, Upgrade what there is to say of an upgrade under way; empty: nothing.
	Acting  string    `json:"acting"`
	Upgrade string    `json:"upgrade,omitempty"`
	Now     time.Time `json:"now"`
	Nodes   []Node    `json:"nodes"`
	// Ranges are the first ranges in key order; RangeCount counts all.
	Ranges     []Range `json:"ranges"`
	RangeCount int     `json:"range_count"`
	// Underreplicated and Unavailable count the ranges in these states, of all, Violating those that violate a constraint; Troubled are the first of all three.
	Underreplicated int     `json:"underreplicated"`
	Unavailable     int     `json:"unavailable"`
	Violating       int     `json:"violating"`
	Troubled        []Range `json:"troubled"`
	// Moving are the first ranges whose replicas are being changed.
	Moving []Range `json:"moving"`
	SQL    SQL     `json:"sql"`
	// Latencies are the times of statements by the region of their gateways.
	Latencies []Latency `json:"latencies"`
	// RoundTrips are the distances between regions, as their nodes have measured them.
	RoundTrips []RoundTrip `json:"round_trips"`
	// Tables are the first tables by database and name; TableCount counts all.
	Tables     []Table `json:"tables"`
	TableCount int     `json:"table_count"`
	// Zones are the cluster's, by region and name.
	Zones []Zone `json:"zones"`
	// Directories are the first tables and directories that have a placement, in the order of their keys; DirectoryCount counts all.
	Directories    []Directory `json:"directories"`
	DirectoryCount int         `json:"directory_count"`
	// MaxOffsetMS bounds the difference between any two clocks.
	MaxOffsetMS float64 `json:"max_offset_ms"`
	// Error says what could not be found out.
	Error string `json:"error,omitempty"`
}

// Node is one node.
type Node struct {
	ID       int    `json:"id"`
	Addr     string `json:"addr"`
	SQLAddr  string `json:"sql_addr"`
	Region   string `json:"region"`
	Zone     string `json:"zone"`
	Live     bool   `json:"live"`
	Draining bool   `json:"draining"`
	// State is "live", "suspect" (no answer, and not yet given up), "dead", "draining" or "decommissioning".
	State string `json:"state"`
	// EpsilonMS bounds how far its clock may be from true time.
	EpsilonMS float64 `json:"epsilon_ms"`
	// Binary is the version that the node's binary has.
	Binary        string  `json:"binary"`
	Ranges        int64   `json:"ranges"`
	Leases        int64   `json:"leases"`
	Bytes         int64   `json:"bytes"`
	UptimeSeconds float64 `json:"uptime_seconds"`
	// LatencyMS is the round trip from the node that answers, smoothed.
	LatencyMS float64 `json:"latency_ms"`
}

// Range is one range.
type Range struct {
	ID          uint64 `json:"id"`
	Start       string `json:"start"`
	End         string `json:"end"`
	Leaseholder int    `json:"leaseholder"`
	Replicas    []int  `json:"replicas"`
	// Witnesses are those of the replicas that vote and have no rows.
	Witnesses []int `json:"witnesses,omitempty"`
	// Voters are those of the replicas that vote, without those that a change under way lets vote or is about to remove.
	Voters int `json:"voters"`
	// LiveVoters are those whose node is live, WantedVoters how many there should be.
	LiveVoters   int `json:"live_voters"`
	WantedVoters int `json:"wanted_voters"`
	// State is "ok", "under-replicated" (fewer live voters than wanted) or "unavailable" (no majority of them).
	State string `json:"state"`
	// Violation says which constraint the range violates, Change how its replicas are being changed.
	Violation string `json:"violation,omitempty"`
	Change    string `json:"change,omitempty"`
	// Coming and Leaving are the nodes whose replicas the change brings and takes away.
	Coming  []int `json:"coming,omitempty"`
	Leaving []int `json:"leaving,omitempty"`
}

// Zone is the nodes of one region and zone.
type Zone struct {
	Region string `json:"region"`
	Zone   string `json:"zone"`
	Nodes  []int  `json:"nodes"`
	// State is "live", "degraded" (some nodes do not answer), "suspect" (none does), "dead" or "draining".
	State string `json:"state"`
	// Live, Suspect, Dead and Draining count the nodes.
	Live     int `json:"live_nodes"`
	Suspect  int `json:"suspect_nodes"`
	Dead     int `json:"dead_nodes"`
	Draining int `json:"draining_nodes"`
	// Leaders are ranges whose lease is in the zone.
	Leaders  int64 `json:"leaders"`
	Replicas int64 `json:"replicas"`
	Bytes    int64 `json:"bytes"`
	// Arriving and Leaving are replicas that moves under way bring and take away.
	Arriving  int64   `json:"arriving"`
	Leaving   int64   `json:"leaving"`
	EpsilonMS float64 `json:"epsilon_ms"`
}

// Directory is a table or a directory that has a placement.
type Directory struct {
	Database string `json:"database"`
	Table    string `json:"table"`
	// Prefix has the values of the key; empty: the whole table.
	Prefix    string `json:"prefix,omitempty"`
	Placement string `json:"placement"`
	Ranges    int    `json:"ranges"`
	// Moving are the ranges that are not yet as the placement wants them, Reason what the first of them lacks. Stuck: they can't become so while the nodes are as they are.
	Moving int    `json:"moving"`
	Stuck  bool   `json:"stuck"`
	Reason string `json:"reason,omitempty"`
	// Places says where the replicas of the first range are.
	Places string `json:"places"`
}

// Latency is how long the statements took that ended on the nodes of a region in the last ten seconds, or since somebody asked first.
type Latency struct {
	Region     string  `json:"region"`
	Statements int64   `json:"statements"`
	P50MS      float64 `json:"p50_ms"`
	P99MS      float64 `json:"p99_ms"`
}

// RoundTrip is the median of the round trips from the nodes of one region to those of another, smoothed.
type RoundTrip struct {
	From string  `json:"from"`
	To   string  `json:"to"`
	MS   float64 `json:"ms"`
}

// Table is a table, and where its rows are.
type Table struct {
	Database string `json:"database"`
	Schema   string `json:"schema"`
	Name     string `json:"name"`
	// Locality is as LOCALITY takes it; empty: the database has no regions.
	Locality string `json:"locality,omitempty"`
	// Places are the replicas of its ranges by region; a range that holds several tables counts for each of them.
	Places []Place `json:"places"`
	// Moves are the ranges whose replicas are being changed.
	Moves int `json:"moves"`
	// Violations are the ranges that violate a constraint, Violation says which one the first of them does.
	Violations int    `json:"violations"`
	Violation  string `json:"violation,omitempty"`
}

// Place is the replicas of a table in one region.
type Place struct {
	Region string `json:"region"`
	// Voters are those with the rows, Witnesses vote and have none.
	Voters    int `json:"voters"`
	Witnesses int `json:"witnesses"`
	NonVoters int `json:"non_voters"`
	Leases    int `json:"leases"`
}

// SQL has the answering node's statement counters since it started; the page makes rates of them.
type SQL struct {
	Connections int64 `json:"connections"`
	Selects     int64 `json:"selects"`
	Inserts     int64 `json:"inserts"`
	Updates     int64 `json:"updates"`
	Deletes     int64 `json:"deletes"`
	Other       int64 `json:"other"`
	Errors      int64 `json:"errors"`
	Retries     int64 `json:"retries"`
}

//go:embed static
var static embed.FS

// Handler serves the page.
func Handler() http.Handler {
	sub, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return http.FileServerFS(sub)
}
