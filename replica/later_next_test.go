//go:build nextversion

package replica

import (
	"encoding/hex"
	"testing"

	"meridian/version"
)

// TestNextVersion: what the test of the same name has as bytes of the next version is what this build writes.
func TestNextVersion(t *testing.T) {
	c := Command{laterCommand: laterCommand{Version: 0x20002}, LeaseSequence: 4, maxLeaseIndex: 5, id: 6, Batch: []byte("batch")}
	s := appliedState{laterState: laterState{version: 0x20002}, position: position{9, 3}, leaseIndex: 5}
	for _, x := range []struct {
		got  []byte
		want string
	}{
		{c.encode(), "09050000000000000019060000000000000028043a00fa01056261746368c83e828008"},
		{s.append(nil), "0809180328054a00c83e828008"},
	} {
		if got := hex.EncodeToString(x.got); got != x.want {
			t.Errorf("%s, want %s", got, x.want)
		}
	}
}

// TestNextCommand: a command says by which version it is proposed once that is active, until the range knows it.
func TestNextCommand(t *testing.T) {
	b := version.Built()
	h := version.NewHandle(b, b.Oldest)
	r := &Replica{o: &Options{Version: h}}
	says := func() uint64 {
		var c Command
		c.laterCommand.propose(r)
		if err := c.laterCommand.carry(r); err != nil {
			t.Error(err)
		}
		return c.Version
	}
	if v := says(); v != 0 {
		t.Errorf("before the version is active: %s", version.From(v))
	}
	h.Raise(b.Own)
	if v := says(); v != b.Own.Uint64() || r.applied.version != v {
		t.Errorf("%s, and the range is of %s", version.From(v), version.From(r.applied.version))
	}
	if v := says(); v != 0 {
		t.Errorf("once the range knows it: %s", version.From(v))
	}
	if written, read := h.Uses(version.NextCommand); written != 1 || read != 1 {
		t.Errorf("counted %d and %d times", written, read)
	}
}
