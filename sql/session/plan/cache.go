package plan

import (
	"container/list"
	"context"
	"strings"
	"sync"

	"meridian/sql/session/result"

	"meridian/sql/bind"
	"meridian/sql/exec"
	"meridian/sql/memory"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/types"
)

// Plan is a statement made ready to run: immutable, shared between sessions, good for as long as the descriptors
// that it was made from keep their versions (session.S3), and the roles and grants by which it was allowed (session.S5).
type Plan struct {
	Stmt    *parse.Statement
	Bound   bind.Statement
	Query   *bind.Query // nil for commands
	Program *exec.Program
	Columns []result.Column // nil: no rows come back
	Params  []*types.T
	Depends []opt.Dependency
	// Fails is the error of a constant part. Such a plan has no program; it tells the types of a prepared statement, which can't be bound.
	Fails error
	// Role is the role that it was made for, and Access the generation of roles and grants; zero: it was made in a transaction that changes the
	// catalogue.
	Role   string
	Access uint64
	// Plain, Home and Off are Key's.
	Plain, Home bool
	Off         opt.Rules
	// Bytes is roughly its memory, besides its text.
	Bytes int64
	// Local is the generation of the session's temporary relations among which its names were looked up; zero: there were none.
	Local uint64
	// Places are the rows whose distances it was made by.
	Places []Placed
	// Private plans depend on something besides descriptors, and are not shared.
	Private bool
}

// Placed is a place, and the round trip to its leaseholders, in microseconds, when the plan was made.
type Placed struct {
	opt.Place
	Leaseholder float64
}

// Key has everything that binding depends on besides descriptors.
type Key struct {
	Text, Database, User, Path, Params string
	// Plain plans do not look for rows in the gateway's region first.
	Plain bool
	// Home plans stay in the gateway's region if they can.
	Home bool
	// Off are the rules without which it was made.
	Off opt.Rules
}

// Cache keeps the plans that were used last, by text. A plan whose descriptors have changed is still found; its user checks them, and makes it
// anew.
type Cache struct {
	mu    sync.Mutex // guards the fields below; nothing is taken after it
	limit int
	bytes int64 // of all plans, at most cacheBytes
	byKey map[Key]*list.Element
	order list.List // of *planEntry, most recently used first
}

type entry struct {
	key  Key
	plan *Plan
}

// NewCache makes a cache of at most limit plans.
func NewCache(limit int) *Cache {
	return &Cache{limit: limit, byKey: map[Key]*list.Element{}}
}

// Get finds a plan; nil if there is none.
func (c *Cache) Get(k Key) *Plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[k]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry).plan
}

// Put keeps a plan, in place of an earlier one with the same key.
func (c *Cache) Put(k Key, p *Plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += p.SharedBytes()
	if e := c.byKey[k]; e != nil {
		c.bytes -= e.Value.(*entry).plan.SharedBytes()
		e.Value.(*entry).plan = p
		c.order.MoveToFront(e)
	} else {
		c.byKey[k] = c.order.PushFront(&entry{k, p})
	}
	for c.order.Len() > c.limit || c.bytes > cacheBytes {
		last := c.order.Back()
		old := last.Value.(*entry)
		c.bytes -= old.plan.SharedBytes()
		delete(c.byKey, old.key)
		c.order.Remove(last)
	}
}

// SharedBytesMax bounds the memory of a shared plan, and cacheBytes that of all plans of a node together. Plans of ordinary
// statements have some kilobytes. Both are chosen by us: a plan of more than SharedBytesMax takes longer to run than to make.
const (
	SharedBytesMax = 256 << 10
	cacheBytes     = 64 << 20
)

// SharedBytes is the memory that the plan would keep alive in the cache, with the whole text of which its statement is a part.
func (p *Plan) SharedBytes() int64 {
	return p.Bytes + int64(len(p.Stmt.Source)) + p.Stmt.Bytes
}

// TypeKey encodes the types that the client has given for parameters, for Key.Params.
func TypeKey(params []*types.T) string {
	if len(params) == 0 {
		return ""
	}
	var b strings.Builder
	for _, t := range params {
		if t != nil {
			b.WriteString(t.Reference())
		}
		b.WriteByte(',')
	}
	return b.String()
}

// Room accounts for a plan's memory while it is made: it fails beyond the statement's memory (memory.ME1), and when the statement was
// cancelled.
type Room struct {
	ctx     context.Context
	account *memory.Account
	Bytes   int64
}

// NewRoom makes a Room that reserves memory in an account, until the context ends.
func NewRoom(ctx context.Context, account *memory.Account) *Room {
	return &Room{ctx: ctx, account: account}
}

// Take reserves more bytes.
func (r *Room) Take(bytes int64) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	r.Bytes += bytes
	return r.account.Grow(bytes)
}

// Columns lists a query's result columns; nil if it returns no rows.
func Columns(q *bind.Query) []result.Column {
	if len(q.Output) == 0 && q.Tag != "SELECT" {
		return nil
	}
	cols := make([]result.Column, len(q.Output))
	for i, o := range q.Output {
		cols[i] = result.Column{Name: o.Name, Type: o.Type}
		m := q.Meta.Column(o.Col)
		if m.Table != nil && m.Column != 0 {
			cols[i].Table = uint32(m.Table.ID)
			cols[i].Attribute = uint16(m.Column)
		}
	}
	return cols
}

// SameColumns reports whether the columns of two plans are the same.
func SameColumns(a, b []result.Column) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		same := a[i].Type.Same(b[i].Type)
		if a[i].Type.IsRow() { // it is the same type when its fields have changed
			same = a[i].Type.OID() == b[i].Type.OID()
		}
		if a[i].Name != b[i].Name || !same {
			return false
		}
	}
	return true
}
