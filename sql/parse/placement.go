package parse

// PlacementOption is CREATE, ALTER and DROP PLACEMENT: an option of the placement menu.
type PlacementOption struct {
	Verb string // CREATE, ALTER, DROP
	Name string
	// Unless is IF NOT EXISTS of CREATE and IF EXISTS of the others.
	Unless bool
	// Options are the variables and their values; of ALTER, an empty Value with Default is DEFAULT.
	Options []PlacementVariable
}

// PlacementVariable is name = value.
type PlacementVariable struct {
	Name, Value string
	Default     bool
}

// SetPlacement is SET PLACEMENT and RESET PLACEMENT of ALTER DATABASE and ALTER TABLE.
type SetPlacement struct {
	// Database is the name of a database; empty: the object is Table, or one of its directories.
	Database string
	Table    Name
	IfExists bool
	// Placement is the option of the menu; Reset takes it away.
	Placement string
	Reset     bool
	// Values are the texts of the expressions of FOR VALUES; HasValues says that there are some.
	Values    []string
	HasValues bool
}

// placementOption parses a statement after the words {CREATE | ALTER | DROP} PLACEMENT.
func (c *cursor) placementOption(verb string) (any, error) {
	p := &PlacementOption{Verb: verb}
	if verb == "CREATE" {
		p.Unless = c.accept("if", "not", "exists")
	} else {
		p.Unless = c.accept("if", "exists")
	}
	var err error
	if p.Name, err = c.placementName(); err != nil || verb == "DROP" {
		return p, err
	}
	if !c.accept("with") || !c.acceptPunct("(") {
		return nil, c.unexpected()
	}
	for {
		v := PlacementVariable{}
		if v.Name, err = c.dotted(); err != nil {
			return nil, err
		}
		if !c.acceptOp("=") {
			return nil, c.unexpected()
		}
		if v.Default = c.accept("default"); !v.Default {
			minus := c.acceptOp("-")
			if v.Value, err = c.word(); err != nil {
				return nil, err
			}
			if minus {
				v.Value = "-" + v.Value
			}
		}
		p.Options = append(p.Options, v)
		if !c.acceptPunct(",") {
			return p, c.expectPunct(")")
		}
	}
}

// placementName is a string, or a name.
func (c *cursor) placementName() (string, error) {
	if c.peek(0).Kind == String {
		return c.str()
	}
	return c.ident()
}

// setPlacement parses {SET PLACEMENT name | RESET PLACEMENT}; nil if the statement is another one.
func (c *cursor) setPlacement() (*SetPlacement, error) {
	switch {
	case c.accept("set", "placement"):
		s := &SetPlacement{}
		c.acceptOp("=")
		var err error
		s.Placement, err = c.placementName()
		return s, err
	case c.accept("reset", "placement"):
		return &SetPlacement{Reset: true}, nil
	}
	return nil, nil
}

// alterTablePlacement parses ALTER TABLE t {SET PLACEMENT name | RESET PLACEMENT} [FOR VALUES (...)] after its first two words; node is nil if the statement is another one.
func (c *cursor) alterTablePlacement() (node any, err error) {
	start := c.i
	exists := c.accept("if", "exists")
	c.accept("only")
	name, err := c.name()
	if err != nil {
		c.i = start
		return nil, nil
	}
	s, err := c.setPlacement()
	if s == nil || err != nil {
		c.i = start
		return nil, err
	}
	s.Table, s.IfExists = name, exists
	if !c.accept("for", "values") {
		return s, nil
	}
	if err := c.expectPunct("("); err != nil {
		return nil, err
	}
	s.HasValues = true
	for {
		text, err := c.until()
		if err != nil {
			return nil, err
		}
		if text == "" {
			return nil, c.unexpected()
		}
		s.Values = append(s.Values, text)
		if !c.acceptPunct(",") {
			return s, c.expectPunct(")")
		}
	}
}
