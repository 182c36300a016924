package server

import (
	"crypto/tls"
	"time"

	"meridian/admission"
	"meridian/clock/truetime"
	"meridian/cluster"
	"meridian/host"
	"meridian/probe"
	"meridian/rangeserver"
	"meridian/storage/engine"
	"meridian/version"
)

// Options of a node.
type Options struct {
	Host *host.Host
	// ClientNetwork is the network on which SQL and HTTP listen; nil: Host.Network. The demo's nodes talk to each other
	// over simulated links and to clients over the machine's.
	ClientNetwork host.Network
	// Dir is the store's directory in Host.FS.
	Dir string
	// ListenAddr is for nodes, SQLAddr for clients, HTTPAddr for people and monitors (empty: none). Other nodes get the advertised
	// addresses; default: the listening ones.
	ListenAddr, AdvertiseAddr, SQLAddr, AdvertiseSQLAddr, HTTPAddr string
	// Join are addresses of nodes of the cluster.
	Join     []string
	Locality cluster.Locality
	// Attributes are words that zone configurations may require or forbid (cluster.ParseAttributes).
	Attributes []string
	// Insecure: no TLS and no authentication. Otherwise PeerTLS is shown to nodes (and demands their certificates),
	// SQLTLS to clients.
	Insecure        bool
	PeerTLS, SQLTLS *tls.Config
	// HTTPConnections and HTTPPerSource bound the HTTP connections of all clients and of one (defaults 256 and 64).
	HTTPConnections, HTTPPerSource int
	// MaxOffset bounds the difference between any two nodes' clocks; default clock.DefaultMaxOffset.
	MaxOffset time.Duration
	// Time says where the node's clock has its time from. The node sets Host, MaxOffset and OnBroken.
	Time truetime.Options
	// Cache is shared by the stores of one process; nil: the node's own, of CacheBytes.
	Cache      *Cache
	CacheBytes int64
	// SQLBytes bounds the memory of all statements of the node (default 1 GiB), StatementBytes that of one (default: the part that others
	// leave).
	SQLBytes, StatementBytes int64
	// Slots is how many statements of clients run at once before others queue, to begin with; zero is admission's default.
	// Load is admission.Options.Load.
	Slots int
	Load  func() admission.Load
	// Probes, if any, count rare branches; simulations share one among the nodes.
	Probes *probe.Set
	// Small makes the store frugal: many nodes in one process.
	Small   bool
	Version string
	// Binary has the versions that the node supports, for a node that is to behave like another build; zero: that of this build.
	Binary version.Binary
	// ReserveBytes is the space that the store keeps free on its disk; zero is the engine's default, and if Small none.
	ReserveBytes int64
	// RangeMaxBytes is the size at which ranges split; zero is placement's default (512 MiB).
	RangeMaxBytes int64
	// TimeUntilStoreDead is the default of the cluster setting server.time_until_store_dead; zero: five minutes.
	TimeUntilStoreDead time.Duration
	// Zones, if not nil, changes the configurations of ranges that the node follows, for simulations of what no statement can do.
	Zones func(rangeserver.ZoneSource) rangeserver.ZoneSource
	// NonVoters is how many non-voting replicas each range has in addition to its voters: one for each region without a voter is a
	// sensible number.
	NonVoters int
	// GCTTL is how long versions are kept after they are overwritten; zero is placement's default (4 h).
	GCTTL time.Duration
	// RemoveAfter is how long the data of dropped indexes and tables stays; zero is schemachange's default.
	RemoveAfter time.Duration
	// TxnBufferBytes and TwoPhases are txn.Options' BufferBytes and TwoPhases, for comparisons: bench/figure2 runs clusters with and without
	// parallel commits, simulations run them with small buffers. No flag of the binary sets them.
	TxnBufferBytes int
	TwoPhases      bool
	// Protocols are commit protocols that the node can serve in addition to those of the product, for tests.
	Protocols Registry
}

// Cache holds blocks of several stores.
type Cache struct{ *engine.Cache }

// NewCache makes a cache.
func NewCache(bytes int64) *Cache { return &Cache{engine.NewCache(bytes)} }

// Unref releases the creator's reference.
func (c *Cache) Unref() { c.Close() }

func (o *Options) setDefaults() {
	o.Binary = o.Binary.Or(version.Built())
	if o.ClientNetwork == nil {
		o.ClientNetwork = o.Host.Network
	}
	if o.AdvertiseAddr == "" {
		o.AdvertiseAddr = o.ListenAddr
	}
	if o.AdvertiseSQLAddr == "" {
		o.AdvertiseSQLAddr = o.SQLAddr
	}
	if o.HTTPConnections == 0 {
		o.HTTPConnections = defaultHTTPConnections
	}
	if o.HTTPPerSource == 0 {
		o.HTTPPerSource = defaultHTTPPerSource
	}
	if o.SQLBytes == 0 {
		o.SQLBytes = 1 << 30
	}
	if o.MaxOffset == 0 {
		o.MaxOffset = 500 * time.Millisecond
	}
}
