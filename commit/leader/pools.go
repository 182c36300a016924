package leader

import (
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

func (o *Options) reader(src engine.Reader) *mvcc.Reader {
	r, _ := o.readers.Get().(*mvcc.Reader)
	if r == nil {
		r = &mvcc.Reader{}
	}
	r.Reset(src)
	r.Outcomes = &o.finished
	return r
}

func (o *Options) putReader(r *mvcc.Reader) error {
	err := r.Close()
	o.readers.Put(r)
	return err
}

func (o *Options) request(p *Participant, b *kv.Batch) *request {
	q, _ := o.requests.Get().(*request)
	if q == nil {
		q = &request{}
	}
	q.p, q.b, q.txn = p, b, b.Txn
	q.wire()
	return q
}

// putRequest takes a request back, unless an outcome that it waits for is still unknown.
func (o *Options) putRequest(q *request) {
	if q.proposal.unknown {
		return
	}
	*q = request{}
	o.requests.Put(q)
}

func (o *Options) writer(src engine.Reader, b *engine.Batch) *mvcc.Writer {
	w, _ := o.writers.Get().(*mvcc.Writer)
	if w == nil {
		w = &mvcc.Writer{}
	}
	w.Reset(src, b)
	w.Outcomes = &o.finished
	return w
}

func (o *Options) putWriter(w *mvcc.Writer) {
	w.Close() // errors of iterators were seen by the operations
	o.writers.Put(w)
}
