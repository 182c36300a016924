package sim

import (
	"context"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/host"
)

// MachineOptions describe one simulated machine.
type MachineOptions struct {
	// Name is also the host part of its addresses.
	Name string
	// Region and Zone say where it is; Region decides its links' delays.
	Region, Zone string
	Network      *Network
	// Seed of the simulation; the machine's dice and disk derive from it and from Name.
	Seed uint64
	// Log receives the machine's log; nil: nowhere.
	Log *slog.Logger
	// FS replaces the crashable memory disk, for a demonstration that keeps its data or wants plain memory. A
	// machine with it can't lose unsynced bytes.
	FS vfs.FS
}

// Machine is one simulated machine: it outlives the nodes that run on it.
type Machine struct {
	Name, Region, Zone string
	Clock              *Clock
	Disk               *Disk // nil if MachineOptions.FS was given

	network *Network
	dice    *Dice
	log     *slog.Logger
	fs      vfs.FS
}

// NewMachine makes a machine with a clock that shows true time and an empty disk.
func NewMachine(o MachineOptions) *Machine {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Machine{
		Name: o.Name, Region: o.Region, Zone: o.Zone,
		Clock:   NewClock(),
		network: o.Network,
		dice:    NewDice(o.Seed, o.Name),
		log:     o.Log,
		fs:      o.FS,
	}
	o.Network.Node(o.Name, o.Region) // known from now on, so that dials are refused instead of finding no machine
	if m.fs == nil {
		m.Disk = NewDisk(m.dice.Uint64())
	}
	return m
}

// Boot lends the machine to one incarnation of a node.
func (m *Machine) Boot(parent context.Context) *host.Host {
	fs := m.fs
	if m.Disk != nil {
		fs = m.Disk.FS()
	}
	m.network.PowerOn(m.Name)
	return &host.Host{
		Clock: m.Clock, Network: m.network.Node(m.Name, m.Region), FS: fs, Dice: m.dice,
		Group: host.NewGroup(parent), Log: m.log,
	}
}

// Crash ends the incarnation from outside: nothing leaves the machine any more, then the disk loses unsynced data,
// except for each block with the given probability. If power is lost (silent) the peers get no reset. The caller stops
// the node afterwards, whose further actions have no effect.
func (m *Machine) Crash(unsyncedPercent int, silent bool) {
	if silent {
		m.network.PowerOff(m.Name)
	} else {
		m.network.Kill(m.Name)
	}
	if m.Disk != nil {
		m.Disk.Crash(unsyncedPercent)
	}
}

// NewHost is a machine that boots once: the short way for tests that need no crash.
func NewHost(parent context.Context, o MachineOptions) *host.Host { return NewMachine(o).Boot(parent) }
