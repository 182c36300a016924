package truetime_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"meridian/clock"
	"meridian/clock/truetime"
	"meridian/host"
	"meridian/sim"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
	// near and far are the round trips to masters of the node's region and of another one.
	near, far = ms, 100 * ms
	// bound is the error that masters claim.
	bound = 100 * us
)

// world is a node and masters on a simulated network, in virtual time.
type world struct {
	t       testing.TB
	net     *sim.Network
	node    *sim.Machine
	host    *host.Host
	masters []*sim.Machine
	servers []*truetime.Server
	addrs   []string
	broken  chan error
	checks  time.Duration // how often masters check themselves; they lie for as long
}

// newWorld makes masters in the node's region and in another one. Their clocks show true time.
func newWorld(t testing.TB, nearby, away int) *world {
	r, err := sim.NewRegions([]string{"here", "there"}, far.Seconds()*1000)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, net: sim.NewNetwork(sim.NetworkOptions{Regions: r, LocalRTT: near}), broken: make(chan error, 1), checks: 1000 * time.Hour}
	w.node = w.machine("node", "here")
	w.host = w.node.Boot(context.Background())
	t.Cleanup(w.host.Group.Stop)
	for i := range nearby + away {
		region := "here"
		if i >= nearby {
			region = "there"
		}
		w.masters = append(w.masters, w.machine(fmt.Sprintf("m%d", i+1), region))
		w.servers = append(w.servers, nil)
		w.addrs = append(w.addrs, fmt.Sprintf("m%d:123", i+1))
	}
	return w
}

func (w *world) machine(name, region string) *sim.Machine {
	return sim.NewMachine(sim.MachineOptions{Name: name, Region: region, Network: w.net})
}

// serve starts master i. Its reference is its machine's clock, unless there is a source.
func (w *world) serve(i int, source clock.Source, peers ...string) *host.Host {
	w.t.Helper()
	m := w.masters[i]
	h := m.Boot(context.Background())
	w.t.Cleanup(h.Group.Stop)
	if source == nil {
		source = clock.System{Clock: m.Clock, Bound: bound}
	}
	s, err := truetime.Serve(truetime.ServerOptions{Host: h, Listen: w.addrs[i], Source: source, Peers: peers, Every: w.checks})
	if err != nil {
		w.t.Fatal(err)
	}
	w.servers[i] = s
	return h
}

// serveAll starts all masters without peers.
func (w *world) serveAll() *world {
	for i := range w.masters {
		w.serve(i, nil)
	}
	return w
}

func (w *world) options() truetime.Options {
	return truetime.Options{Host: w.host, Kind: truetime.Masters, Masters: w.addrs, OnBroken: func(err error) { w.broken <- err }}
}

// start starts the node's daemon.
func (w *world) start() *truetime.Daemon {
	w.t.Helper()
	d, err := truetime.Start(context.Background(), w.options())
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// holds fails the test unless true time is in the interval of the node.
func (w *world) holds(d *truetime.Daemon) {
	w.t.Helper()
	wall, i := d.Source().Read()
	if now := clock.FromTime(time.Now()); i.After(now) || i.Before(now) {
		w.t.Fatalf("true time is %s, and the interval [%s, %s]", now, i.Earliest, i.Latest)
	}
	if wall < i.Earliest.Wall || wall > i.Latest.Wall {
		w.t.Fatal("the wall is not in the interval")
	}
}

// fine fails the test if the node has stopped.
func (w *world) fine() {
	w.t.Helper()
	select {
	case err := <-w.broken:
		w.t.Fatal("the node stops: ", err)
	default:
	}
}

// stops returns the error for which the node stops.
func (w *world) stops(within time.Duration) error {
	w.t.Helper()
	select {
	case err := <-w.broken:
		return err
	case <-time.After(within):
		w.t.Fatal("the node does not stop")
		return nil
	}
}

// states lists the states of the masters.
func states(d *truetime.Daemon) string {
	s := ""
	for i, m := range d.List() {
		if i > 0 {
			s += ", "
		}
		s += m.State
	}
	return s
}

// close reports whether two durations differ by rounding at most.
func close(a, b time.Duration) bool { return (a - b).Abs() <= 100*time.Nanosecond }
