package kv

import (
	"encoding/binary"
	"errors"

	"meridian/clock"
	"meridian/keys"
)

// ErrBadDescriptor is what DecodeRangeDescriptor returns for bytes that Append did not write.
var ErrBadDescriptor = errors.New("kv: malformed range descriptor")

// descriptorKeep marks the byte of the protocol if Keep follows it.
const descriptorKeep = 0x80

// Append adds d's bytes to b. The same form is stored in range descriptor keys and in the range index.
func (d *RangeDescriptor) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(d.ID))
	b = binary.AppendUvarint(b, uint64(len(d.Start)))
	b = append(b, d.Start...)
	b = binary.AppendUvarint(b, uint64(len(d.End)))
	b = append(b, d.End...)
	b = binary.AppendUvarint(b, uint64(d.NextReplica))
	b = binary.AppendUvarint(b, d.Generation)
	if d.Keep.IsZero() {
		b = append(b, byte(d.Protocol))
	} else {
		b = d.Keep.Append(append(b, byte(d.Protocol)|descriptorKeep))
	}
	b = binary.AppendUvarint(b, uint64(len(d.Replicas)))
	for _, r := range d.Replicas {
		b = binary.AppendUvarint(b, uint64(r.Node))
		b = binary.AppendUvarint(b, uint64(r.Store))
		b = binary.AppendUvarint(b, uint64(r.Replica))
		b = append(b, byte(r.Type))
	}
	return b
}

// DecodeRangeDescriptor reads what Append wrote and returns the rest. It copies the keys.
func DecodeRangeDescriptor(b []byte) (d RangeDescriptor, rest []byte, err error) {
	uvarint := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err, b = ErrBadDescriptor, nil
			return 0
		}
		b = b[n:]
		return v
	}
	octet := func() byte {
		if len(b) == 0 {
			err = ErrBadDescriptor
			return 0
		}
		v := b[0]
		b = b[1:]
		return v
	}
	key := func() keys.Key {
		n := uvarint()
		if n > uint64(len(b)) {
			err, b = ErrBadDescriptor, nil
			return nil
		}
		k := append(keys.Key{}, b[:n]...)
		b = b[n:]
		return k
	}
	d.ID = RangeID(uvarint())
	d.Start, d.End = key(), key()
	d.NextReplica = ReplicaID(uvarint())
	d.Generation = uvarint()
	if v := octet(); v&descriptorKeep == 0 {
		d.Protocol = Protocol(v)
	} else {
		d.Protocol = Protocol(v &^ descriptorKeep)
		t, rest, terr := clock.Decode(b)
		if terr != nil || t.IsZero() {
			return RangeDescriptor{}, nil, ErrBadDescriptor
		}
		d.Keep, b = t, rest
	}
	n := uvarint()
	if err == nil && n > uint64(len(b))/4 {
		err = ErrBadDescriptor
	}
	if err != nil || d.Protocol > Epoch {
		return RangeDescriptor{}, nil, ErrBadDescriptor
	}
	d.Replicas = make([]ReplicaDescriptor, n)
	for i := range d.Replicas {
		r := &d.Replicas[i]
		r.Node, r.Store, r.Replica = NodeID(uvarint()), StoreID(uvarint()), ReplicaID(uvarint())
		r.Type = ReplicaType(octet())
		if r.Type > VoterDemoting {
			err = ErrBadDescriptor
		}
	}
	if err != nil {
		return RangeDescriptor{}, nil, err
	}
	return d, b, nil
}
