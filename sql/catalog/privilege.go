package catalog

import (
	"fmt"
	"strings"
)

// Privileges is a set of rights on one object.
type Privileges uint16

// The rights that exist, in the order in which PostgreSQL's access control lists show them.
const (
	Insert Privileges = 1 << iota
	Select
	Update
	Delete
	Truncate
	References
	Trigger
	Execute
	Usage
	Create
	Temporary
	Connect
)

const privilegeLetters = "arwdDxtXUCTc"

var privilegeNames = [...]string{"INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "EXECUTE", "USAGE", "CREATE",
	"TEMPORARY", "CONNECT"}

// PrivilegeNamed finds a right by its name in upper case; TEMP is TEMPORARY. Zero: there is none of that name.
func PrivilegeNamed(name string) Privileges {
	if name == "TEMP" {
		return Temporary
	}
	for i, n := range privilegeNames {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

// Each calls f for every right of the set.
func (p Privileges) Each(f func(Privileges)) {
	for i := range privilegeNames {
		if one := Privileges(1) << i; p&one != 0 {
			f(one)
		}
	}
}

// Name is the name of the set's first right.
func (p Privileges) Name() string {
	for i, n := range privilegeNames {
		if p&(1<<i) != 0 {
			return n
		}
	}
	return ""
}

// String lists the rights by PostgreSQL's letters.
func (p Privileges) String() string { return p.Letters(0) }

// Letters lists the rights by PostgreSQL's letters; those of options carry a star.
func (p Privileges) Letters(options Privileges) string {
	var b strings.Builder
	for i := range privilegeNames {
		if p&(1<<i) != 0 {
			b.WriteByte(privilegeLetters[i])
			if options&(1<<i) != 0 {
				b.WriteByte('*')
			}
		}
	}
	return b.String()
}

// MarshalText implements encoding.TextMarshaler: rights are stored by their letters.
func (p Privileges) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Privileges) UnmarshalText(b []byte) error {
	*p = 0
	for _, c := range b {
		i := strings.IndexByte(privilegeLetters, c)
		if i < 0 {
			return fmt.Errorf("catalog: unknown privilege %q", c)
		}
		*p |= 1 << i
	}
	return nil
}

// Class is what sort of object rights are on.
type Class uint8

const (
	// ClassTable is tables, views and computed relations.
	ClassTable Class = iota
	ClassSequence
	ClassSchema
	ClassDatabase
	ClassFunction
	ClassType
)

// All are the rights that exist on objects of the class.
func (c Class) All() Privileges {
	switch c {
	case ClassTable:
		return Insert | Select | Update | Delete | Truncate | References | Trigger
	case ClassSequence:
		return Usage | Select | Update
	case ClassSchema:
		return Usage | Create
	case ClassDatabase:
		return Create | Temporary | Connect
	case ClassFunction:
		return Execute
	case ClassType:
		return Usage
	}
	return 0
}

// public are the rights that PUBLIC has on a new object of the class.
func (c Class) public() Privileges {
	switch c {
	case ClassDatabase:
		return Temporary | Connect
	case ClassFunction:
		return Execute
	case ClassType:
		return Usage
	}
	return 0
}

// String is the class as messages name it.
func (c Class) String() string {
	return [...]string{"relation", "sequence", "schema", "database", "function", "type"}[c]
}

// Grant gives a role rights on an object.
type Grant struct {
	// Role is the grantee, or PublicRole.
	Role string
	// Grantor granted: the object's owner, or a role with the grant option.
	Grantor    string
	Privileges Privileges
	// Options are those of Privileges that the role may grant to others.
	Options Privileges `json:",omitempty"`
}

// PublicRole stands for every role, as a grantee.
const PublicRole = "public"

// ACL is an object's access control list as stored. It is a descriptor of its own: a change of it replaces no version
// that transactions use, and so waits for none.
type ACL struct {
	Object  ID
	Version uint64
	Dropped bool `json:",omitempty"`
	// Grants are all rights on the object, the owner's own included; Default replaces them.
	Grants  []Grant
	Default bool `json:",omitempty"`
}

// ACLID is the identity of an object's access control list.
func ACLID(object ID) ID { return object | 1<<31 }
