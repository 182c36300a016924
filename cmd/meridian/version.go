package main

import (
	"cmp"
	"runtime/debug"
	"strings"

	versions "meridian/version"
)

// version is the release; release builds set it with -ldflags. commit is set by `make build`, for builds that Go does not stamp: in
// a worktree, or with -buildvcs=false.
var version, commit = "v0.1.0-dev", ""

// versionText is the output of `meridian version`: the release, the commit it was built from, the Go that built it, and the versions of a cluster by
// which it can act.
func versionText(info *debug.BuildInfo) string {
	text := "meridian " + version
	from, at, modified := cmp.Or(commit, "unknown"), "", false
	if info == nil {
		return text + "\ncommit " + from + "\n" + clusterVersions(versions.Built())
	}
	platform := map[string]string{}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			from = s.Value
		case "vcs.time":
			at = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		case "GOOS", "GOARCH":
			platform[s.Key] = s.Value
		}
	}
	text += "\ncommit " + from
	if at != "" {
		text += " of " + at
	}
	if modified {
		text += ", with changes that were not committed"
	}
	return text + "\n" + strings.TrimSuffix(info.GoVersion+" "+platform["GOOS"]+"/"+platform["GOARCH"], " /") + "\n" + clusterVersions(versions.Built())
}

// clusterVersions says by which versions of a cluster a binary can act.
func clusterVersions(b versions.Binary) string {
	if b.Oldest == b.Own {
		return "cluster version " + b.Own.String() + "\n"
	}
	return "cluster versions " + b.Oldest.String() + " to " + b.Own.String() + "\n"
}

func buildInfo() *debug.BuildInfo {
	info, _ := debug.ReadBuildInfo()
	return info
}
