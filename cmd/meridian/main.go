package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	// For machines without a time zone database.
	_ "time/tzdata"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
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

// root is the program with all its commands.
func root() *cobra.Command {
	about := versionText(buildInfo())
	c := &cobra.Command{
		Use:           "meridian",
		Short:         "A SQL database for applications whose users live on several continents",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	c.SetVersionTemplate(about)
	c.AddCommand(newDemoCmd(), newStartCmd(), newInitCmd(), newSQLCmd(), newCertCmd(), newNodeCmd(), newUserCmd(), newUpgradeCmd(), newTimemasterCmd(), newWorkloadCmd(),
		&cobra.Command{Use: "version", Short: "Print the version, the commit it was built from, and the Go that built it",
			Run: func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), about) }})
	return c
}

// errQuiet makes the program fail without printing anything more.
var errQuiet = errors.New("failed")
