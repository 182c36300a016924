package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	// Machines without a time zone database get this one.
	_ "time/tzdata"

	"github.com/spf13/cobra"
)

// version is what `meridian version` prints; release builds set it with -ldflags.
var version = "v0.1.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "meridian",
		Short:         "A SQL database for applications whose users live on several continents",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newDemoCmd(), newStartCmd(), newInitCmd(), newSQLCmd(), newCertCmd(), newNodeCmd(), newUserCmd(), newWorkloadCmd(),
		&cobra.Command{Use: "version", Short: "Print the version", Run: func(*cobra.Command, []string) { fmt.Println("meridian", version) }})
	if err := root.ExecuteContext(ctx); err != nil {
		if !errors.Is(err, errQuiet) {
			text := err.Error()
			if !strings.HasPrefix(text, "ERROR") && !strings.HasPrefix(text, "FATAL") {
				text = "ERROR: " + text
			}
			fmt.Fprintln(os.Stderr, text)
		}
		os.Exit(1)
	}
}

// errQuiet ends with a failing status and prints nothing more.
var errQuiet = errors.New("failed")
