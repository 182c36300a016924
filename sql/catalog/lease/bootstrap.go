package lease

import (
	"context"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/txn"
)

// Identities of what every cluster begins with.
const (
	postgresDatabase  catalog.ID = 5
	defaultdbDatabase catalog.ID = 100
	defaultdbPublic   catalog.ID = 101
	rootUser          catalog.ID = 10
	postgresUser      catalog.ID = 3373
)

// BootstrapOptions are the choices of the first administrator.
type BootstrapOptions struct {
	// RootVerifier and PostgresVerifier are SCRAM verifiers; with an empty one the role can't log in by password.
	RootVerifier, PostgresVerifier string
	// Databases are made besides postgres and defaultdb.
	Databases []string
	// Secret is Settings.Secret.
	Secret []byte
}

// Bootstrap writes the catalogue of a new cluster; it does nothing if there is one.
func Bootstrap(ctx context.Context, db *txn.DB, o BootstrapOptions) error {
	return db.Run(ctx, txn.TxnOptions{Name: "bootstrap"}, func(ctx context.Context, tx *txn.Txn) error {
		v, err := tx.Get(ctx, descriptorKey(rootUser), kv.NoLock, kv.Block)
		if err != nil || v != nil {
			return err
		}
		var b txn.WriteBatch
		put := func(d Descriptor) error {
			*d.version() = 1
			v, err := d.encode()
			if err != nil {
				return err
			}
			b.Put(descriptorKey(d.ID()), v)
			for _, n := range d.names() {
				b.Put(nameRowKey(n), nameValue(d.ID()))
			}
			return nil
		}
		ds := []Descriptor{
			{User: &catalog.User{ID: rootUser, Name: "root", Verifier: o.RootVerifier, Superuser: true, Login: true, CreateDB: true, CreateRole: true}},
			{User: &catalog.User{ID: postgresUser, Name: "postgres", Verifier: o.PostgresVerifier, Superuser: true, Login: true, CreateDB: true, CreateRole: true}},
			{Settings: &Settings{Values: map[string]string{}, Secret: o.Secret}},
		}
		for i, name := range []string{catalog.DatabaseOwner, catalog.ReadAllData, catalog.WriteAllData, catalog.SignalBackend, catalog.ReadAllStats} {
			ds = append(ds, Descriptor{User: &catalog.User{ID: [...]catalog.ID{6171, 6181, 6182, 4200, 3375}[i], Name: name}})
		}
		add := func(id, public catalog.ID, name string) {
			ds = append(ds,
				Descriptor{Database: &catalog.Database{ID: id, Name: name, Owner: "root", Schemas: map[string]catalog.ID{"public": public}}})
			ds = append(ds, PublicSchema(id, public)...)
		}
		add(postgresDatabase, catalog.PublicSchemaID, "postgres")
		add(defaultdbDatabase, defaultdbPublic, "defaultdb")
		for i, name := range o.Databases {
			if name == "postgres" || name == "defaultdb" {
				continue
			}
			id := catalog.ID(102 + 2*i)
			add(id, id+1, name)
		}
		for _, d := range ds {
			if err := put(d); err != nil {
				return err
			}
		}
		return tx.Write(ctx, &b)
	})
}

// PublicSchema is schema public of a new database, with the rights that PostgreSQL gives on it since version 15: every
// role may use it, and only the database's owner may create objects in it.
func PublicSchema(database, id catalog.ID) []Descriptor {
	return []Descriptor{
		{Schema: &catalog.Schema{ID: id, Name: "public", Database: database, Owner: catalog.DatabaseOwner}},
		{ACL: &catalog.ACL{Object: id, Grants: []catalog.Grant{
			{Role: catalog.DatabaseOwner, Grantor: catalog.DatabaseOwner, Privileges: catalog.Usage | catalog.Create},
			{Role: catalog.PublicRole, Grantor: catalog.DatabaseOwner, Privileges: catalog.Usage}}}}}
}
