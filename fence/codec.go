package fence

import "meridian/wire"

// Starts, and what a store keeps of them, have to be understood as a whole: whether a node may act on its store follows from them. Claims and
// answers may have more of later versions.

func (s *Start) fields(c *wire.Coder) {
	c.Message("fence.Start", wire.Refuses)
	wire.Uint64(c, 1, &s.Number)
	c.Fixed64(3, &s.Token)
}

func (k *Claim) fields(c *wire.Coder) {
	c.Message("fence.Claim", wire.Skips)
	wire.Uint32(c, 1, &k.Node)
	wire.Some(c, 3, &k.Last, (*Start).fields)
	wire.Uint64(c, 5, &k.Position)
	wire.Some(c, 7, &k.Next, (*Start).fields)
	c.String(9, &k.Addr)
}

func (k *Known) fields(c *wire.Coder) {
	c.Message("fence.Known", wire.Refuses)
	wire.Some(c, 1, &k.Start, (*Start).fields)
	wire.Uint64(c, 3, &k.Position)
	c.String(5, &k.Addr)
}

func (o *own) fields(c *wire.Coder) {
	c.Message("fence.Own", wire.Refuses)
	wire.Some(c, 1, &o.Start, (*Start).fields)
	wire.Uint64(c, 3, &o.Position)
	c.Bool(5, &o.Cleared)
}

// A reason that the reader does not know refuses as any other.
func (a *answer) fields(c *wire.Coder) {
	c.Message("fence.Answer", wire.Skips)
	wire.Uint32(c, 1, &a.By)
	c.String(3, (*string)(&a.Reason))
	wire.Some(c, 5, &a.Known, (*Known).fields)
}

func (a *alive) fields(c *wire.Coder) {
	c.Message("fence.Alive", wire.Skips)
	wire.Uint32(c, 1, &a.Node)
	wire.Some(c, 3, &a.Start, (*Start).fields)
}

func (t *told) fields(c *wire.Coder) {
	c.Message("fence.Told", wire.Skips)
	wire.Uint32(c, 1, &t.Node)
	wire.Some(c, 3, &t.Start, (*Start).fields)
	wire.Uint64(c, 5, &t.Position)
}
