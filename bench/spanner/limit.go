package main

import (
	"fmt"
	"strings"
	"time"
)

// limits compare read-write transactions in external mode with their limit: a round of consensus or two epsilon, whichever is longer, and what is local. A transaction of the default mode takes the round
// and what is local, of which reads are the part that comes before the commit.
type limits struct{ rows strings.Builder }

// tolerance is for jitter and for leaseholders in other zones: chosen by us.
const tolerance = 500 * time.Microsecond

// add compares one kind of transactions. Reads are what comes before the commit.
func (l *limits) add(name string, plain, external, reads stats, epsilon time.Duration) bool {
	wait := milliseconds(2*epsilon) + reads.mean()
	most := max(plain.mean(), wait)
	kept := external.mean() <= most+milliseconds(tolerance)
	fmt.Fprintf(&l.rows, "| %s | %.1f ms | %.1f ms | %.1f ms | %.1f ms | %s |\n", name, plain.mean(), wait, most, external.mean(), word(kept))
	return kept
}

func (l *limits) write(b *strings.Builder) {
	b.WriteString("The limit of a read-write transaction is the longer of a round to the quorum and two epsilon, with what is local, and never their sum:\n\n" +
		"| | default mode: the round and what is local | two epsilon, and the reads before | limit | external | |\n|---|---:|---:|---:|---:|---|\n" + l.rows.String())
}

func word(kept bool) string {
	if kept {
		return "kept"
	}
	return "**missed**"
}

// verdict writes whether a limit was kept.
func verdict(b *strings.Builder, what string, kept bool) {
	fmt.Fprintf(b, "- %s: %s\n", what, word(kept))
}
