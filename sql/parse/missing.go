package parse

import "strings"

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
	// Tag is the command tag.
	Tag string
}

// MissingName names an object; Args are the arguments of a function as text, if HasArgs.
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
	for _, w := range []string{"operator class", "operator family", "operator", "cast", "transform", "user mapping"} {
		if c.accept(strings.Fields(w)...) {
			return nil, c.unsupported("DROP " + strings.ToUpper(w))
		}
	}
	return nil, nil
}
