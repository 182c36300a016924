package kv

import (
	"bytes"

	"meridian/keys"
	"meridian/wire"
)

// Append adds d's fields to b. The same form is stored in range descriptor keys and in the range index, and is a field of messages.
func (d *RangeDescriptor) Append(b []byte) []byte {
	b = wire.Uint(b, 1, uint64(d.ID))
	if len(d.Start) > 0 {
		b = wire.Bytes(b, 3, d.Start)
	}
	if len(d.End) > 0 {
		b = wire.Bytes(b, 5, d.End)
	}
	for i := range d.Replicas {
		b = replicaField(b, 7, &d.Replicas[i])
	}
	b = wire.Uint(b, 9, uint64(d.NextReplica))
	b = wire.Uint(b, 11, d.Generation)
	b = wire.Uint(b, 13, uint64(d.Protocol))
	// A node that ignored it would at most merge two ranges early.
	b = wire.Timestamp(b, 2, d.Keep)
	return d.Unknown.Append(b)
}

// ReadDescriptor reads a descriptor that is a field of a message. The result shares the message's memory.
func ReadDescriptor(r *wire.Reader, d *RangeDescriptor) {
	d.Start, d.End = keys.Key{}, keys.Key{}
	for m := r.Open("kv.RangeDescriptor"); r.Next(&m); {
		switch r.Field() {
		case 1:
			d.ID = RangeID(r.Uint())
		case 2:
			d.Keep = r.Timestamp()
		case 3:
			d.Start = r.Bytes()
		case 5:
			d.End = r.Bytes()
		case 7:
			ReadReplica(r, wire.Grow(r, &d.Replicas))
		case 9:
			d.NextReplica = ReplicaID(r.Uint())
		case 11:
			d.Generation = r.Uint()
		case 13:
			d.Protocol = readProtocol(r)
		default:
			r.Keep(&d.Unknown)
		}
	}
}

// DecodeRangeDescriptor reads what Append wrote. The result shares nothing with b.
func DecodeRangeDescriptor(b []byte) (d RangeDescriptor, err error) {
	r := wire.Read(bytes.Clone(b))
	ReadDescriptor(&r, &d)
	if d.ID == 0 && r.Err() == nil {
		r.Malformed() // an empty value, for one, is no descriptor
	}
	if r.Err() != nil {
		return RangeDescriptor{}, r.Err()
	}
	return d, nil
}

// StoredAs reports whether b is d as some version wrote it: the order of fields may differ.
func (d *RangeDescriptor) StoredAs(b []byte) bool {
	r := wire.Read(b)
	var o RangeDescriptor
	ReadDescriptor(&r, &o)
	return r.Err() == nil && bytes.Equal(o.Append(nil), d.Append(nil))
}

func descriptorField(b []byte, field uint32, d *RangeDescriptor) []byte {
	b, at := wire.Begin(b, field)
	return wire.End(d.Append(b), at)
}

func optDescriptorField(b []byte, field uint32, d *RangeDescriptor) []byte {
	if d == nil {
		return b
	}
	return descriptorField(b, field, d)
}

func replicaField(b []byte, field uint32, p *ReplicaDescriptor) []byte {
	b, at := wire.Begin(b, field)
	return wire.End(p.Append(b), at)
}

// Append adds p's fields to b.
func (p *ReplicaDescriptor) Append(b []byte) []byte {
	b = wire.Uint(b, 1, uint64(p.Node))
	b = wire.Uint(b, 3, uint64(p.Store))
	b = wire.Uint(b, 5, uint64(p.Replica))
	b = wire.Uint(b, 7, uint64(p.Type))
	return wire.Bool(b, 9, p.Witness)
}

// ReadReplica reads what Append wrote. All of it must be understood: replicas are rewritten with their descriptor.
func ReadReplica(r *wire.Reader, p *ReplicaDescriptor) {
	for m := r.Open("kv.ReplicaDescriptor"); r.Next(&m); {
		switch r.Field() {
		case 1:
			p.Node = NodeID(r.Uint32())
		case 3:
			p.Store = StoreID(r.Uint32())
		case 5:
			p.Replica = ReplicaID(r.Uint())
		case 7:
			p.Type = ReplicaType(r.Enum(uint8(VoterDemoting)))
		case 9:
			p.Witness = r.Bool()
		default:
			r.Refuse()
		}
	}
}

