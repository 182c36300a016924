package kv

import (
	"bytes"

	"meridian/keys"
	"meridian/wire"
)

// Append adds d's fields to b.
func (d *RangeDescriptor) Append(b []byte) []byte {
	return wire.Append(b, d, (*RangeDescriptor).Fields)
}

// DecodeRangeDescriptor reads what Append wrote. The result shares nothing with b.
func DecodeRangeDescriptor(b []byte) (d RangeDescriptor, err error) {
	if err := wire.Decode(bytes.Clone(b), &d, (*RangeDescriptor).stored); err != nil {
		return RangeDescriptor{}, err
	}
	return d, nil
}

func (d *RangeDescriptor) stored(c *wire.Coder) {
	if d.Fields(c); c.Complete() && d.ID == 0 {
		c.Malformed() // an empty value, for one, is no descriptor
	}
}

// StoredAs reports whether b is d as some version wrote it: the order of fields may differ.
func (d *RangeDescriptor) StoredAs(b []byte) bool {
	var o RangeDescriptor
	return wire.Decode(b, &o, (*RangeDescriptor).Fields) == nil && bytes.Equal(o.Append(nil), d.Append(nil))
}

// Fields declares the message. The same form is stored in range descriptor keys and in the range index.
func (d *RangeDescriptor) Fields(c *wire.Coder) {
	c.Message("kv.RangeDescriptor", wire.Skips)
	wire.Uint64(c, 1, &d.ID)
	if !c.Writing() || len(d.Start) > 0 {
		wire.Key(c, 3, &d.Start)
	}
	if !c.Writing() || len(d.End) > 0 {
		wire.Key(c, 5, &d.End)
	}
	wire.List(c, 7, &d.Replicas, (*ReplicaDescriptor).Fields)
	wire.Uint64(c, 9, &d.NextReplica)
	wire.Uint64(c, 11, &d.Generation)
	wire.Enum(c, 13, &d.Protocol, MaxProtocol)
	// A node that ignored it would at most merge two ranges early.
	c.Timestamp(2, &d.Keep)
	c.Unknown(&d.Unknown)
	if c.Complete() { // the ends of the keyspace are empty and never nil
		if d.Start == nil {
			d.Start = keys.Key{}
		}
		if d.End == nil {
			d.End = keys.Key{}
		}
	}
}

// Fields declares the message. All of it must be understood: replicas are rewritten with their descriptor.
func (p *ReplicaDescriptor) Fields(c *wire.Coder) {
	c.Message("kv.ReplicaDescriptor", wire.Refuses)
	wire.Uint32(c, 1, &p.Node)
	wire.Uint32(c, 3, &p.Store)
	wire.Uint64(c, 5, &p.Replica)
	wire.Enum(c, 7, &p.Type, VoterDemoting)
	c.Bool(9, &p.Witness)
}

func (i *RangeInfo) fields(c *wire.Coder) {
	c.Message("kv.RangeInfo", wire.Skips)
	wire.One(c, 1, &i.Desc, (*RangeDescriptor).Fields)
	wire.One(c, 2, &i.Leaseholder, (*ReplicaDescriptor).Fields)
}

// Fields declares the message. A trigger's reader refuses unknown fields: replicas would come apart.
func (t *CommitTrigger) Fields(c *wire.Coder) {
	c.Message("kv.CommitTrigger", wire.Refuses)
	wire.Opt(c, 1, &t.Split, (*SplitTrigger).fields)
	wire.Opt(c, 3, &t.Merge, (*MergeTrigger).fields)
	wire.Opt(c, 5, &t.Replicas, (*ReplicasTrigger).fields)
	wire.Opt(c, 7, &t.Seal, (*SealTrigger).fields)

	if !c.Complete() {
		return
	}
	n := 0
	for _, is := range []bool{t.Split != nil, t.Merge != nil, t.Replicas != nil, t.Seal != nil} {
		if is {
			n++
		}
	}
	if n != 1 {
		c.Malformed()
	}
}

func (t *SplitTrigger) fields(c *wire.Coder) {
	c.Message("kv.SplitTrigger", wire.Refuses)
	wire.One(c, 1, &t.Left, (*RangeDescriptor).Fields)
	wire.One(c, 3, &t.Right, (*RangeDescriptor).Fields)
}

func (t *MergeTrigger) fields(c *wire.Coder) {
	c.Message("kv.MergeTrigger", wire.Refuses)
	wire.One(c, 1, &t.Left, (*RangeDescriptor).Fields)
	wire.One(c, 3, &t.Right, (*RangeDescriptor).Fields)
	c.Timestamp(5, &t.Freeze)
	wire.Uint64(c, 7, &t.Applied)
}

func (t *ReplicasTrigger) fields(c *wire.Coder) {
	c.Message("kv.ReplicasTrigger", wire.Refuses)
	wire.One(c, 1, &t.Desc, (*RangeDescriptor).Fields)
}

func (t *SealTrigger) fields(c *wire.Coder) {
	c.Message("kv.SealTrigger", wire.Refuses)
	wire.Uint64(c, 1, &t.Generation)
	c.Bool(3, &t.Folded)
}
