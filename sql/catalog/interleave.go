package catalog

// Interleave says that rows of a table are stored among those of others: each behind the row of the parent table to which it belongs (Spanner §2.3;
// docs/decisions/0015-interleaved-tables.md). Secondary indexes are not interleaved.
type Interleave struct {
	// Ancestors are the tables from the root, which is not interleaved, to the parent.
	Ancestors []Ancestor
	// Foreign is the foreign key by which each row has a parent.
	Foreign uint32
}

// Ancestor is a table among whose rows another's are, as far as the keys of the rows tell of it.
type Ancestor struct {
	Table ID
	// Index is the primary index, and Columns the number of its columns, those of its own ancestors included.
	Index   IndexID
	Columns int
}

// Root is the table in whose primary index the rows are, and the identity of the index: the table itself unless it is interleaved.
func (t *Table) Root() (ID, IndexID) {
	if t.Interleave != nil {
		return t.Interleave.Ancestors[0].Table, t.Interleave.Ancestors[0].Index
	}
	return t.ID, t.Primary().ID
}

// Parent is the table in which the table is interleaved; zero: none.
func (t *Table) Parent() ID {
	if t.Interleave == nil {
		return 0
	}
	return t.Interleave.Ancestors[len(t.Interleave.Ancestors)-1].Table
}

// SharesKeys reports whether there may be rows of other tables in the span of the table's primary index.
func (t *Table) SharesKeys() bool { return t.Interleave != nil || t.Shared }

// InHierarchy reports whether the table is interleaved, or has tables that are interleaved in it.
func (t *Table) InHierarchy() bool { return t.Interleave != nil || len(t.Interleaved) > 0 }

// InterleavedBy reports whether a foreign key is the one by which the table's rows have their parents.
func (t *Table) InterleavedBy(constraint uint32) bool {
	return t.Interleave != nil && t.Interleave.Foreign == constraint
}

// AsAncestors are the ancestors of a table that is interleaved in this one.
func (t *Table) AsAncestors() []Ancestor {
	var out []Ancestor
	if t.Interleave != nil {
		out = append(out, t.Interleave.Ancestors...)
	}
	return append(out, Ancestor{Table: t.ID, Index: t.Primary().ID, Columns: len(t.Primary().Columns)})
}
