package schemachange

import (
	"fmt"
	"strings"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func (c *change) createSequence(s *bind.CreateSequence) error {
	db, sc, err := c.placeNew(s.Name, s.Temporary)
	if err != nil {
		return err
	}
	if err := c.free(db, sc, s.Name.Name); err != nil {
		if s.IfNotExists && sqlstate.Is(err, sqlstate.DuplicateTable) {
			c.noticef(sqlstate.DuplicateTable, "relation \"%s\" already exists, skipping", s.Name.Name)
			return nil
		}
		return err
	}
	c.hook()
	id, err := c.newID(s.Temporary)
	if err != nil {
		return err
	}
	def := s.Definition
	if s.OwnerTable != nil {
		if err := ownedBy(&def, c.Info.User, sc.ID, s.OwnerTable, s.OwnerColumn); err != nil {
			return err
		}
	}
	c.newSequence(id, db.ID, sc.ID, s.Name.Name, c.Info.User, def, s.Restart)
	return nil
}

func (c *change) alterSequence(s *bind.AlterSequence) error {
	c.notices(s.Notices)
	if s.Table == nil {
		return nil
	}
	if err := c.mustOwn(s.Table.ID); err != nil {
		return err
	}
	c.hook()
	t := c.Catalog.Table(s.Table.ID)
	owner, column := t.Sequence.OwnerTable, t.Sequence.OwnerColumn
	def := s.Definition
	if err := c.stands(t, def, s.Restart); err != nil {
		return err
	}
	if s.Late != nil {
		return s.Late
	}
	if s.OwnerTable != nil {
		if err := ownedBy(&def, t.Owner, t.Schema, s.OwnerTable, s.OwnerColumn); err != nil {
			return err
		}
	}
	if s.OwnerNone || s.OwnerTable != nil {
		if of := c.current(owner); of != nil {
			if col := of.Column(column); col != nil && col.Identity != 0 {
				return sqlstate.New(sqlstate.FeatureNotSupported, "cannot change ownership of identity sequence").
					WithDetail("Sequence \"%s\" is linked to table \"%s\".", t.Name, of.Name)
			}
		}
	}
	if s.OwnerNone {
		def.OwnerTable, def.OwnerColumn = 0, 0
	}
	if def.OwnerTable != owner || def.OwnerColumn != column {
		c.disown(t)
	}
	return c.redefine(t, def, s.Restart)
}

// stands refuses a definition whose bounds exclude the sequence's present value, or the one at which it restarts.
func (c *change) stands(t *catalog.Table, def catalog.Sequence, restart *int64) error {
	if restart != nil {
		return bind.CheckRestart(&def, *restart)
	}
	last, _, err := c.o.Sequences.LastFor(c.ctx, c.Catalog.Local(), t)
	if err != nil {
		return err
	}
	return bind.CheckRestart(&def, last)
}

// redefine gives a sequence another definition. It keeps its value, unless it restarts; a restart, and another increment while
// the first number was not taken, begin a new counter (catalog.Sequence.Counter), so that they are undone with the transaction.
func (c *change) redefine(t *catalog.Table, def catalog.Sequence, restart *int64) error {
	last, called, err := c.o.Sequences.LastFor(c.ctx, c.Catalog.Local(), t)
	if err != nil {
		return err
	}
	at := last
	if restart != nil {
		at = *restart
	}
	if err := bind.CheckRestart(&def, at); err != nil {
		return err
	}
	if restart != nil || !called && def.Increment != t.Sequence.Increment {
		if err := c.restart(&def, at, t.Temporary()); err != nil {
			return err
		}
	}
	t.Sequence = &def
	return nil
}

// restart makes a definition begin with a number, on a counter of its own.
func (c *change) restart(def *catalog.Sequence, first int64, temporary bool) (err error) {
	def.Base = first - def.Increment
	def.Counter, err = c.newID(temporary)
	return err
}

func (c *change) addIdentity(t *catalog.Table, a *bind.AddIdentity) error {
	col := t.ColumnByName(a.Column)
	refuse := func(format string, args ...any) error {
		return sqlstate.New(sqlstate.ObjectNotInPrerequisite, format, args...)
	}
	switch {
	case !col.NotNull:
		return refuse("column \"%s\" of relation \"%s\" must be declared NOT NULL before identity can be added", col.Name, t.Name)
	case col.Identity != 0:
		return refuse("column \"%s\" of relation \"%s\" is already an identity column", col.Name, t.Name)
	case col.Default != "":
		return refuse("column \"%s\" of relation \"%s\" already has a default value", col.Name, t.Name)
	}
	col.Identity = a.Identity
	return c.ownSequence(t, col, a.Sequence)
}

func (c *change) alterIdentity(t *catalog.Table, a *bind.AlterIdentity) error {
	col := t.ColumnByName(a.Column)
	if col.Identity == 0 {
		return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "column \"%s\" of relation \"%s\" is not an identity column", col.Name, t.Name)
	}
	if a.Identity != 0 {
		col.Identity = a.Identity
	}
	if a.Sequence == nil {
		return nil
	}
	seq := c.Catalog.Table(a.Sequence.Table.ID)
	if err := c.stands(seq, a.Sequence.Definition, a.Sequence.Restart); err != nil {
		return err
	}
	if a.Sequence.Late != nil {
		return a.Sequence.Late
	}
	return c.redefine(seq, a.Sequence.Definition, a.Sequence.Restart)
}

