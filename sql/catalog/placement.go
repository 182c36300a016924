package catalog

import (
	"fmt"
	"slices"
	"strings"

	"meridian/commit/protocol"
	"meridian/kv"
)

// Locality says where the rows of a table have their home. The zero value, REGIONAL BY TABLE IN PRIMARY REGION, is that of
// tables without the clause. In a descriptor it is the text that LOCALITY takes, and nothing for the zero value.
type Locality struct {
	Kind LocalityKind
	// Region is the home of RegionalByTable; empty is the database's primary region.
	Region string
}

// LocalityKind is one of the three clauses of LOCALITY.
type LocalityKind uint8

const (
	// RegionalByTable has all rows in one region.
	RegionalByTable LocalityKind = iota
	// RegionalByRow has each row in a region of its own.
	RegionalByRow
	// Global has rows that every region reads as they are now.
	Global
)

// The texts of localities.
const (
	primaryLocality = "REGIONAL BY TABLE IN PRIMARY REGION"
	tableLocality   = "REGIONAL BY TABLE IN " // and a quoted name
	rowLocality     = "REGIONAL BY ROW"
	globalLocality  = "GLOBAL"
)

func (l Locality) String() string {
	switch {
	case l.Kind == RegionalByRow:
		return rowLocality
	case l.Kind == Global:
		return globalLocality
	case l.Region == "":
		return primaryLocality
	}
	return tableLocality + `"` + strings.ReplaceAll(l.Region, `"`, `""`) + `"`
}

// ParseLocality reads what String prints.
func ParseLocality(text string) (Locality, error) {
	switch text {
	case primaryLocality:
		return Locality{}, nil
	case rowLocality:
		return Locality{Kind: RegionalByRow}, nil
	case globalLocality:
		return Locality{Kind: Global}, nil
	}
	name, ok := strings.CutPrefix(text, tableLocality+`"`)
	if name, closed := strings.CutSuffix(name, `"`); ok && closed && name != "" {
		if l := (Locality{Region: strings.ReplaceAll(name, `""`, `"`)}); l.String() == text {
			return l, nil
		}
	}
	return Locality{}, &UnknownValueError{"locality", text}
}

// MarshalText implements encoding.TextMarshaler.
func (l Locality) MarshalText() ([]byte, error) {
	if l == (Locality{}) {
		return nil, nil
	}
	return []byte(l.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Locality) UnmarshalText(b []byte) (err error) {
	*l = Locality{}
	if len(b) > 0 {
		*l, err = ParseLocality(string(b))
	}
	return err
}

// CommitProtocol says who orders the writes of a table's rows; the zero value is the leader protocol. In a descriptor it is the
// name that the storage parameter commit_protocol takes, and nothing for the zero value.
type CommitProtocol kv.Protocol

// ProtocolOption is the storage parameter that names a table's commit protocol.
const ProtocolOption = "commit_protocol"

func (p CommitProtocol) String() string { return kv.Protocol(p).String() }

// ParseCommitProtocol finds a protocol by its name.
func ParseCommitProtocol(name string) (CommitProtocol, error) {
	for _, p := range protocol.Named() {
		if p.String() == name {
			return CommitProtocol(p), nil
		}
	}
	return 0, &UnknownValueError{"commit protocol", name}
}

// Default reports whether it is the protocol of tables that name none.
func (p CommitProtocol) Default() bool { return kv.Protocol(p) == protocol.Default }

// Traits are those of the protocol.
func (p CommitProtocol) Traits() protocol.Traits { return protocol.Of(kv.Protocol(p)) }

// changing is what a table has while it gets the protocol.
func (p CommitProtocol) changing() protocol.Traits { return protocol.Changing(kv.Protocol(p)) }

// MarshalText implements encoding.TextMarshaler.
func (p CommitProtocol) MarshalText() ([]byte, error) {
	if p.Default() {
		return nil, nil
	}
	return []byte(p.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *CommitProtocol) UnmarshalText(b []byte) (err error) {
	*p = CommitProtocol(protocol.Default)
	if len(b) > 0 {
		*p, err = ParseCommitProtocol(string(b))
	}
	return err
}

// Ballots says in which kind of ballot the rows of a table without leaseholders are written (MDCC §3.3.2); the zero value is that of a table that does not say it. In a
// descriptor it is the word that the storage parameter fast_paxos_ballots takes, and nothing for the zero value.
type Ballots uint8

const (
	// UnsaidBallots are DefaultBallots.
	UnsaidBallots Ballots = iota
	// FastBallots has gateways propose to all replicas of a row; a master decides about collisions only.
	FastBallots
	// ClassicBallots has a master near the leaseholder decide about all writes of a row.
	ClassicBallots
	// GammaBallots are fast ones; after a collision a master decides about so many writes of the row as Table.Gamma says.
	GammaBallots
	// LearnedBallots are classic ones for a hot row, with a master in the region that writes it most, and fast ones for the others.
	LearnedBallots
)

// DefaultBallots are those of a table that does not say which.
const DefaultBallots = FastBallots

// Gamma is how many writes of a row a master decides about after a collision (MDCC §3.3.2; 100 is the paper's). The bounds are ours.
const (
	DefaultGamma = 100
	MinGamma     = 1
	MaxGamma     = 1_000_000
)

// BallotsOption and GammaOption are the storage parameters that say in which ballots a table's rows are written.
const (
	BallotsOption = protocol.BallotsOption
	GammaOption   = protocol.GammaOption
)

var ballotWords = [...]string{FastBallots: "fast", ClassicBallots: "classic", GammaBallots: "gamma", LearnedBallots: "learned"}

func (b Ballots) String() string { return ballotWords[b] }

// Counts reports whether Gamma means something to the policy.
func (b Ballots) Counts() bool { return b == GammaBallots || b == LearnedBallots }

// ParseBallots finds a policy by its word.
func ParseBallots(word string) (Ballots, error) {
	if i := slices.Index(ballotWords[:], word); i > 0 {
		return Ballots(i), nil
	}
	return 0, &UnknownValueError{BallotsOption, word}
}

// MarshalText implements encoding.TextMarshaler.
func (b Ballots) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Ballots) UnmarshalText(text []byte) (err error) {
	*b = UnsaidBallots
	if len(text) > 0 {
		*b, err = ParseBallots(string(text))
	}
	return err
}

// BallotPolicy is the policy of a table's rows, with what the table does not say; of nil it is that of a table that says nothing.
func (t *Table) BallotPolicy() (b Ballots, gamma int) {
	if t != nil {
		b, gamma = t.Ballots, t.Gamma
	}
	if b == UnsaidBallots {
		b = DefaultBallots
	}
	if gamma == 0 {
		gamma = DefaultGamma
	}
	return b, gamma
}

// UnknownValueError refuses the text of an enumeration of ours that has no such value: it may be a later version's.
type UnknownValueError struct{ What, Value string }

func (e *UnknownValueError) Error() string {
	return fmt.Sprintf("%s %q is not known to this version", e.What, e.Value)
}
