package clock

import "time"

// Ceiling is what the nodes of a cluster have agreed of how far the timestamp of a commit may be ahead of true time when its client is answered.
//
//	true time                e                         answered at e: the commit's timestamp is at most e + Allow
//	   |---------------------|--------Allow------|
//	                         |-------------Assume-------------|
//	                                 b                        a reader that begins at b >= e looks up to b + Assume at least
//
// The rule needs no bound on the epsilon of another node: a node whose own is larger than Allow waits for the difference before it answers. So
// nobody has to hear of an epsilon that grows before it may grow.
type Ceiling struct {
	// Allow is what nodes that answer go by, Assume what nodes that read go by; zero is no ceiling: the rule is that a node's clock has passed the timestamp, and
	// that clocks differ by the maximum offset.
	Allow, Assume time.Duration
}

// agreed is a Ceiling that this node may go by until a reading of the monotonic clock.
type agreed struct {
	Ceiling
	until time.Duration
}

// strict is the rule of a node that does not know the ceiling: it answers as if nobody looked beyond true time, and looks up to the maximum offset.
func strict() *agreed { return &agreed{until: -1} }

// Await is to be called before the first transaction of a node whose cluster may have a ceiling: until Agree, this node does not know it.
func (c *Clock) Await() { c.agreed.Store(strict()) }

// Agree says that the cluster has a ceiling, or none, and that this node will hear in time of another one: for as long as the monotonic clock is not beyond until
// (cluster.L6).
func (c *Clock) Agree(to Ceiling, until time.Duration) { c.agreed.Store(&agreed{to, until}) }

// answered is the latest timestamp of a commit that was answered before now, by the ceiling; zero: the interval of the clocks says it.
func (c *Clock) answered(truth Interval) Timestamp {
	a := c.agreed.Load()
	if a == nil || a.Assume == 0 || c.physical.Monotonic() > a.until {
		return Timestamp{}
	}
	return truth.Latest.Add(a.Assume)
}

// late is for how long yet a commit must not be answered, by the ceiling (clock.C7).
func (c *Clock) late(t Timestamp) time.Duration {
	a := c.agreed.Load()
	if a == nil {
		return 0
	}
	allow := a.Allow
	if c.physical.Monotonic() > a.until {
		allow = 0
	} else if allow == 0 {
		return 0
	}
	return time.Duration(t.Wall-c.TrueTime().Earliest.Wall) - allow
}

// Lead is how far ahead of a leaseholder's clock a reader's uncertainty interval ends, if the two clocks agree: what a range has to close for its replicas
// to serve reads of the present.
func (c *Clock) Lead() time.Duration {
	a := c.agreed.Load()
	if a == nil || a.Assume == 0 || c.physical.Monotonic() > a.until {
		return c.maxOffset
	}
	return min(c.maxOffset, c.TrueTime().Epsilon()+a.Assume)
}
