package bind

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/commit/protocol"
	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar/system"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// parameters checks storage parameters, adds them to into, for the catalogue, unless that is nil, and returns the notices that they have no effect.
func (b *builder) parameters(known []parameter, ps tree.StorageParams, into map[string]string) []Notice {
	var ns []Notice
	for _, p := range ps {
		name, value := strings.ToLower(p.Key), constText(p.Value)
		if name == "oids" {
			// PostgreSQL accepts it because dumps of old versions have it.
			if v := strings.ToLower(value); v != "false" && v != "off" && v != "0" && v != "no" {
				b.fail(sqlstate.FeatureNotSupported, nil, "tables declared WITH OIDS are not supported")
			}
			continue
		}
		check(checkParameter(known, name, value))
		if into != nil {
			if _, twice := into[name]; twice {
				b.fail(sqlstate.InvalidParameterValue, nil, "parameter \"%s\" specified more than once", name)
			}
			into[name] = value
		}
		ns = append(ns, ignored(name))
	}
	return ns
}

// operatorClass refuses an operator class that does not exist, that is for another type, or whose order is not that of the column. It returns the name, or an empty one
// if the class is the type's default.
func (b *builder) operatorClass(name string, t *types.T) string {
	if name == "" || t == nil {
		return ""
	}
	c, ok := system.OperatorClassNamed(name)
	if !ok {
		b.fail(sqlstate.UndefinedObject, nil, "operator class \"%s\" does not exist for access method \"btree\"", name)
	}
	accepted, ordered := c.Accepts(t)
	switch {
	case !accepted:
		b.fail(sqlstate.DatatypeMismatch, nil, "operator class \"%s\" does not accept data type %s", name, t.Bare().Name())
	case !ordered:
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "operator class \"%s\" is not supported for data type %s", name, t.Bare().Name()).
			WithHint("An index has the order of its columns' types."))
	case c.OID == system.DefaultOperatorClass(t):
		return ""
	}
	return name
}

// alterStorage binds the actions of ALTER TABLE and ALTER INDEX that are about the storage of rows.
func (b *builder) alterStorage(n *parse.AlterStorage) Statement {
	a := &AlterTable{}
	var t *catalog.Table
	if n.Index {
		a.Index = n.Name.Name
		ref := b.namedIndex(b.database(n.Name.Database), n.Name.Schema, n.Name.Name)
		if ref == nil && b.lookupTable(n.Name.Database, n.Name.Schema, n.Name.Name) != nil {
			b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not an index", n.Name.Name)
		}
		if ref != nil {
			t = ref.Table
		}
	} else if t = b.lookupTable(n.Name.Database, n.Name.Schema, n.Name.Name); t != nil && t.Kind == catalog.KindVirtual {
		b.fail(sqlstate.InsufficientPrivilege, nil, "permission denied: \"%s\" is a system catalog", t.Name)
	}
	switch {
	case t == nil && !n.IfExists:
		b.fail(sqlstate.UndefinedTable, nil, "relation \"%s\" does not exist", Name{Schema: n.Name.Schema, Name: n.Name.Name})
	case t == nil:
		a.Notices = []Notice{{Severity: "NOTICE", Code: "00000", Message: "relation \"" + n.Name.Name + "\" does not exist, skipping"}}
		return a
	case t.Kind != catalog.KindTable:
		raise(sqlstate.New(sqlstate.WrongObjectType, "ALTER action %s cannot be performed on relation \"%s\"", n.Actions[0].Kind, t.Name).
			WithDetail("This operation is not supported for %ss.", kindWord(t.Kind)))
	}
	a.Table = t
	for _, act := range n.Actions {
		b.storageAction(a, t, act)
	}
	return a
}

