package sessiontest

import (
	"context"
	"slices"

	"meridian/clock/truetime"
	"meridian/cluster"
	"meridian/placement"
	"meridian/sql/virtual"
	"meridian/upgrade"
)

// places implements virtual.Cluster for nodes of which only the localities are known.
type places struct{ nodes []virtual.NodeRow }

func (p places) regions() (out []string) {
	for _, n := range p.nodes {
		out = append(out, n.Region)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (p places) satisfied(k placement.Constraint) bool {
	return slices.ContainsFunc(p.nodes, func(n virtual.NodeRow) bool {
		return k.Key == "region" && n.Region == k.Value || k.Key == "zone" && n.Zone == k.Value
	})
}

func (p places) Report(context.Context, bool) virtual.Report             { return virtual.Report{} }
func (p places) Nodes(context.Context) ([]virtual.NodeRow, error)        { return p.nodes, nil }
func (p places) Statements() map[string]int64                            { return nil }
func (p places) Clocks() []virtual.ClockRow                              { return nil }
func (p places) TimeSources() []truetime.Master                          { return nil }
func (p places) Versions(context.Context) (upgrade.View, error)          { return upgrade.View{}, nil }
func (p places) Retries() []virtual.RetryRow                             { return nil }
func (p places) Violations(context.Context) ([]virtual.Violation, error) { return nil, nil }
func (p places) Universe(context.Context) ([]virtual.ZoneRow, error)     { return nil, nil }
func (p places) Fit(context.Context, []byte, []byte) (virtual.Fit, error) {
	return virtual.Fit{Ranges: 1, Replicas: "?"}, nil
}

// placed are the nodes as placement sees them.
func (p places) placed() (out []placement.Node) {
	for _, n := range p.nodes {
		out = append(out, placement.Node{Node: n.ID, Live: n.Live, Locality: cluster.Locality{{Key: "region", Value: n.Region}, {Key: "zone", Value: n.Zone}}})
	}
	return out
}

func (p places) Ranges(context.Context, []byte, []byte) ([]virtual.RangeRow, error) {
	return nil, nil
}
