package sessions_test

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// fillRandom is fill with rows that can't be compressed, several statements after one another.
func fillRandom(t *testing.T, ctx context.Context, conn *pgx.Conn, dice *rand.Rand) (rows int) {
	t.Helper()
	for rows < 1_000_000 {
		values := make([]string, 20)
		for i := range values {
			b := make([]byte, 1500)
			for k := range b {
				b[k] = byte(dice.Uint32())
			}
			values[i] = hex.EncodeToString(b)
		}
		time.Sleep(20 * time.Millisecond) // 3 MB/s
		_, err := conn.Exec(ctx, "INSERT INTO a SELECT $1::bigint + i, v FROM unnest($2::text[]) WITH ORDINALITY AS u(v, i)", rows, values)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "53100" {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		rows += len(values)
	}
	t.Fatal("the disk is not full")
	return 0
}

// TestFillAgain fills a small disk, one of three, with rows until they are refused, and truncates or drops their table, some times over, or as often as MERIDIAN_ROUNDS says, and on a larger disk. Each round takes as many rows
// as the first, and the space is there again within a minute (I9).
func TestFillAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		size, reserve, rounds := int64(72<<20), int64(32<<20), 4
		least := 50 // percent of the first round's rows: memtables, logs and what is not compacted yet are much of so small a disk
		if n, err := strconv.Atoi(os.Getenv("MERIDIAN_ROUNDS")); err == nil {
			size, reserve, rounds, least = 420<<20, 256<<20, n, 90
		}
		c := simcluster.New(t, simcluster.Options{NodesPerRegion: 3, Log: simtest.LogTo(), Configure: func(_ int, o *server.Options) { o.ReserveBytes = reserve }})
		for i := range 3 {
			c.Boot(i)
			if i == 0 {
				if _, err := c.Node(0).Init(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			c.WaitReady(i)
		}
		simtest.Replicated(t, c, 3)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, "CREATE TABLE a (id bigint PRIMARY KEY, v text)")
		simtest.Exec(t, conn, "CREATE TABLE b (id bigint PRIMARY KEY, v text)")
		c.Machines[1].Disk.SetSize(size)
		first, dice := 0, rand.New(rand.NewPCG(1, 1))
		for round := range rounds {
			rows := fillRandom(t, ctx, conn, dice)
			if round == 0 {
				first = rows
			}
			if round%2 == 0 {
				simtest.Exec(t, conn, "TRUNCATE a")
			} else {
				simtest.Exec(t, conn, "DROP TABLE a")
				simtest.Exec(t, conn, "CREATE TABLE a (id bigint PRIMARY KEY, v text)")
			}
			begun := time.Now()
			for {
				_, err := conn.Exec(ctx, "INSERT INTO b VALUES ($1, 'there is space again')", round)
				if err == nil {
					break
				}
				if time.Since(begun) > 5*time.Minute {
					t.Fatalf("no space after %s: %v", time.Since(begun), err)
				}
				time.Sleep(time.Second)
			}
			took := time.Since(begun)
			if took > time.Minute {
				t.Errorf("round %d: rows are taken again after %s", round, took)
			}
			time.Sleep(time.Minute - min(took, time.Minute))
			kept := tables(t, c.Machines[1].Disk.FS(), "store")
			if kept > 2<<20 {
				t.Errorf("round %d: a minute later the store has tables of %d KiB", round, kept>>10)
			}
			m := c.Node(1).StoreMetrics()
			t.Logf("round %d: full after %d rows; space again after %s; %d tables of %d KiB, %d at level 0", round, rows, took, m.TableCount, kept>>10, m.L0Files)
			if 100*rows < least*first {
				t.Errorf("round %d takes %d rows, the first took %d", round, rows, first)
			}
		}
	})
}

// tables is the size of all tables in a directory.
func tables(t *testing.T, fs vfs.FS, dir string) (sum int64) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if info, err := fs.Stat(fs.PathJoin(dir, n)); err == nil && strings.HasSuffix(n, ".sst") {
			sum += info.Size()
		}
	}
	return sum
}
