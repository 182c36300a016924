package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// demoHelp lists what can be done to the cluster of a demonstration.
const demoHelp = `\demo                          nodes, clocks and links that are cut
\demo kill PLACE               end the nodes of a place at once, as a loss of power would
\demo restart PLACE            start them again
\demo cut PLACE [PLACE]        cut the links between two places, or of one with all others
\demo heal                     open all links, with their first round trips
\demo rtt REGION REGION MS     change the round trip between two regions
\demo skew NODE MS             set a node's clock ahead, or with a negative number behind: it finds out, and stops
\demo load [on|off]            clients of the sample in each region
\demo latency                  what these clients have seen in the last ten seconds
\demo watch [SECONDS]          what they see from now on, second by second (default: 10)
\demo use PLACE                connect this shell to another node
A PLACE is a node (n4), a zone (europe-west1-b) or a region (europe-west1).
`

// errUsage asks for help.
var errUsage = errors.New("that is none of the commands; \\demo help lists them")

// control carries out one \demo command.
func (d *demo) control(ctx context.Context, words []string, out io.Writer) error {
	if len(words) == 0 {
		return d.show(ctx, out)
	}
	verb, args := words[0], words[1:]
	switch {
	case verb == "help":
		_, err := io.WriteString(out, demoHelp)
		return err
	case verb == "kill" && len(args) == 1:
		return d.each(args[0], func(n *demoNode) error {
			if n.kill() {
				fmt.Fprintf(out, "%s (%s) is down\n", n.name, n.machine.Zone)
			}
			return nil
		})
	case verb == "restart" && len(args) == 1:
		return d.each(args[0], func(n *demoNode) error {
			started, err := n.restart(ctx)
			if started && err == nil {
				fmt.Fprintf(out, "%s (%s) is up\n", n.name, n.machine.Zone)
			}
			return err
		})
	case verb == "cut" && (len(args) == 1 || len(args) == 2):
		return d.cut(args, out)
	case verb == "heal" && len(args) == 0:
		d.network.HealAll()
		fmt.Fprintln(out, "all links are open")
		return nil
	case verb == "rtt" && len(args) == 3:
		ms, err := milliseconds(args[2])
		if err != nil || ms < 0 {
			return errUsage
		}
		for _, r := range args[:2] {
			if !slices.Contains(d.flags.regions, r) {
				return fmt.Errorf("%q is no region; there are %s", r, strings.Join(d.flags.regions, ", "))
			}
		}
		d.network.SetRTT(args[0], args[1], ms)
		fmt.Fprintf(out, "%s and %s are %s apart\n", args[0], args[1], ms)
		return nil
	case verb == "skew" && len(args) == 2:
		ms, err := milliseconds(args[1])
		if err != nil {
			return errUsage
		}
		return d.each(args[0], func(n *demoNode) error {
			n.machine.Clock.SetOffset(ms)
			fmt.Fprintf(out, "the clock of %s is %s off\n", n.name, ms)
			return nil
		})
	case verb == "load":
		return d.setLoad(ctx, args, out)
	case verb == "latency" && len(args) == 0:
		return d.latencies(out)
	case verb == "watch" && len(args) <= 1:
		seconds := defaultWatch
		if len(args) == 1 {
			var err error
			if seconds, err = strconv.Atoi(args[0]); err != nil || seconds < 1 || seconds > mostWatch {
				return errUsage
			}
		}
		return d.watch(ctx, seconds, out)
	}
	return errUsage
}

func milliseconds(text string) (time.Duration, error) {
	ms, err := strconv.ParseFloat(strings.TrimSuffix(text, "ms"), 64)
	return time.Duration(ms * float64(time.Millisecond)), err
}

// at are the nodes of a place.
func (d *demo) at(place string) (out []*demoNode, err error) {
	for _, n := range d.nodes {
		if place == n.name || place == n.machine.Zone || place == n.machine.Region {
			out = append(out, n)
		}
	}
	if out == nil {
		return nil, fmt.Errorf("%q is no node, zone or region; \\demo lists them", place)
	}
	return out, nil
}

func (d *demo) each(place string, f func(*demoNode) error) error {
	nodes, err := d.at(place)
	for _, n := range nodes {
		err = errors.Join(err, f(n))
	}
	return err
}

// cut cuts two places from each other, or one from all that is not of it.
func (d *demo) cut(places []string, out io.Writer) error {
	from, err := d.at(places[0])
	if err != nil {
		return err
	}
	to := d.nodes
	if len(places) == 2 {
		if to, err = d.at(places[1]); err != nil {
			return err
		}
	}
	n := 0
	for _, a := range from {
		for _, b := range to {
			if a != b && !slices.Contains(from, b) {
				d.network.Partition(a.name, b.name)
				n++
			}
		}
	}
	fmt.Fprintf(out, "%d links are cut\n", n)
	return nil
}

// show lists the nodes, and where links between regions are cut.
func (d *demo) show(_ context.Context, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "node\tzone\tstate\tclock\tcut from\tSQL")
	for _, n := range d.nodes {
		state := "up"
		if n.running() == nil {
			state = "down"
		}
		var cut []string
		for _, o := range d.nodes {
			if d.network.Cut(n.name, o.name) {
				cut = append(cut, o.name)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%+d ms\t%s\t%s\n", n.name, n.machine.Zone, state, n.machine.Clock.Error().Milliseconds(), strings.Join(cut, " "), n.url)
	}
	return w.Flush()
}