func (b *builder) storageAction(a *AlterTable, t *catalog.Table, act parse.StorageAction) {
	tell := func(format string, hint string) {
		a.Notices = append(a.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: format, Hint: hint})
	}
	var col *catalog.Column
	if act.Column != "" {
		if act.Column == "ctid" || act.Column == "xmin" || act.Column == "tableoid" {
			b.fail(sqlstate.FeatureNotSupported, nil, "cannot alter system column \"%s\"", act.Column)
		}
		col = b.existingColumn(t, tree.Name(act.Column))
	}
	switch act.Kind {
	case parse.SetStatistics:
		tell("SET STATISTICS has no effect", "ANALYZE reads all rows, and the size of its histograms is fixed.")
	case parse.SetStorage:
		switch v := strings.ToLower(act.Value); v {
		case "plain":
		case "external", "extended", "main":
			if !toastable(col.Type) {
				b.fail(sqlstate.FeatureNotSupported, nil, "column data type %s can only have storage PLAIN", col.Type.Bare().Name())
			}
		default:
			b.fail(sqlstate.InvalidParameterValue, nil, "invalid storage type \"%s\"", act.Value)
		}
		tell("SET STORAGE has no effect", "A row is stored whole, compressed with its neighbours.")
	case parse.SetCompression:
		b.compression(act.Value, col.Type)
		tell("SET COMPRESSION has no effect", "A row is stored whole, compressed with its neighbours.")
	case parse.SetColumnOptions:
		for _, o := range act.Options {
			check(checkParameter(columnParameters, o.Name, o.Value))
			a.Notices = append(a.Notices, ignored(o.Name))
		}
	case parse.ResetOptions:
	case parse.SetIndexOptions:
		for _, o := range act.Options {
			check(checkParameter(indexParameters, o.Name, o.Value))
			a.Notices = append(a.Notices, ignored(o.Name))
		}
	case parse.SetUnlogged:
		tell("SET UNLOGGED has no effect", "All tables are logged.")
	case parse.ClusterOn, parse.ReplicaIdentityIndex:
		if !slices.ContainsFunc(t.Indexes, func(i catalog.Index) bool { return i.Name == act.Value }) {
			b.fail(sqlstate.UndefinedObject, nil, "index \"%s\" for table \"%s\" does not exist", act.Value, t.Name)
		}
		if act.Kind == parse.ClusterOn {
			tell("CLUSTER ON has no effect", "Rows are stored in the order of the primary key.")
			return
		}
		tell("REPLICA IDENTITY has no effect", "There is no logical replication to a server outside of the cluster.")
	case parse.ReplicaIdentity:
		tell("REPLICA IDENTITY has no effect", "There is no logical replication to a server outside of the cluster.")
	case parse.DisableTriggers:
		if strings.EqualFold(act.Value, "all") {
			raise(sqlstate.New(sqlstate.FeatureNotSupported, "DISABLE TRIGGER ALL is not supported").
				WithHint("Foreign keys are always checked. Load referenced tables first, or declare the keys DEFERRABLE."))
		}
		b.noTrigger(t, act.Value)
	case parse.EnableTriggers:
		b.noTrigger(t, act.Value)
	case parse.SetTablespace:
		if act.Value != "pg_default" {
			raise(noTablespace(act.Value))
		}
	case parse.SetAccessMethod:
		if act.Value != "heap" {
			b.fail(sqlstate.UndefinedObject, nil, "access method \"%s\" does not exist", act.Value)
		}
	case parse.SetLogged, parse.WithoutCluster, parse.WithoutOids:
		// Every table is logged, unclustered and without OIDs.
	}
}

// noTrigger refuses the name of a trigger; ALL and USER are not names.
func (b *builder) noTrigger(t *catalog.Table, name string) {
	if !strings.EqualFold(name, "all") && !strings.EqualFold(name, "user") {
		b.fail(sqlstate.UndefinedObject, nil, "trigger \"%s\" for table \"%s\" does not exist", name, t.Name)
	}
}

func noTablespace(name string) error {
	return sqlstate.New(sqlstate.UndefinedObject, "tablespace \"%s\" does not exist", name).WithHint("There are no tablespaces but pg_default.")
}

