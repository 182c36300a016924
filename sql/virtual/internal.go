package virtual

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"meridian/keys"
	"meridian/setting"
)

func internalNodes(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	list, err := r.p.o.Cluster.Nodes(r.ctx)
	for _, n := range list {
		started := any(n.Started)
		if n.Started.IsZero() { // only known to be dead
			started = nil
		}
		r.add("node_id", n.ID, "address", n.Address, "sql_address", n.SQL, "http_address", n.HTTP, "region", n.Region, "zone", n.Zone,
			"locality", n.Locality, "incarnation", n.Incarnation, "is_live", n.Live, "started_at", started, "version", n.Version,
			"draining", n.Draining, "ranges", n.Ranges, "leases", n.Leases, "clock_offset", n.ClockOffset)
	}
	return err
}

func internalClusterVersion(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	v, err := r.p.o.Cluster.Versions(r.ctx)
	if err != nil || v.Active.IsZero() {
		return err
	}
	var raising, id any
	if !v.Raising.IsZero() {
		raising = v.Raising.String()
	}
	if v.Job != 0 {
		id = v.Job
	}
	r.add("active", v.Active.String(), "finalizing", raising, "job_id", id)
	return nil
}

func internalNodeVersions(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	v, err := r.p.o.Cluster.Versions(r.ctx)
	for _, m := range v.Members {
		r.add("node_id", m.Node, "binary_version", m.Own.String(), "oldest_version", m.Oldest.String(), "acting_version", m.Acting.String(),
			"promised_version", m.Promised.String())
	}
	return err
}

func internalRanges(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	if err := r.mustBeSuperuser(); err != nil {
		return err
	}
	list, err := r.p.o.Cluster.Ranges(r.ctx, keys.Min, keys.Max)
	f := r.functions()
	for _, g := range list {
		var id, name any
		if t, _, err := keys.DecodeTableKey(g.Start); err == nil {
			id = int64(t)
			if d := f.table(t); d != nil {
				name = d.Name
			}
		}
		replicas := make([]string, len(g.Replicas))
		for i, n := range g.Replicas {
			replicas[i] = strconv.Itoa(int(n))
		}
		r.add("range_id", int64(g.ID), "start_key", keys.PrettyPrint(g.Start), "end_key", keys.PrettyPrint(g.End), "table_id", id, "table_name", name,
			"replicas", "{"+strings.Join(replicas, ",")+"}", "lease_holder", g.Leaseholder, "lease_holder_region", g.Region, "range_size", g.Bytes,
			"wanted_voters", int64(g.WantedVoters), "live_voters", int64(g.LiveVoters), "state", g.State, "violation", g.Violation)
	}
	return err
}

func internalLeases(r *reading) error {
	if r.p.o.Leases == nil {
		return nil
	}
	list, err := r.p.o.Leases.Tenures(r.ctx)
	for _, t := range list {
		pending := make([]string, 0, len(t.Applied))
		for _, id := range slices.Sorted(maps.Keys(t.Applied)) {
			pending = append(pending, strconv.Itoa(int(id))+"@"+strconv.FormatUint(t.Applied[id], 10))
		}
		r.add("node_id", t.Node, "expiration", time.Unix(0, t.Expiration), "pending", strings.Join(pending, ","))
	}
	return err
}

func internalJobs(r *reading) error {
	if r.p.o.Jobs == nil {
		return nil
	}
	list, err := r.p.o.Jobs.List(r.ctx)
	at := func(ns int64) any {
		if ns == 0 {
			return nil
		}
		return time.Unix(0, ns)
	}
	for _, j := range list {
		var failure, node any
		if j.Error != nil {
			failure = j.Error.Message
		}
		if j.Claim.Expires != 0 {
			node = j.Claim.Node
		}
		if j.Later != nil {
			failure = j.Later.Error()
		}
		if r.s != nil && !r.s.Superuser() { // a job does not record its role, and its text may contain values
			j.Description = hiddenText
			if failure != nil {
				failure = hiddenText
			}
		}
		r.add("job_id", int64(j.ID), "job_type", j.Type, "description", j.Description, "status", string(j.Status), "fraction_completed", j.Fraction,
			"created", at(j.Created), "modified", at(j.Modified), "finished", at(j.Finished), "coordinator_node", node, "error", failure)
	}
	return err
}

func internalSettings(r *reading) error {
	v, ok := r.view.(interface{ Settings() map[string]string })
	if !ok {
		return nil
	}
	set := v.Settings()
	setting.All(func(d *setting.Setting) {
		r.add("variable", d.Name, "value", d.Shown(set), "setting_type", d.Kind.String(), "default_value", d.Format(d.Default), "description", d.About)
	})
	return nil
}

func internalSessions(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	report := r.p.o.Cluster.Report(r.ctx, false)
	for _, a := range report.Sessions {
		if !r.sees(a.User) {
			continue
		}
		r.add("node_id", a.Node, "pid", a.PID, "user_name", a.User, "database_name", a.Database, "application_name", a.Application,
			"client_address", a.Remote, "status", a.State, "query", a.Query, "session_start", a.Opened, "query_start", a.QueryStart)
	}
	for _, n := range report.Silent {
		r.add("node_id", n, "pid", nil, "user_name", nil, "database_name", nil, "application_name", nil, "client_address", nil,
			"status", "the node does not answer", "query", nil, "session_start", nil, "query_start", nil)
	}
	return r.ctx.Err()
}

func internalStatements(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	m := r.p.o.Cluster.Statements()
	for _, k := range slices.Sorted(maps.Keys(m)) {
		r.add("name", k, "count", m[k])
	}
	return nil
}

func internalClocks(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	for _, x := range r.p.o.Cluster.Clocks() {
		if x.Measured.IsZero() {
			r.add("node_id", x.Node, "max_offset", x.Max, "state", x.State)
			continue
		}
		row := []any{"node_id", x.Node, "clock_offset", x.Offset, "error", x.Error, "max_offset", x.Max, "measured_at", x.Measured, "state", x.State}
		if x.Source != "" {
			row = append(row, "source", x.Source, "epsilon", x.Epsilon)
		}
		r.add(row...)
	}
	return nil
}

func internalTimeSources(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	for _, x := range r.p.o.Cluster.TimeSources() {
		distance := "far"
		if x.Near {
			distance = "near"
		}
		row := []any{"address", x.Addr, "distance", distance, "state", x.State}
		if !x.Asked.IsZero() {
			row = append(row, "asked_at", x.Asked)
		}
		if x.Answered() {
			row = append(row, "clock_offset", x.Offset, "delay", x.Delay, "root_distance", x.Distance)
		}
		if x.Err != nil {
			row = append(row, "error", x.Err.Error())
		}
		r.add(row...)
	}
	return nil
}

func internalRetries(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	for _, x := range r.p.o.Cluster.Retries() {
		r.add("kind", x.Kind, "count", x.Count, "description", x.About)
	}
	return nil
}