func appendRangeInfo(b []byte, i *RangeInfo) []byte {
	return replicaField(descriptorField(b, 1, &i.Desc), 2, &i.Leaseholder)
}

func readRangeInfo(r *wire.Reader, i *RangeInfo) {
	for m := r.Open("kv.RangeInfo"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadDescriptor(r, &i.Desc)
		case 2:
			ReadReplica(r, &i.Leaseholder)
		default:
			r.Skip()
		}
	}
}

func rangeInfoFields(b []byte, field uint32, l []RangeInfo) []byte {
	for i := range l {
		var at int
		b, at = wire.Begin(b, field)
		b = wire.End(appendRangeInfo(b, &l[i]), at)
	}
	return b
}

// AppendTrigger adds the fields of a trigger.
func AppendTrigger(b []byte, t *CommitTrigger) []byte {
	switch {
	case t.Split != nil:
		b, at := wire.Begin(b, 1)
		return wire.End(appendSplitTrigger(b, t.Split), at)
	case t.Merge != nil:
		b, at := wire.Begin(b, 3)
		return wire.End(appendMergeTrigger(b, t.Merge), at)
	case t.Replicas != nil:
		b, at := wire.Begin(b, 5)
		return wire.End(appendReplicasTrigger(b, t.Replicas), at)
	case t.Seal != nil:
		b, at := wire.Begin(b, 7)
		return wire.End(appendSealTrigger(b, t.Seal), at)
	}
	return b
}

// ReadTrigger reads what AppendTrigger wrote. A trigger's reader refuses unknown fields: replicas would come apart.
func ReadTrigger(r *wire.Reader, t *CommitTrigger) {
	for m := r.Open("kv.CommitTrigger"); r.Next(&m); {
		switch r.Field() {
		case 1:
			t.Split = &SplitTrigger{}
			readSplitTrigger(r, t.Split)
		case 3:
			t.Merge = &MergeTrigger{}
			readMergeTrigger(r, t.Merge)
		case 5:
			t.Replicas = &ReplicasTrigger{}
			readReplicasTrigger(r, t.Replicas)
		case 7:
			t.Seal = &SealTrigger{}
			readSealTrigger(r, t.Seal)
		default:
			r.Refuse()
		}
	}
	n := 0
	for _, is := range []bool{t.Split != nil, t.Merge != nil, t.Replicas != nil, t.Seal != nil} {
		if is {
			n++
		}
	}
	if n != 1 {
		r.Malformed()
	}
}

func appendSplitTrigger(b []byte, t *SplitTrigger) []byte {
	return descriptorField(descriptorField(b, 1, &t.Left), 3, &t.Right)
}

func readSplitTrigger(r *wire.Reader, t *SplitTrigger) {
	for m := r.Open("kv.SplitTrigger"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadDescriptor(r, &t.Left)
		case 3:
			ReadDescriptor(r, &t.Right)
		default:
			r.Refuse()
		}
	}
}

func appendMergeTrigger(b []byte, t *MergeTrigger) []byte {
	b = descriptorField(descriptorField(b, 1, &t.Left), 3, &t.Right)
	return wire.Uint(wire.Timestamp(b, 5, t.Freeze), 7, t.Applied)
}

func readMergeTrigger(r *wire.Reader, t *MergeTrigger) {
	for m := r.Open("kv.MergeTrigger"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadDescriptor(r, &t.Left)
		case 3:
			ReadDescriptor(r, &t.Right)
		case 5:
			t.Freeze = r.Timestamp()
		case 7:
			t.Applied = r.Uint()
		default:
			r.Refuse()
		}
	}
}

func appendReplicasTrigger(b []byte, t *ReplicasTrigger) []byte {
	return descriptorField(b, 1, &t.Desc)
}

func readReplicasTrigger(r *wire.Reader, t *ReplicasTrigger) {
	for m := r.Open("kv.ReplicasTrigger"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadDescriptor(r, &t.Desc)
		default:
			r.Refuse()
		}
	}
}

func appendSealTrigger(b []byte, t *SealTrigger) []byte {
	return wire.Bool(wire.Uint(b, 1, t.Generation), 3, t.Folded)
}

func readSealTrigger(r *wire.Reader, t *SealTrigger) {
	for m := r.Open("kv.SealTrigger"); r.Next(&m); {
		switch r.Field() {
		case 1:
			t.Generation = r.Uint()
		case 3:
			t.Folded = r.Bool()
		default:
			r.Refuse()
		}
	}
}
