package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"meridian/server"
)

// newUpgradeCmd is `meridian upgrade`.
func newUpgradeCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "upgrade", Short: "Show the cluster's version, and finalize an upgrade"}
	var f adminFlags
	status := &cobra.Command{
		Use: "status", Short: "Show the cluster's active version, and the versions of its nodes' binaries", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.client(cmd.Context())
			if err != nil {
				return err
			}
			defer a.Close()
			u, err := a.Upgrade(cmd.Context(), false)
			if err != nil {
				return err
			}
			printUpgrade(u)
			return nil
		},
	}
	f.add(status)
	var g adminFlags
	finalize := &cobra.Command{
		Use: "finalize", Short: "End an upgrade: from then on the cluster acts by the new version",
		Long: `End an upgrade, once every node runs the new binary. From then on no node goes back to the earlier binary, what the new
version brings is used, and the migrations that it needs are run. The command returns when they are done. It may be
interrupted and given again: the cluster goes on by itself.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := g.client(cmd.Context())
			if err != nil {
				return err
			}
			defer a.Close()
			last, seen := "", &server.Upgrade{}
			to, err := a.Finalize(cmd.Context(), func(u *server.Upgrade) {
				seen = u
				if u.Job != nil && !u.Raising.IsZero() && u.Job.Doing != last {
					last = u.Job.Doing
					fmt.Println(last)
				}
			})
			if err == nil && to.IsZero() {
				fmt.Printf("there is nothing to finalize: the cluster acts by version %s, and no node has a later one\n", seen.Active)
			}
			if err == nil && !to.IsZero() {
				fmt.Printf("the cluster acts by version %s\n", to)
			}
			return err
		},
	}
	g.add(finalize)
	cmd.AddCommand(status, finalize)
	return cmd
}

func printUpgrade(u *server.Upgrade) {
	fmt.Printf("the cluster acts by version %s\n", u.Active)
	switch {
	case !u.Raising.IsZero() && u.Job != nil && u.Job.Status.Finished():
		fmt.Printf("the upgrade to %s is not finalized: its job has %s; `meridian upgrade finalize` goes on\n", u.Raising, u.Job.Status)
	case !u.Raising.IsZero():
		fmt.Printf("the upgrade to %s is being finalized", u.Raising)
		if u.Job != nil && u.Job.Doing != "" {
			fmt.Printf(": %s", u.Job.Doing)
		}
		fmt.Println()
	case u.Active.Less(u.Latest):
		fmt.Printf("all nodes have version %s: `meridian upgrade finalize` ends the upgrade; until then the nodes can go back to the earlier binary\n", u.Latest)
	}
	for _, m := range u.Migrations {
		fmt.Printf("migration: %s: %s %s\n", m.Description, m.Status, m.Error)
	}
	printTable(os.Stdout, u.Header(), make([]bool, len(u.Header())), u.Rows)
}
