package main

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	versions "meridian/version"
)

func TestVersionText(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.99", Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abcd"},
		{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"}, {Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}}}
	want := "meridian " + version + "\ncommit 0123abcd of 2026-01-02T03:04:05Z, with changes that were not committed\ngo1.99 linux/arm64\n" + clusterVersions(versions.Built())
	if got := versionText(info); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := versionText(buildInfo()); !strings.Contains(got, runtime.Version()) || !strings.Contains(got, "\ncommit ") {
		t.Errorf("this build: %q", got)
	}
	if got := versionText(nil); !strings.Contains(got, "commit unknown") {
		t.Errorf("without build information: %q", got)
	}
	v := func(minor uint16) versions.Version { return versions.Version{Minor: minor} }
	for want, b := range map[string]versions.Binary{"cluster version 0.3\n": {Own: v(3), Oldest: v(3)}, "cluster versions 0.1 to 0.3\n": {Own: v(3), Oldest: v(1)}} {
		if got := clusterVersions(b); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var out strings.Builder
	cmd := root()
	cmd.SetOut(&out)
	for _, arg := range []string{"version", "--version"} {
		out.Reset()
		cmd.SetArgs([]string{arg})
		if err := cmd.Execute(); err != nil || out.String() != versionText(buildInfo()) {
			t.Errorf("%s: %q, %v", arg, out.String(), err)
		}
	}
}
