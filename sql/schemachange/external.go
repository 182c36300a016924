package schemachange

import (
	"context"

	"meridian/setting"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/version"
)

// External consistency is declared for a database, and is a property of each of its tables: so a transaction learns of it with the table, wherever its session is connected, and at most two
// versions of it are in use (I7). ALTER DATABASE returns when no transaction uses the earlier one, and the timestamps of those that did, which have not waited, are certainly in the past.

// setExternal gives the tables of a database whose setting has changed the property.
func (c *change) setExternal(db *catalog.Database) error {
	on := db.External()
	if on {
		if err := c.mayBeExternal(); err != nil {
			return err
		}
		clk := c.o.Clock
		c.Catalog.AfterCommit(func(ctx context.Context) error { return clk.AwaitAfter(ctx, clk.Read().Latest) })
	}
	return c.Catalog.EachRelation(db.ID, func(t *catalog.Table) error {
		if t.Kind != catalog.KindTable || t.Temporary() || t.External == on {
			return nil
		}
		if on && !t.Traits().Leased {
			return c.notExternal(t, db)
		}
		c.Catalog.Table(t.ID).External = on
		return nil
	})
}

// inheritExternal gives a new table the property of its database; fitsProtocol has refused a protocol that excludes it.
func inheritExternal(t *catalog.Table, db *catalog.Database) {
	t.External = db.External() && t.Kind == catalog.KindTable && !t.Temporary()
}

func (c *change) notExternal(t *catalog.Table, db *catalog.Database) error {
	return excluded(t, "external consistency").
		WithDetail("Its transactions are ordered by no clock.").
		WithHint("Leave out %s, or make the table in a database without it: ALTER DATABASE %s SET %s = off.", catalog.ProtocolOption, quoteIdent(db.Name), catalog.ExternalConsistency)
}

func (c *change) mayBeExternal() error {
	if c.o.Leases.Active(version.ExternalConsistency) {
		return nil
	}
	return sqlstate.New(sqlstate.FeatureNotSupported, "there is no external consistency before the upgrade of the cluster is finalized").
		WithHint("Finalize it by meridian upgrade finalize, when all nodes have the later binary.")
}

// externalDefault gives a new database the setting that the cluster has for new ones.
func (c *change) externalDefault(db *catalog.Database) {
	if c.o.Settings != nil && c.o.Settings.Bool(setting.ExternalConsistency) && c.mayBeExternal() == nil {
		on := "on"
		db.Settings = catalog.WithSetting(db.Settings, 0, catalog.ExternalConsistency, &on)
	}
}
