package engine

import (
	"meridian/encoding"
	"meridian/keys"
)

// Ident says whose store this is.
type Ident struct {
	Cluster [16]byte
	Node    uint32
	Store   uint32
}

// Ident reads the store's identity; ErrNoIdent if it has none yet.
func (e *Engine) Ident() (Ident, error) {
	v, err := e.Get(keys.StoreIdentKey())
	if err != nil {
		return Ident{}, err
	}
	if v == nil {
		return Ident{}, ErrNoIdent
	}
	var id Ident
	if len(v) != 24 {
		return Ident{}, &OpenError{Dir: e.dir, Err: encoding.ErrMalformed}
	}
	rest := v[copy(id.Cluster[:], v):]
	id.Node, rest, _ = encoding.DecodeUint32Fixed(rest)
	id.Store, _, _ = encoding.DecodeUint32Fixed(rest)
	return id, nil
}

// SetIdent gives the store its identity, durably. A store keeps its identity for life.
func (e *Engine) SetIdent(id Ident) error {
	found, err := e.Ident()
	switch {
	case err == nil && found != id:
		return &IdentError{Dir: e.dir, Found: found, Want: id}
	case err == nil:
		return nil
	case err != ErrNoIdent:
		return err
	}
	b := e.NewBatch()
	defer b.Close()
	v := encoding.AppendUint32Fixed(append([]byte(nil), id.Cluster[:]...), id.Node)
	b.Put(keys.StoreIdentKey(), encoding.AppendUint32Fixed(v, id.Store))
	b.Put(keys.StoreMarkedKey(), []byte{1})
	if err := b.Commit(true); err != nil {
		return err
	}
	if err := e.mark(true, func(m *marked) { m.Ident = id; e.progress(m) }); err != nil {
		return &OpenError{Dir: e.dir, Err: err}
	}
	return nil
}

// CheckIdent compares the store's identity with what the node expects; zero fields are not compared.
func (e *Engine) CheckIdent(want Ident) error {
	found, err := e.Ident()
	if err != nil {
		return err
	}
	w := want
	if w.Cluster == ([16]byte{}) {
		w.Cluster = found.Cluster
	}
	if w.Node == 0 {
		w.Node = found.Node
	}
	if w.Store == 0 {
		w.Store = found.Store
	}
	if w != found {
		return &IdentError{Dir: e.dir, Found: found, Want: w}
	}
	return nil
}
