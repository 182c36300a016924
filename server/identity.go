package server

import (
	"encoding/binary"
	"errors"

	"meridian/kv"
	"meridian/storage/engine"
)

// identity is a store's permanent identity (server.SV1).
type identity struct {
	cluster [16]byte
	node    kv.NodeID
	store   kv.StoreID
}

// append and decodeIdentity are its form in a message.
func (id identity) append(b []byte) []byte {
	b = append(b, id.cluster[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(id.node))
	return binary.BigEndian.AppendUint32(b, uint32(id.store))
}

var (
	errIdentity    = errors.New("server: malformed identity")
	errUnversioned = errors.New("the store has an identity and no version: it was written before stores had versions, and this release can't read it; " +
		"start the nodes of a new cluster on empty directories")
)

const identityLen = 16 + 4 + 4

func decodeIdentity(b []byte) (id identity, err error) {
	if len(b) != identityLen {
		return id, errIdentity
	}
	copy(id.cluster[:], b)
	id.node = kv.NodeID(binary.BigEndian.Uint32(b[16:]))
	id.store = kv.StoreID(binary.BigEndian.Uint32(b[20:]))
	if id.node == 0 || id.store == 0 {
		return id, errIdentity
	}
	return id, nil
}

// readIdentity returns nil for a new store.
func readIdentity(e *engine.Engine) (*identity, error) {
	v, err := e.Ident()
	if errors.Is(err, engine.ErrNoIdent) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &identity{cluster: v.Cluster, node: kv.NodeID(v.Node), store: kv.StoreID(v.Store)}, nil
}

func writeIdentity(e *engine.Engine, id identity) error {
	return e.SetIdent(engine.Ident{Cluster: id.cluster, Node: uint32(id.node), Store: uint32(id.store)})
}
