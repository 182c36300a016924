package sessions_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestCommitOfLargeRows: a transaction that was pushed while it wrote more bytes than a command can hold commits, and the intents of
// all of its ranges become rows: each is written again with its value (leader.P19). It was refused as too large, for ever.
func TestCommitOfLargeRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), NodesPerRegion: 1})
		ctx := context.Background()
		writer, reader := simtest.Connect(t, c, 0), simtest.Connect(t, c, 0)
		simtest.Exec(t, writer, "CREATE TABLE l (id int PRIMARY KEY, v text)")
		simtest.Exec(t, writer, "ALTER TABLE l SPLIT AT VALUES (100)")
		simtest.Exec(t, writer, "BEGIN")
		for i := range 9 {
			simtest.Exec(t, writer, fmt.Sprintf("INSERT INTO l SELECT i, repeat('x', 4000000) FROM (VALUES (%d), (%d)) v(i)", i, i+100))
		}
		time.Sleep(time.Second)
		if n := simtest.Ask[int](t, reader, "SELECT count(*) FROM l"); n != 0 { // which pushes the writer
			t.Fatalf("%d rows before the COMMIT", n)
		}
		if _, err := writer.Exec(ctx, "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if n := simtest.Ask[int](t, reader, "SELECT length(v) FROM l WHERE id = 101"); n != 4_000_000 { // which resolves what it meets
			t.Errorf("a row of %d bytes after the COMMIT", n)
		}
		if n := simtest.Ask[int64](t, reader, "SELECT sum(length(v)) FROM l"); n != 72_000_000 {
			t.Errorf("%d bytes after the COMMIT", n)
		}
		time.Sleep(10 * time.Second)
		if n := simtest.Ask[int](t, reader, "SELECT count(*) FROM l"); n != 18 {
			t.Errorf("%d rows after the COMMIT", n)
		}
	})
}