// ownedBy links a sequence to a column. Its owner and schema have to be the table's: the sequence is dropped, given to another
// owner and restarted with the table.
func ownedBy(def *catalog.Sequence, owner string, schema catalog.ID, t *catalog.Table, column string) error {
	switch {
	case t.Kind != catalog.KindTable && t.Kind != catalog.KindView:
		return sqlstate.New(sqlstate.WrongObjectType, "sequence cannot be owned by relation \"%s\"", t.Name).
			WithDetail("This operation is not supported for %ss.", strings.ToLower(kindTag(t.Kind)))
	case t.Owner != owner:
		return sqlstate.New(sqlstate.NotInPrerequisiteState, "sequence must have same owner as table it is linked to")
	case t.Schema != schema:
		return sqlstate.New(sqlstate.NotInPrerequisiteState, "sequence must be in same schema as table it is linked to")
	}
	col := t.ColumnByName(column)
	if col == nil {
		return sqlstate.New(sqlstate.UndefinedColumn, "column \"%s\" of relation \"%s\" does not exist", column, t.Name)
	}
	def.OwnerTable, def.OwnerColumn = t.ID, col.ID
	return nil
}

// ownSequence makes the sequence of a serial or identity column. The default names it by number: it may be renamed.
func (c *change) ownSequence(t *catalog.Table, col *catalog.Column, s *bind.CreateSequence) error {
	id, err := c.newID(t.Temporary())
	if err != nil {
		return err
	}
	def := s.Definition
	def.OwnerTable, def.OwnerColumn = t.ID, col.ID
	c.newSequence(id, t.Database, t.Schema, s.Name.Name, t.Owner, def, s.Restart)
	col.OwnsSequence = id
	col.Default = fmt.Sprintf("nextval('%d'::regclass)", id)
	return nil
}

func (c *change) newSequence(id, database, schema catalog.ID, name, owner string, def catalog.Sequence, restart *int64) {
	def.Base = def.Start - def.Increment
	if restart != nil {
		def.Base = *restart - def.Increment
	}
	c.Catalog.New(lease.Descriptor{Table: &catalog.Table{ID: id, Name: name, Database: database, Schema: schema, Kind: catalog.KindSequence,
		Owner: owner, Sequence: &def, Columns: []catalog.Column{
			{ID: 1, Name: "last_value", Type: types.Int8, NotNull: true},
			{ID: 2, Name: "log_cnt", Type: types.Int8, NotNull: true},
			{ID: 3, Name: "is_called", Type: types.Bool, NotNull: true},
		}, NextColumn: 4}})
}

// requiredByIdentity refuses to drop the sequence of an identity column that stays.
func (c *change) requiredByIdentity(seq *catalog.Table, going map[catalog.ID]bool) error {
	if seq.Kind != catalog.KindSequence || going[seq.Sequence.OwnerTable] {
		return nil
	}
	t := c.current(seq.Sequence.OwnerTable)
	if t == nil {
		return nil
	}
	col := t.Column(seq.Sequence.OwnerColumn)
	if col == nil || col.Identity == 0 {
		return nil
	}
	on := "column " + col.Name + " of table " + quoteIdent(t.Name)
	return sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop sequence %s because %s requires it", quoteIdent(seq.Name), on).
		WithHint("You can drop %s instead.", on)
}

// defaultsOf lists the defaults that take numbers from a sequence.
func (c *change) defaultsOf(seq *catalog.Table, going map[catalog.ID]bool, out *[]dependent) {
	all, err := c.view.Tables(c.ctx, c.databaseName(seq.Database))
	if err != nil {
		return
	}
	text := fmt.Sprintf("'%d'::regclass", seq.ID)
	for _, u := range all {
		if going[u.ID] {
			continue
		}
		for i := range u.Columns {
			col := &u.Columns[i]
			if col.State == catalog.Public && strings.Contains(col.OnUpdate, text) {
				*out = append(*out, dependent{"ON UPDATE expression of column " + col.Name + " of table " + c.name(u), "sequence " + c.name(seq), func() error {
					if mc := c.Catalog.Table(u.ID).Column(col.ID); mc != nil {
						mc.OnUpdate = ""
					}
					return nil
				}})
			}
			if col.State != catalog.Public || !strings.Contains(col.Default, text) {
				continue
			}
			*out = append(*out, dependent{"default value for column " + col.Name + " of table " + c.name(u), "sequence " + c.name(seq), func() error {
				m := c.Catalog.Table(u.ID)
				if mc := m.Column(col.ID); mc != nil {
					mc.Default, mc.OwnsSequence = "", 0
				}
				return nil
			}})
		}
	}
}

// disown makes a column forget a sequence that is dropped, or has another owner.
func (c *change) disown(seq *catalog.Table) {
	if seq.Kind != catalog.KindSequence || seq.Sequence.OwnerTable == 0 {
		return
	}
	of := c.current(seq.Sequence.OwnerTable)
	if of == nil {
		return
	}
	if col := of.Column(seq.Sequence.OwnerColumn); col == nil || col.OwnsSequence != seq.ID {
		return
	}
	if t := c.Catalog.Table(of.ID); t != nil {
		t.Column(seq.Sequence.OwnerColumn).OwnsSequence = 0
	}
}
