package parse

import (
	"strings"

	"meridian/sql/sqlstate"
)

// DropMissing is DROP of objects of a kind that users can't create: functions, triggers, extensions, ... Clients send it with IF EXISTS before they
// try to create them.
type DropMissing struct {
	// Kind is the kind as messages print it: "function", "text search configuration".
	Kind     string
	IfExists bool
	// Names are the names as they were written, those of functions with the types of their arguments.
	Names []MissingName
	// On is the relation of a trigger, rule or policy.
	On Name
	// Method is the access method of an operator class or an operator family.
	Method string
	// Tag is the command tag.
	Tag string
}

// MissingName names an object; Args are the arguments of a function as text, if HasArgs, the operands of an operator ("none": there is none), and the two types of a cast.
type MissingName struct {
	Name    Name
	Args    []string
	HasArgs bool
}

// missingKinds has the words of DROP for a kind, and its name in messages.
var missingKinds = []struct{ words, kind string }{
	{"function", "function"}, {"procedure", "procedure"}, {"routine", "routine"}, {"aggregate", "aggregate"},
	{"trigger", "trigger"}, {"rule", "rule"}, {"policy", "policy"},
	{"domain", "type"}, {"extension", "extension"}, {"language", "language"}, {"procedural language", "language"}, {"collation", "collation"},
	{"conversion", "conversion"}, {"event trigger", "event trigger"}, {"foreign data wrapper", "foreign-data wrapper"}, {"server", "server"},
	{"foreign table", "foreign table"}, {"publication", "publication"}, {"subscription", "subscription"}, {"statistics", "statistics object"},
	{"text search configuration", "text search configuration"}, {"text search dictionary", "text search dictionary"},
	{"text search parser", "text search parser"}, {"text search template", "text search template"},
	{"access method", "access method"}, {"tablespace", "tablespace"},
}

// dropMissing parses DROP of such a kind; node is nil if the kind is another one.
func (c *cursor) dropMissing() (node any, err error) {
	for _, k := range missingKinds {
		if !c.accept(strings.Fields(k.words)...) {
			continue
		}
		d := &DropMissing{Kind: k.kind, Tag: "DROP " + strings.ToUpper(k.words), IfExists: c.accept("if", "exists")}
		for {
			var n MissingName
			if n.Name, err = c.name(); err != nil {
				return nil, err
			}
			switch k.kind {
			case "function", "procedure", "routine", "aggregate":
				if n.HasArgs = c.acceptPunct("("); n.HasArgs {
					for !c.acceptPunct(")") {
						arg, err := c.until()
						if err != nil {
							return nil, err
						}
						n.Args = append(n.Args, arg)
						c.acceptPunct(",")
					}
				} else if k.kind == "aggregate" {
					return nil, c.unexpected()
				}
			case "trigger", "rule", "policy":
				if err := c.expect("on"); err != nil {
					return nil, err
				}
				if d.On, err = c.name(); err != nil {
					return nil, err
				}
			}
			d.Names = append(d.Names, n)
			if d.On.Name != "" || !c.acceptPunct(",") {
				break
			}
		}
		c.acceptAny("cascade", "restrict")
		return d, nil
	}
	switch {
	case c.accept("operator", "class"), c.accept("operator", "family"):
		d := &DropMissing{Kind: "operator " + strings.ToLower(c.toks[c.i-1].Text(c.src))}
		d.Tag = "DROP " + strings.ToUpper(d.Kind)
		d.IfExists = c.accept("if", "exists")
		n, err := c.name()
		if err != nil {
			return nil, err
		}
		if err := c.expect("using"); err != nil {
			return nil, err
		}
		if d.Method, err = c.ident(); err != nil {
			return nil, err
		}
		d.Names = []MissingName{{Name: n}}
		c.acceptAny("cascade", "restrict")
		return d, nil
	case c.accept("operator"):
		return c.dropOperator()
	case c.accept("cast"):
		return c.dropCast()
	}
	for _, w := range []string{"transform", "user mapping"} {
		if c.accept(strings.Fields(w)...) {
			return nil, c.unsupported("DROP " + strings.ToUpper(w))
		}
	}
	return nil, nil
}

// dropCast parses DROP CAST after these words.
func (c *cursor) dropCast() (any, error) {
	d := &DropMissing{Kind: "cast", Tag: "DROP CAST", IfExists: c.accept("if", "exists")}
	if err := c.expectPunct("("); err != nil {
		return nil, err
	}
	start := c.i
	for !c.done() && !c.is("as") && (c.i == start || !c.isPunct(")")) {
		if c.isPunct("(") { // of numeric(1, 2)
			for !c.done() && !c.isPunct(")") {
				c.i++
			}
		}
		c.i++
	}
	if !c.done() && !c.is("as") {
		return nil, c.unexpected()
	}
	if c.i == start || c.done() {
		return nil, c.unexpected()
	}
	from := c.src[c.toks[start].Pos:c.toks[c.i-1].End]
	c.accept("as")
	to, err := c.until()
	if err != nil {
		return nil, err
	}
	if err := c.expectPunct(")"); err != nil {
		return nil, err
	}
	d.Names = []MissingName{{Args: []string{from, to}}}
	c.acceptAny("cascade", "restrict")
	return d, nil
}

// dropOperator parses DROP OPERATOR after these words.
func (c *cursor) dropOperator() (any, error) {
	d := &DropMissing{Kind: "operator", Tag: "DROP OPERATOR", IfExists: c.accept("if", "exists")}
	for {
		n := MissingName{HasArgs: true}
		for c.i+1 < len(c.toks) && isPunct(c.toks[c.i+1], c.src, ".") {
			schema, err := c.ident()
			if err != nil {
				return nil, err
			}
			n.Name.Schema = schema
			c.acceptPunct(".")
		}
		if c.done() || c.toks[c.i].Kind != Op {
			return nil, c.unexpected()
		}
		n.Name.Name = c.toks[c.i].Text(c.src)
		c.i++
		if err := c.expectPunct("("); err != nil {
			return nil, err
		}
		for {
			arg, err := c.until()
			if err != nil {
				return nil, err
			}
			n.Args = append(n.Args, arg)
			if c.isPunct(")") && len(n.Args) == 1 {
				return nil, sqlstate.New(sqlstate.SyntaxError, "missing argument").
					WithHint("Use NONE to denote the missing argument of a unary operator.").At(CharPos(c.src, int(c.toks[c.i].Pos)))
			}
			if len(n.Args) == 2 {
				break
			}
			if err := c.expectPunct(","); err != nil {
				return nil, err
			}
		}
		if err := c.expectPunct(")"); err != nil {
			return nil, err
		}
		d.Names = append(d.Names, n)
		if !c.acceptPunct(",") {
			c.acceptAny("cascade", "restrict")
			return d, nil
		}
	}
}
