//go:build deps

// Keeps the pinned dependencies in go.mod while the packages that use them are written.
package main
import (
_ "github.com/cockroachdb/pebble/v2"
_ "github.com/cockroachdb/pebble/v2/cockroachkvs"
_ "github.com/cockroachdb/pebble/v2/vfs"
_ "go.etcd.io/raft/v3"
_ "github.com/cockroachdb/cockroachdb-parser/pkg/sql/parser"
_ "github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
_ "github.com/cockroachdb/apd/v3"
_ "github.com/jackc/pgx/v5/pgproto3"
_ "github.com/jackc/pgx/v5"
_ "github.com/lib/pq"
_ "google.golang.org/grpc"
_ "google.golang.org/grpc/credentials"
_ "github.com/prometheus/client_golang/prometheus"
_ "github.com/prometheus/client_golang/prometheus/promhttp"
_ "github.com/spf13/cobra"
_ "github.com/cockroachdb/datadriven"
_ "pgregory.net/rapid"
_ "github.com/anishathalye/porcupine"
_ "github.com/google/btree"
_ "github.com/HdrHistogram/hdrhistogram-go"
_ "github.com/xdg-go/scram"
_ "github.com/chzyer/readline"
_ "golang.org/x/sync/errgroup"
)
func main(){}
