package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/lease"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// foldingReplica is one of a range of another protocol that is being folded: of the step it is applied, and not known that it is.
type foldingReplica struct {
	fakeReplica
	floor clock.Timestamp
	step  *replica.Step
}

func (r *foldingReplica) Generation() replica.Generation { return replica.Generation{Floor: r.floor} }

func (r *foldingReplica) EvaluateStep(_ engine.Reader, _ *engine.Batch, _ *replica.Command, s *replica.Step) (done bool, err error) {
	r.step = s
	return false, nil
}

func (r *foldingReplica) Propose(ctx context.Context, cmd *replica.Command) error {
	if r.step == nil {
		return r.fakeReplica.Propose(ctx, cmd)
	}
	r.floor, r.step = r.step.Floor, nil
	cmd.Settled()
	return &kv.AmbiguousError{Reason: "the answer was lost"}
}

// TestFloorOfUnknownFold: the last command of a fold is applied, its leaseholder does not hear so, and changes the protocol all the same.
// A version of a node whose clock is ahead is below the low water then (leader.P22): a read has to find it, though by the leaseholder's clock it was
// written after the read had begun.
func TestFloorOfUnknownFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		ctx, k := context.Background(), keys.Key("k")
		r := &foldingReplica{fakeReplica: fakeReplica{c: c}}
		d := &kv.RangeDescriptor{ID: 1, Start: keys.Min, End: keys.Max, Protocol: kv.FirstForeign, Generation: 1}
		r.Init(c.engine, d, mvcc.Stats{})
		p := New(c.o, r, nil)
		defer p.Close(nil)
		p.LeaseChanged(lease.Lease{Sequence: 1, Start: c.clock.Now()}, true)

		ahead := c.clock.Now().Add(100 * time.Millisecond)
		b := c.engine.NewIndexedBatch()
		w := mvcc.NewWriter(b, b)
		err := w.Fold(k, []byte("v"), ahead)
		if err == nil {
			err = errors.Join(w.Close(), b.Commit(false), b.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		var unknown *kv.AmbiguousError
		if err := p.Advance(ctx, &replica.Step{Generation: 1, To: replica.Folded, Floor: ahead}); !errors.As(err, &unknown) {
			t.Fatal(err)
		}

		next := d.Clone()
		next.Protocol, next.Generation = kv.Leader, 2
		now := c.clock.Now()
		change := &kv.Batch{Header: kv.Header{RangeID: 1, Txn: &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{7}, Anchor: k, WriteTimestamp: now, MinTimestamp: now}, ReadTimestamp: now}},
			Requests: []kv.Request{&kv.EndTxnRequest{Anchor: k, Commit: true, Trigger: &kv.CommitTrigger{Replicas: &kv.ReplicasTrigger{Desc: *next}}}}}
		if _, err := p.Send(ctx, change); err != nil {
			t.Fatal(err)
		}
		r.SetDesc(next)
		p.DescriptorChanged(next)

		resp, err := p.Send(ctx, &kv.Batch{Header: kv.Header{RangeID: 1}, Requests: []kv.Request{&kv.GetRequest{Key: k}}})
		if err != nil {
			t.Fatal(err)
		}
		if v := resp.Responses[0].(*kv.GetResponse).Value; string(v) != "v" {
			t.Errorf("a read finds %q of what was acknowledged under the protocol before", v)
		}
	})
}
