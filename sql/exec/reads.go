package exec

import (
	"context"
	"slices"

	"meridian/keys"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// read is a part of a program that reads an index: the spans of a scan, if they are known when an execution begins, or any key of the index.
type read struct {
	index *indexCodec
	spans []spanSpec // nil: all
	below bool       // with all that is interleaved in the rows of the spans
}

// reads notes that the program reads an index; spans are those of a scan, nil if they depend on rows.
func (b *builder) reads(c *indexCodec, of []opt.IndexSpan, spans []spanSpec) {
	for i := range of {
		of[i].Exprs(func(e scalar.Expr) {
			scalar.Walk(e, func(x scalar.Expr) bool {
				switch x.(type) {
				case *scalar.Column, *scalar.Subquery:
					spans = nil
				}
				return true
			})
			if scalar.VolatilityOf(e) == scalar.Volatile {
				spans = nil
			}
		})
	}
	b.prog.reads = append(b.prog.reads, read{index: c, spans: spans})
}

// maxSpans bounds the spans that Spans returns for one scan; if it has more, one that contains them all takes their place.
const maxSpans = 128

// Spans are the keys that an execution in this context may read, in their order and without overlap: those of its scans as far as they are
// known before the first row is read, and otherwise whole indexes, as for lookups.
func (p *Program) Spans(ctx context.Context, sctx *scalar.Context) []keys.Span {
	r := &run{prog: p, ctx: ctx, sctx: *sctx}
	r.sctx.Context = ctx
	var out []keys.Span
	var vals types.Row
	for _, x := range p.reads {
		var spans []keys.Span
		all := x.spans == nil
		for i := range x.spans {
			var err error
			if spans, err = r.evalSpan(x.index, &x.spans[i], &vals, nil, spans); err != nil {
				all = true // the execution meets the error too, if it gets so far
				break
			}
		}
		if x.below {
			withBelow(spans)
		}
		switch {
		case all:
			out = append(out, x.index.all())
			continue
		case len(spans) > maxSpans:
			spans = mergeSpans(spans)
			spans = []keys.Span{{Start: spans[0].Start, End: slices.MaxFunc(spans, func(a, b keys.Span) int { return a.Stop().Compare(b.Stop()) }).Stop()}}
		}
		out = append(out, spans...)
	}
	if len(out) > 1 {
		out = mergeSpans(out)
	}
	return out
}
