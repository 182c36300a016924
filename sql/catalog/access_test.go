package catalog

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
)

func users(list ...*User) *Access { return NewAccess(NewRoles(list), nil) }

func member(name string, of ...string) *User {
	u := &User{Name: name}
	for _, r := range of {
		u.MemberOf = append(u.MemberOf, Membership{Role: r})
	}
	return u
}

// A role's rights are its own, those that it inherits and those of PUBLIC, and no others.
func TestRights(t *testing.T) {
	quiet := member("quiet", "owner")
	quiet.NoInherit = true
	a := users(&User{Name: "root", Superuser: true}, member("owner"), member("child", "owner"), member("grandchild", "child"), quiet,
		member("below", "quiet"), member("stranger"), member("reader", ReadAllData), member("writer", WriteAllData), member(ReadAllData), member(WriteAllData))
	o := NewObject(Object{Owner: "owner", Class: ClassTable}, nil)
	for role, want := range map[string]string{"root": "arwdDxt arwdDxt", "owner": "arwdDxt arwdDxt", "child": "arwdDxt arwdDxt",
		"grandchild": "arwdDxt arwdDxt", "quiet": " ", "below": " ", "stranger": " ", "reader": "r ", "writer": "awd ", "nobody": " "} {
		has, options := a.Rights(role, &o)
		if got := has.String() + " " + options.String(); got != want {
			t.Errorf("%s: %q, want %q", role, got, want)
		}
	}
	if !a.Member("quiet", "owner", "") || a.Has("quiet", "owner", "") || !a.Member("below", "owner", "") {
		t.Error("NOINHERIT keeps rights, not membership")
	}
	// The owner that revoked its own right may still grant.
	if err := a.Revoke(&o, Grant{Role: "owner", Grantor: "owner", Privileges: Select}, false); err != nil {
		t.Fatal(err)
	}
	if has, options := a.Rights("owner", &o); has&Select != 0 || options&Select == 0 {
		t.Error(has, options)
	}
	if err := a.Grant(&o, Grant{Role: PublicRole, Grantor: "owner", Privileges: Select}); err != nil {
		t.Fatal(err)
	}
	if has, _ := a.Rights("stranger", &o); has != Select {
		t.Error(has)
	}
}

// The owner of the database at hand is the one member of pg_database_owner.
func TestDatabaseOwner(t *testing.T) {
	a := users(member("one"), member("two"), member("inone", "one"), member(DatabaseOwner))
	o := NewObject(Object{Class: ClassSchema, Owner: DatabaseOwner, DatabaseOwner: "one"}, nil)
	for role, want := range map[string]bool{"one": true, "two": false, "inone": true} {
		if has, _ := a.Rights(role, &o); (has&Create != 0) != want || a.Owns(role, &o) != want {
			t.Errorf("%s: %v", role, has)
		}
	}
}

// Rights that a role granted with an option that is revoked are revoked too, or are in the way; but not if another grantor gave the
// option as well.
func TestRevokeCascades(t *testing.T) {
	a := users(member("o"), member("a"), member("b"), member("c"))
	o := NewObject(Object{Owner: "o"}, nil)
	grant := func(from, to string, p, options Privileges) {
		t.Helper()
		if err := a.Grant(&o, Grant{Role: to, Grantor: from, Privileges: p, Options: options}); err != nil {
			t.Fatal(err)
		}
	}
	grant("o", "a", Select, Select)
	grant("a", "b", Select, Select)
	grant("b", "c", Select, 0)
	before := slices.Clone(o.Grants)
	if err := a.Revoke(&o, Grant{Role: "a", Grantor: "o", Privileges: Select}, false); err == nil || err.Error() != "dependent privileges exist" {
		t.Fatal(err)
	}
	o.Grants = before
	if err := a.Grant(&o, Grant{Role: "a", Grantor: "b", Privileges: Select, Options: Select}); err == nil ||
		err.Error() != "grant options cannot be granted back to your own grantor" {
		t.Fatal(err)
	}
	grant("o", "b", Select, Select) // b has it from two grantors
	if err := a.Revoke(&o, Grant{Role: "a", Grantor: "o", Privileges: Select}, true); err != nil {
		t.Fatal(err)
	}
	if has, _ := a.Rights("c", &o); has != Select {
		t.Error("b could still grant")
	}
	if err := a.Revoke(&o, Grant{Role: "b", Grantor: "o", Options: Select}, true); err != nil {
		t.Fatal(err)
	}
	if has, _ := a.Rights("c", &o); has != 0 {
		t.Error("c keeps what nobody could give")
	}
	if has, options := a.Rights("b", &o); has != Select || options != 0 {
		t.Error("b keeps the right without the option", has, options)
	}
}

// After any sequence of grants and revokes every right comes, grant by grant, from the owner. With memberships it need not,
// as in PostgreSQL: a role keeps an option that it has as a member of another.
func TestEveryRightComesFromTheOwner(t *testing.T) {
	names := []string{"o", "a", "b", "c", "d"}
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 7))
		a := users(member("o"), member("a"), member("b"), member("c"), member("d"))
		o := NewObject(Object{Owner: "o"}, nil)
		for range 60 {
			role := names[dice.IntN(len(names))]
			to := names[dice.IntN(len(names))]
			p := Privileges(dice.UintN(8))
			grantor, options := a.Grantor(role, &o, p)
			p &= options
			before := slices.Clone(o.Grants)
			g, err := Grant{Role: to, Grantor: grantor, Privileges: p}, error(nil)
			switch dice.IntN(4) {
			case 0:
				err = a.Grant(&o, g)
			case 1:
				g.Options = p
				err = a.Grant(&o, g)
			case 2:
				err = a.Revoke(&o, g, dice.IntN(2) == 0)
			case 3:
				g.Privileges, g.Options = 0, p
				err = a.Revoke(&o, g, dice.IntN(2) == 0)
			}
			if err != nil {
				o.Grants = before
			}
			// reached[r] may grant, by what is derived from the owner alone.
			reached := map[string]Privileges{"o": o.Class.All()}
			for again := true; again; {
				again = false
				for _, g := range o.Grants {
					if n := reached[g.Role] | g.Options&reached[g.Grantor]; n != reached[g.Role] {
						reached[g.Role], again = n, true
					}
				}
			}
			for _, g := range o.Grants {
				if g.Privileges&^reached[g.Grantor] != 0 || g.Options&^g.Privileges != 0 {
					t.Fatalf("seed %d: %+v of %+v", seed, g, o.Grants)
				}
			}
		}
	}
}

// A list is stored with PostgreSQL's letters.
func TestStoredGrants(t *testing.T) {
	in := ACL{Object: 7, Grants: []Grant{{Role: "r", Grantor: "o", Privileges: Select | Insert | Connect, Options: Insert}}}
	b, err := json.Marshal(&in)
	if err != nil {
		t.Fatal(err)
	}
	var out ACL
	if err := json.Unmarshal(b, &out); err != nil || out.Grants[0] != in.Grants[0] {
		t.Fatal(string(b), err)
	}
	if err := json.Unmarshal([]byte(`{"Grants":[{"Privileges":"z"}]}`), &out); err == nil {
		t.Error("an unknown letter was accepted")
	}
}