// toastable reports whether PostgreSQL can store a type's large values separately.
func toastable(t *types.T) bool {
	switch t.Kind {
	case types.KindText, types.KindVarChar, types.KindBPChar, types.KindBytes, types.KindJSON, types.KindJSONB, types.KindArray, types.KindDecimal:
		return true
	}
	return false
}

// compression refuses a method of compression that PostgreSQL does not know, or a column that it does not compress.
func (b *builder) compression(method string, t *types.T) {
	switch strings.ToLower(method) {
	case "default", "pglz", "lz4":
	default:
		b.fail(sqlstate.InvalidParameterValue, nil, "invalid compression method \"%s\"", method)
	}
	if !toastable(t) {
		b.fail(sqlstate.FeatureNotSupported, nil, "column data type %s does not support compression", t.Bare().Name())
	}
}

// protocolNames lists the commit protocols.
func protocolNames() string {
	out := ""
	all := protocol.Named()
	for i, p := range all {
		switch {
		case i > 0 && i == len(all)-1:
			out += ", and "
		case i > 0:
			out += ", "
		}
		out += "\"" + p.String() + "\""
	}
	return out
}

// commitProtocol reads the storage parameter commit_protocol.
func (b *builder) commitProtocol(name string) catalog.CommitProtocol {
	p, err := catalog.ParseCommitProtocol(strings.ToLower(name))
	switch {
	case err != nil:
		raise(sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for enum option \"%s\": %s", catalog.ProtocolOption, name).
			WithDetail("Valid values are %s.", protocolNames()))
	case p.Traits().Planned:
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "commit protocol \"%s\" is not supported yet", p).
			WithHint("Without the parameter the table has the protocol \"%s\".", protocol.Default))
	}
	return p
}

// ballots reads the storage parameters that say in which ballots rows are written; nil: it is another one.
func (b *builder) ballots(name, value string) AlterAction {
	switch {
	case strings.EqualFold(name, catalog.BallotsOption):
		k, err := catalog.ParseBallots(strings.ToLower(value))
		if err != nil {
			raise(sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for enum option \"%s\": %s", catalog.BallotsOption, value).
				WithHint("Valid values are \"fast\", \"classic\", \"gamma\", and \"learned\"."))
		}
		return &SetBallots{k}
	case strings.EqualFold(name, catalog.GammaOption):
		check(checkParameter([]parameter{{name: catalog.GammaOption, min: catalog.MinGamma, max: catalog.MaxGamma}}, catalog.GammaOption, value))
		v, err := strconv.ParseFloat(value, 64)
		check(err)
		return &SetGamma{int(v)}
	}
	return nil
}

// policy adds what a parameter says to a policy; twice: that is there already.
func (b *builder) policy(ballots *catalog.Ballots, gamma *int, set AlterAction) (twice bool) {
	switch a := set.(type) {
	case *SetBallots:
		twice, *ballots = *ballots != catalog.UnsaidBallots, a.Ballots
	case *SetGamma:
		twice, *gamma = *gamma != 0, a.Gamma
	}
	return twice
}

// mayName refuses a commit protocol of a table that is no ordinary one.
func (b *builder) mayName(ct *CreateTable, as bool) {
	switch {
	case ct.Protocol.Default():
	case ct.Temporary:
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "a temporary table can't have the commit protocol \"%s\"", ct.Protocol).
			WithHint("Its rows are in the memory of the session. Leave out %s.", catalog.ProtocolOption))
	case as && !ct.Protocol.Traits().Loads.Can():
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "CREATE TABLE AS can't fill a table with the commit protocol \"%s\"", ct.Protocol).
			WithHint("Leave out %[1]s, and give the table the protocol by ALTER TABLE ... SET (%[1]s = '%[2]s') afterwards.", catalog.ProtocolOption, ct.Protocol))
	}
}
