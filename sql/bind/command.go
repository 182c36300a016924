package bind

import (
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/sqlstate"
)

func (b *builder) definition(n tree.Statement) Statement {
	b.fail(sqlstate.FeatureNotSupported, nil, "%s is not supported", n.StatementTag())
	return nil
}

func (b *builder) command(n any) Statement {
	b.fail(sqlstate.FeatureNotSupported, nil, "this statement is not supported")
	return nil
}
