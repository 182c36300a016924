package job_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/encoding"
	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/job"
	"meridian/sql/sqlstate"
	"meridian/version"
	"meridian/wire"
)

// TestLaterJob: a job's row that a later version has written is listed with what is known of it, and neither run nor changed; other jobs go on (job.J4).
func TestLaterJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := cluster(t, 2)
		defer stop(nodes)
		ctx := context.Background()
		var runs atomic.Int64
		for _, n := range nodes {
			n.r.Handle("work", job.Handler{Resume: func(context.Context, *job.Run) error { runs.Add(1); return nil }})
			n.r.Start()
		}
		put := func(id job.ID, row string) {
			key := encoding.AppendUint(keys.IndexPrefix(catalog.JobsTableID, catalog.IndexID(1)), uint64(id), encoding.Ascending)
			if err := nodes[0].db.Put(ctx, key, []byte(row)); err != nil {
				t.Fatal(err)
			}
		}
		put(7, `{"ID":7,"Type":"work","Description":"of later","Status":"pending","Payload":null,"Created":1,"Modified":1,"Finished":0,"After":1,"Parallel":3,"needs":"99.1"}`)
		put(8, `{"ID":8,"Type":"work","Status":"pending","Payload":null,"Created":1,"Modified":1,"Finished":0,"After":1,"needs":"99.1"}`)
		put(9, `{"ID":"nine"}`)
		id := create(t, nodes[0], job.Spec{Type: "work"})
		time.Sleep(10 * job.DefaultAdoptInterval)
		if runs.Load() != 1 || status(t, nodes[1], id).Status != job.Succeeded {
			t.Errorf("%d runs; the job that is known is %s", runs.Load(), status(t, nodes[1], id).Status)
		}
		for _, later := range []job.ID{7, 8, 9} {
			rec := status(t, nodes[1], later)
			if rec.ID != later || rec.Later == nil || later < 9 && (rec.Status != job.Pending || !strings.Contains(rec.Later.Error(), "99.1")) {
				t.Errorf("%+v", rec)
			}
		}
		var e *sqlstate.Error
		if err := nodes[0].r.Cancel(ctx, 7); !errors.As(err, &e) || e.Code != sqlstate.FeatureNotSupported || !strings.Contains(e.Hint, "99.1") {
			t.Errorf("cancelled: %v", err)
		}
		if err := nodes[0].r.Run(ctx, 8); !errors.As(err, &e) || e.Code != sqlstate.FeatureNotSupported {
			t.Errorf("run: %v", err)
		}
	})
}

// TestLaterJobForItsBinary: whether a row is of a later version is a matter of the node's own binary, which may be an earlier one than this build (job.J4).
func TestLaterJobForItsBinary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built := version.Built()
		nodes := clusterOf(t, version.Binary{Own: version.Version{Step: 1}}, built)
		defer stop(nodes)
		var ran [2]atomic.Int64
		for i, n := range nodes {
			n.r.Handle("work", job.Handler{Resume: func(context.Context, *job.Run) error { ran[i].Add(1); return nil }})
		}
		row := fmt.Sprintf(`{"ID":7,"Type":"work","Status":"pending","Payload":null,"Created":1,"Modified":1,"Finished":0,"After":1,"needs":%q}`, built.Own)
		key := encoding.AppendUint(keys.IndexPrefix(catalog.JobsTableID, catalog.IndexID(1)), 7, encoding.Ascending)
		if err := nodes[0].db.Put(t.Context(), key, []byte(row)); err != nil {
			t.Fatal(err)
		}
		nodes[0].r.Start()
		time.Sleep(5 * job.DefaultAdoptInterval)
		if rec := status(t, nodes[0], 7); ran[0].Load() != 0 || ran[1].Load() != 0 || rec.Later == nil || rec.Later.Needs != built.Own.String() {
			t.Errorf("%d and %d runs: %+v", ran[0].Load(), ran[1].Load(), rec)
		}
		nodes[1].r.Start()
		time.Sleep(5 * job.DefaultAdoptInterval)
		if rec := status(t, nodes[1], 7); ran[0].Load() != 0 || ran[1].Load() != 1 || rec.Later != nil || rec.Status != job.Succeeded {
			t.Errorf("%d and %d runs: %+v", ran[0].Load(), ran[1].Load(), rec)
		}
	})
}

// TestJobMeetsLater: a job that meets what only a later version understands is given up by this node, and does not fail.
func TestJobMeetsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := cluster(t, 2)
		defer stop(nodes)
		var tries, done atomic.Int64
		nodes[0].r.Handle("work", job.Handler{Resume: func(context.Context, *job.Run) error {
			tries.Add(1)
			e := sqlstate.New(sqlstate.FeatureNotSupported, "not here")
			e.Cause = &wire.VersionError{Message: "catalogue descriptor"}
			return e
		}})
		id := create(t, nodes[0], job.Spec{Type: "work"})
		nodes[0].r.Start()
		time.Sleep(5 * job.DefaultAdoptInterval)
		rec := status(t, nodes[0], id)
		if tries.Load() == 0 || rec.Status != job.Running || rec.Claim.Expires != 0 {
			t.Fatalf("%d tries: %+v", tries.Load(), rec)
		}
		nodes[1].r.Handle("work", job.Handler{Resume: func(context.Context, *job.Run) error { done.Add(1); return nil }})
		nodes[1].r.Start()
		time.Sleep(5 * job.DefaultAdoptInterval)
		if rec := status(t, nodes[0], id); done.Load() != 1 || rec.Status != job.Succeeded {
			t.Errorf("%+v", rec)
		}
	})
}
