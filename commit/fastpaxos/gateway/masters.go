package gateway

import (
	"math/bits"
	"sync"
	"time"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// Masters of records, and what gateways know of them. The reigns of masters are in reign.go, policies in policy.go, and terms in terms.go.

const (
	// defaultGamma is the paper's.
	defaultGamma = 100
	// mostOf is how many of the last options make a region the one that writes a record most. Chosen by us, as with policies.
	mostOf = 11
)

// masters are a gateway's part in the decisions of masters: those of records that it has itself, its terms, and its knowledge of masters elsewhere.
type masters struct {
	*caller

	mu sync.Mutex // guards the fields below, and the reigns; nothing is taken after it but the lock of a term
	// made counts the masters that this gateway has made, from a number that it has drawn.
	made uint32
	// reigns are the records that have a master here.
	reigns map[string]*reign
	// followed are the masters that records are thought to have elsewhere.
	followed map[string]follows
	// led says when somebody asked last which node leads a range.
	led map[kv.RangeID]time.Duration
	// sweeping says that somebody looks after masters that rest.
	sweeping bool
	// settled are states of records that masters here have had learned.
	settled memory
	// terms are those of ranges, by the range.
	terms map[kv.RangeID]*rangeTerm
	// ruled are terms that readers have met, by the range.
	ruled map[kv.RangeID]ruledTerm
}

func newMasters(by *caller) *masters {
	return &masters{caller: by, reigns: map[string]*reign{}, followed: map[string]follows{}, led: map[kv.RangeID]time.Duration{}, terms: map[kv.RangeID]*rangeTerm{}, ruled: map[kv.RangeID]ruledTerm{}}
}

// number is one that no other master has. It names this node (Ballot.Node), and says nothing else: whose ballot is the later one is a matter of luck.
func (c *masters) number() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == 0 {
		c.made = uint32(c.o.Host.Dice.Uint64())
	}
	c.made++
	return uint64(bits.Reverse32(c.made))<<32 | uint64(uint32(c.o.NodeID()))
}

// policy is that of a record's table.
func (c *masters) policy(k keys.Key) (p core.Policy) {
	if c.o.Policy != nil {
		p = c.o.Policy(k)
	}
	if p.Gamma == 0 {
		p.Gamma = defaultGamma
	}
	return p
}

// reign is a record's master at this gateway. masters.mu guards its fields.
type reign struct {
	asked []*petition // that the master has not taken up, and then those that it has
	taken int
	known core.Ballot // the latest one of which somebody has heard
	// driven says that a goroutine has the master. If none has it, kept is a master that rests between two options of a classic ballot.
	driven bool
	kept   *keptMaster
	// take says that the gateway is to be the master, though nobody asks.
	take bool
	// handed is when the record was last offered to the gateway that writes it most.
	handed time.Duration
	writers
}

// keptMaster is a master with the generation of its range, and when it decided last.
type keptMaster struct {
	*core.Master
	in   core.Place
	last time.Duration
}

// petition is an option that somebody waits for a decision about.
type petition struct {
	o       core.Option
	prevent bool
	// mark: it is a promise to a reader that is wanted (Mark.name).
	mark bool
	// stays says that this gateway has to decide, whoever else is the record's master now: that one does not answer, or this one is at the leaseholder of a classic record.
	stays bool
	// direct says that nothing has been proposed to the record's replicas, as it was thought to have a master here: if it has none, they are asked first.
	direct bool
	// from is the gateway whose transaction it is.
	from    kv.NodeID
	learned chan core.Learned // holds one
	failed  chan error        // holds one
	gone    bool              // nobody waits any more
}

// mends reports whether it is not only a decision that is wanted, but that all replicas have the same state: somebody finishes a transaction that one of them has an option of, or lacks the outcome
// of. versions: with updates that commute as a version (mendVersions).
func (p *petition) mends() bool { return p.prevent }

func (p *petition) versions() bool { return p.prevent && p.o.Txn == kv.TxnID{} }

// lostError says that the master of a record at this gateway has lost it to another one.
type lostError struct{ to core.Ballot }

func (e *lostError) Error() string { return "fastpaxos: another gateway is the record's master" }

// openError says that a record has no master: all may propose to its replicas.
type openError struct{}

func (*openError) Error() string { return "fastpaxos: the record has no master" }

// writers are the gateways of a record's last options.
type writers struct {
	ring [16]kv.NodeID
	n    int // how many there were
}

func (w *writers) note(from kv.NodeID) {
	w.ring[w.n%len(w.ring)] = from
	w.n++
}

// most reports whether most of the last options are of a gateway and its neighbours.
func (w *writers) most(of func(kv.NodeID) bool) bool {
	n := 0
	for i := range min(w.n, len(w.ring)) {
		if of(w.ring[i]) {
			n++
		}
	}
	return n >= mostOf
}

// follows is the master that a gateway asks about a record.
type follows struct {
	to    core.Ballot
	until time.Duration
	// gave: it is the gateway that this one, the master so far, has offered the record. Others who ask are sent there.
	gave bool
}

// memory has what was learned of records not long ago.
type memory struct {
	of map[string]remembrance
}

type remembrance struct {
	*core.Record
	at time.Duration
}

// Chosen by us: a gateway that has lost a record asks within a round trip or two. A reign ends before many others begin.
const (
	memorable = 2 * time.Second
	memories  = 256
)

func (m *memory) put(k string, r *core.Record, now time.Duration) {
	if m.of == nil {
		m.of = map[string]remembrance{}
	}
	if len(m.of) >= memories {
		for o, x := range m.of {
			if now-x.at > memorable {
				delete(m.of, o)
			}
		}
		if len(m.of) >= memories {
			clear(m.of)
		}
	}
	m.of[k] = remembrance{r, now}
}

func (m *memory) get(k string) *core.Record { return m.of[k].Record }

// rangeTerm is what a gateway knows of the terms of a range.
type rangeTerm struct {
	in core.Place
	t  *core.Term
	// ballot is that of an attempt that did not succeed, and was not refused: it is repeated.
	ballot, highest core.Ballot
	taking          chan struct{} // closed when the attempt has ended; nil: there is none
	// again is when the next attempt may be made, by the host's monotonic clock.
	again time.Duration
}

// ruledTerm is a term of another gateway, or of this one, that a reader has met.
type ruledTerm struct {
	in     core.Place
	ballot core.Ballot
}

// nearby bounds the wait for the nearest replica: a round trip within a region.
const nearby = 3 * time.Millisecond
