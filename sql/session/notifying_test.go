package session

import (
	"fmt"
	"strings"
	"testing"

	"meridian/sql/bind"
	"meridian/sql/memory"
	"meridian/sql/notify"
	"meridian/sql/sqlstate"
)

// published is an exchange that records the published notifications.
type published struct {
	list []string
	full error
}

func (p *published) Room() error { return p.full }
func (p *published) NewListener(string, func(), func()) *notify.Listener {
	panic("nobody listens in these tests")
}
func (p *published) Publish(database string, list []notify.Notification) {
	for _, n := range list {
		p.list = append(p.list, fmt.Sprintf("%s %d %s %s", database, n.Process, n.Channel, n.Payload))
	}
}

// TestNotifying: a transaction's notifications are published when it commits: equal ones once, and without those that ROLLBACK TO has dropped.
func TestNotifying(t *testing.T) {
	p := &published{}
	n := &notifying{exchange: p, database: "d", process: 7}
	account := memory.Limited(100 << 20)
	say := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := n.notify(account, "c", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(when string, k int) {
		t.Helper()
		if len(p.list) != k || k > 0 && (p.list[0] != "d 7 c 0" || p.list[k-1] != fmt.Sprint("d 7 c ", k-1)) {
			t.Errorf("%s: %d are published, and not %d: %.100s", when, len(p.list), k, strings.Join(p.list, ", "))
		}
		p.list = nil
	}
	say(0, 3)
	n.end(false)
	want("ROLLBACK", 0)
	n.end(true)
	want("a later COMMIT", 0)
	// Duplicates are found in a list while there are few notifications, and in a set when there are many.
	for _, many := range []int{3, 10 * fewPending} {
		say(0, many)
		say(0, many)
		m := n.mark()
		say(0, many+5)
		n.rollbackTo(m)
		say(many/2, many+1)
		n.end(true)
		want(fmt.Sprint(many, " twice"), many+1)
	}
	// Bounds.
	for _, bad := range []struct{ channel, payload string }{{"", ""}, {strings.Repeat("c", maxChannelName), ""}, {"c", strings.Repeat("x", maxPayload)}} {
		if err := n.notify(account, bad.channel, bad.payload); !sqlstate.Is(err, sqlstate.InvalidParameterValue) {
			t.Errorf("%.10q, %.10q: %v", bad.channel, bad.payload, err)
		}
	}
	m, k := n.mark(), 0
	for ; k < maxNotifyBytes/maxPayload; k++ {
		if err := n.notify(account, "c", fmt.Sprintf("%0*d", maxPayload-1, k)); err != nil {
			if !sqlstate.Is(err, sqlstate.ProgramLimitExceeded) || k < maxNotifyBytes/maxPayload/3 {
				t.Errorf("after %d: %v", k, err)
			}
			break
		}
	}
	if k == maxNotifyBytes/maxPayload {
		t.Error("a transaction notifies without bound")
	}
	n.rollbackTo(m)
	if say(0, 1); n.bytes > 1000 {
		t.Errorf("%d bytes are pending after ROLLBACK TO", n.bytes)
	}
	n.end(false)
	p.full = sqlstate.New(sqlstate.ProgramLimitExceeded, "full")
	if err := n.notify(account, "c", ""); !sqlstate.Is(err, sqlstate.ProgramLimitExceeded) {
		t.Errorf("the node's queue is full: %v", err)
	}
	if err := n.notify(memory.Limited(10), "d", ""); err == nil {
		t.Error("the account is not asked")
	}
	// UNLISTEN without a listener has no effect.
	if tag, err := n.listen(account, &bind.Unlisten{}); tag != "UNLISTEN" || err != nil {
		t.Error(tag, err)
	}
	n.end(true)
	want("UNLISTEN", 0)
}
