package meridian_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"meridian/test/reasons"
)

// decoders are calls that take bytes apart, which messages and what is stored leave to package wire.
var decoders = map[string]bool{
	"binary.Uvarint": true, "binary.Varint": true, "binary.ReadUvarint": true, "binary.Read": true, "binary.Uint16": true, "binary.Uint32": true, "binary.Uint64": true,
	"encoding.Uvarint": true, "encoding.Varint": true, "encoding.Sized": true, "clock.Decode": true, "proto.Unmarshal": true,
	"json.Unmarshal": true, "json.NewDecoder": true, "gob.NewDecoder": true,
}

// TestDecoders finds the folders that take bytes apart by themselves. testdata/decoders.txt says why each does: a decoder of messages outside of package wire would have its own idea of what to do with what it does not know (docs/decisions/0010-formats.md).
func TestDecoders(t *testing.T) {
	found := map[string]bool{}
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "wire"+string(filepath.Separator)) {
			return err
		}
		f, err := parser.ParseFile(files, file, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg := ""
			switch x := sel.X.(type) {
			case *ast.Ident:
				pkg = x.Name
			case *ast.SelectorExpr: // binary.BigEndian.Uint64
				if in, ok := x.X.(*ast.Ident); ok && in.Name == "binary" {
					pkg = in.Name
				}
			}
			if call := pkg + "." + sel.Sel.Name; decoders[call] {
				found[path.Dir(filepath.ToSlash(file))+" "+pkg] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	reasons.Check(t, "testdata/decoders.txt", found, "takes bytes apart")
}
