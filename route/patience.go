package route

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"meridian/kv"
)

// Patience bounds how long the batches of a client's request try to find a replica that serves them (route.RO5). A batch that exhausts it
// ends with *kv.UnavailableError, and later batches of the same request have a second each, so that a statement of many batches ends soon
// after its first one. Batches of a context without Patience try until the context ends.
type Patience struct {
	most time.Duration
	out  atomic.Bool
}

// spentPatience is the bound after an earlier batch of the request has exhausted its own.
const spentPatience = time.Second

type patienceKey struct{}

// NewPatience makes one for a client.
func NewPatience(most time.Duration) *Patience { return &Patience{most: most} }

// Renew begins another request of the client.
func (p *Patience) Renew() {
	if p.out.Load() {
		p.out.Store(false)
	}
}

// limited is how long a context's batches try.
type limited struct {
	p    *Patience
	most time.Duration
}

// With returns a context that has it. p may be nil.
func (p *Patience) With(ctx context.Context) context.Context {
	if p == nil {
		return ctx
	}
	return context.WithValue(ctx, patienceKey{}, limited{p, p.most})
}

// PatienceOf is the context's, nil if it has none.
func PatienceOf(ctx context.Context) *Patience {
	l, _ := ctx.Value(patienceKey{}).(limited)
	return l.p
}

// patience is how long batches of the context try; zero: no bound.
func patience(ctx context.Context) time.Duration {
	l, _ := ctx.Value(patienceKey{}).(limited)
	if l.p != nil && l.p.out.Load() {
		return min(l.most, spentPatience)
	}
	return l.most
}

// less returns a context with less of it.
func less(ctx context.Context, most time.Duration) context.Context {
	l, _ := ctx.Value(patienceKey{}).(limited)
	l.most = most
	return context.WithValue(ctx, patienceKey{}, l)
}

// outOfPatience is the error of a batch that has exhausted its bound.
func (s *Sender) outOfPatience(ctx context.Context, st *sendState) error {
	s.metrics.OutOfPatience.Add(1)
	if p := PatienceOf(ctx); p != nil {
		p.out.Store(true)
	}
	reason := "none of its replicas serves it"
	if st.last != nil {
		reason = st.last.Error()
	}
	return &kv.UnavailableError{Reason: fmt.Sprintf("for %s: %s", st.unserved.Round(time.Second/10), reason)}
}
