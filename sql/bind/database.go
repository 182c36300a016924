package bind

import (
	"strings"

	"meridian/sql/catalog"
	"meridian/sql/charset"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

// UnchangedTemplate refuses a change of a template database, which is no stored object, or of what it has.
func UnchangedTemplate(name string) error {
	return sqlstate.New(sqlstate.FeatureNotSupported, "changes of template database \"%s\" are not supported", name).
		WithHint("A new database is empty whatever its template is. Connect to another database, or make one by CREATE DATABASE.")
}

// databaseOption accepts the options of CREATE DATABASE that are true of every database, and refuses others. STRATEGY, which selects how
// PostgreSQL copies the template's files, and COLLATION_VERSION have no meaning here.
func (b *builder) databaseOption(o parse.StorageOption) {
	value := strings.ToLower(o.Value)
	refuse := func(format, hint string, args ...any) {
		raise(sqlstate.New(sqlstate.FeatureNotSupported, format, args...).WithHint("%s", hint))
	}
	switch o.Name {
	case "template":
		switch value {
		case "template0", "template1", "default":
			return
		}
		db, err := b.View.Database(b.ctx, o.Value)
		check(err)
		if db == nil {
			b.fail(sqlstate.InvalidCatalogName, nil, "template database \"%s\" does not exist", o.Value)
		}
		refuse("copying a database is not supported", "Dump it with pg_dump and load it into the new one.")
	case "encoding":
		switch value {
		case "utf8", "utf-8", "unicode", "6", "default":
			return
		}
		if _, _, err := charset.Find(o.Value); err != nil && value != "sql_ascii" {
			b.fail(sqlstate.UndefinedObject, nil, "%s is not a valid encoding name", o.Value)
		}
		refuse("encoding \"%s\" is not supported", "Databases are UTF8; client_encoding may be another.", o.Value)
	case "locale", "lc_collate", "lc_ctype":
		switch value {
		case "c", "posix", "c.utf-8", "c.utf8", "default":
			return
		}
		if o.Name == "lc_ctype" && (strings.HasSuffix(value, ".utf-8") || strings.HasSuffix(value, ".utf8")) {
			return // letters are Unicode's whatever the language
		}
		refuse("locale \"%s\" is not supported", "All text is ordered by its bytes: LOCALE 'C'.", o.Value)
	case "locale_provider":
		if value == "libc" {
			return
		}
		if value != "icu" {
			b.fail(sqlstate.InvalidObjectDefinition, nil, "unrecognized locale provider: %s", o.Value)
		}
		refuse("locale provider \"icu\" is not supported", "All text is ordered by its bytes: LOCALE 'C'.")
	case "icu_locale":
		refuse("locale provider \"icu\" is not supported", "All text is ordered by its bytes: LOCALE 'C'.")
	case "strategy":
		if value != "wal_log" && value != "file_copy" {
			raise(sqlstate.New(sqlstate.InvalidParameterValue, "invalid create database strategy \"%s\"", o.Value).
				WithHint("Valid strategies are \"wal_log\", and \"file_copy\"."))
		}
	case "collation_version":
	case "tablespace":
		if value != "pg_default" && value != "default" {
			raise(noTablespace(o.Value))
		}
	case "connection limit":
		if value != "-1" && value != "default" {
			refuse("connection limits of databases are not supported", "Roles have CONNECTION LIMIT.")
		}
	case "allow_connections":
		if !truth(value, true) {
			refuse("databases without connections are not supported", "REVOKE CONNECT ON DATABASE ... FROM PUBLIC.")
		}
	case "is_template":
		if truth(value, false) {
			refuse("template databases are not supported", "Dump a database with pg_dump and load it into a new one.")
		}
	case "oid":
		refuse("the OID of a database can't be chosen", "Leave it out.")
	}
}

// truth reads a boolean option.
func truth(value string, def bool) bool {
	switch value {
	case "true", "on", "1", "yes":
		return true
	case "default":
		return def
	}
	return false
}

// alterDatabase binds PostgreSQL's options of ALTER DATABASE, none of which changes anything, the survival goals of super regions, and witness regions.
func (b *builder) alterDatabase(n *parse.AlterDatabase) Statement {
	if s := n.Super; s != nil {
		if s.Regions > catalog.MaxSurvival {
			b.fail(sqlstate.FeatureNotSupported, nil, "a database survives the failure of at most %d regions", catalog.MaxSurvival)
		}
		return &AlterDatabase{Name: n.Name, Region: &SetSuperSurvival{Name: s.Name, Goal: catalog.Survival(s.Regions), Inherit: s.Inherit}}
	}
	if w := n.Witness; w != nil {
		if w.Verb == "DROP" {
			return &AlterDatabase{Name: n.Name, Region: &DropWitnessRegion{Region: w.Region, IfExists: w.Unless}}
		}
		return &AlterDatabase{Name: n.Name, Region: &SetWitnessRegion{Region: w.Region, Replace: w.Verb == "SET", IfNotExists: w.Unless}}
	}
	db, err := b.View.Database(b.ctx, n.Name)
	check(err)
	if db == nil {
		b.fail(sqlstate.InvalidCatalogName, nil, "database \"%s\" does not exist", n.Name)
	}
	for _, o := range n.Options {
		b.databaseOption(o)
	}
	return &AlterDatabase{Name: n.Name, Set: n.Set, Reset: n.Reset, Roles: n.Roles}
}
