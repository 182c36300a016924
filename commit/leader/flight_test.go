package leader

import (
	"bytes"
	"context"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/lease"
)

// startsReplica is a replica that can start a command. None of these tests' batches gets that far.
type startsReplica struct{ *fakeReplica }

func (r startsReplica) Start(*replica.Command, bool) (*replica.Pending, error) {
	return nil, &kv.InternalError{Message: "a command was started"}
}

// TestStartWaitsForNothing: a batch that has to wait because its range is merged away, or changes its protocol, is not started. If it is sent instead, it waits, and gets an
// answer when that is over.
func TestStartWaitsForNothing(t *testing.T) {
	for name, begin := range map[string]func(f *frozen) (end func()){
		"a merge": func(f *frozen) func() {
			made := f.change(f.own, f.desc, f.desc)
			f.end(made, true)
			f.resolve(made, kv.Committed, f.own)
			f.resolve(made, kv.Committed, f.entry)
			m := f.change(keys.Key("a"), nil, f.absorbed())
			f.takeLease()
			return func() {
				f.end(m, false)
				f.resolve(m, kv.Aborted, f.entry)
				f.resolve(m, kv.Aborted, f.own)
			}
		},
		"a change of protocol, while transactions are decided": func(f *frozen) func() {
			l := &leaving{over: make(chan struct{})}
			f.ps[1].leaving.Store(l)
			return func() { f.ps[1].stay(l) }
		},
		"a change of protocol": func(f *frozen) func() {
			back, err := f.ps[1].Leave(t.Context())
			f.must(nil, err)
			return back
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, stop := newFrozen(t)
				defer stop()
				f.ps[1].Close(nil)
				p := New(f.o, startsReplica{f.reps[1]}, nil)
				p.LeaseChanged(lease.Lease{Sequence: 1, Start: f.clock.Now()}, true)
				f.ps[1] = p
				end := begin(f)
				b := &kv.Batch{Header: kv.Header{Gateway: 1}, Requests: []kv.Request{&kv.PutRequest{Key: keys.Key("n"), Value: []byte("v")}}}
				if flight, ok := p.Start(context.Background(), b, false); ok {
					_, err := flight.Wait(context.Background())
					t.Errorf("it was started: %v", err)
				}
				sent := make(chan error, 1)
				go func() {
					_, err := p.Send(context.Background(), b)
					sent <- err
				}()
				time.Sleep(time.Second)
				select {
				case err := <-sent:
					t.Fatalf("it did not wait: %v", err)
				default:
				}
				end()
				if err := <-sent; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestStays: every error of a type that others can't know stays in the participant: stays names it, and Send does what it asks for. A client would get an internal error otherwise.
func TestStays(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{"stays": "", "Send": ""}
	var types []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if fn.Recv != nil && fn.Name.Name == "Error" {
				typ := fn.Recv.List[0].Type
				if star, ok := typ.(*ast.StarExpr); ok {
					typ = star.X
				}
				types = append(types, typ.(*ast.Ident).Name)
			}
			if _, ok := bodies[fn.Name.Name]; ok {
				var b bytes.Buffer
				if err := format.Node(&b, fset, fn); err != nil {
					t.Fatal(err)
				}
				bodies[fn.Name.Name] += b.String()
			}
		}
	}
	if len(types) < 3 {
		t.Fatalf("found only the types %v", types)
	}
	for _, name := range types {
		for f, body := range bodies {
			if !strings.Contains(body, "*"+name) {
				t.Errorf("%s does not know *%s", f, name)
			}
		}
	}
}
