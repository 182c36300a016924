package virtual

// generators lists the relations that may have rows; the others are always empty.
func generators() map[string]generator {
	m := map[string]generator{}
	for name, g := range map[string]generator{
		"pg_am": pgAm, "pg_aggregate": pgAggregate, "pg_attrdef": pgAttrdef, "pg_attribute": pgAttribute, "pg_auth_members": pgAuthMembers,
		"pg_authid": pgAuthid, "pg_class": pgClass, "pg_collation": pgCollation, "pg_operator": pgOperator, "pg_cast": pgCast, "pg_constraint": pgConstraint, "pg_database": pgDatabase,
		"pg_depend": pgDepend, "pg_db_role_setting": pgDbRoleSetting, "pg_description": pgDescription, "pg_shdescription": pgShdescription, "pg_group": pgGroup, "pg_index": pgIndex, "pg_indexes": pgIndexes, "pg_init_privs": pgInitPrivs,
		"pg_language": pgLanguage, "pg_matviews": pgMatviews, "pg_locks": pgLocks, "pg_enum": pgEnum, "pg_namespace": pgNamespace, "pg_opclass": pgOpclass, "pg_opfamily": pgOpfamily, "pg_prepared_statements": pgPreparedStatements, "pg_cursors": pgCursors,
		"pg_proc": pgProc, "pg_rewrite": pgRewrite, "pg_roles": pgRoles, "pg_sequence": pgSequence, "pg_sequences": pgSequences,
		"pg_settings": pgSettings, "pg_shadow": pgShadow, "pg_stat_activity": pgStatActivity, "pg_stat_all_tables": pgStatTables,
		"pg_stat_all_indexes": pgStatIndexes, "pg_stat_user_indexes": pgStatIndexes, "pg_stats": pgStats,
		"pg_stat_database": pgStatDatabase, "pg_stat_user_tables": pgStatTables, "pg_tables": pgTables, "pg_tablespace": pgTablespace,
		"pg_timezone_names": pgTimezoneNames, "pg_type": pgType, "pg_user": pgUser, "pg_views": pgViews, "pg_range": nil,
	} {
		if g != nil {
			m["pg_catalog."+name] = g
		}
	}
	for name, g := range map[string]generator{
		"information_schema_catalog_name": isCatalogName, "schemata": isSchemata, "tables": isTables, "columns": isColumns, "views": isViews,
		"sequences": isSequences, "table_constraints": isTableConstraints, "key_column_usage": isKeyColumnUsage,
		"constraint_column_usage": isConstraintColumnUsage, "constraint_table_usage": isConstraintTableUsage,
		"referential_constraints": isReferentialConstraints, "check_constraints": isCheckConstraints, "table_privileges": isTablePrivileges,
		"role_table_grants": isTablePrivileges, "enabled_roles": isEnabledRoles, "applicable_roles": isApplicableRoles,
		"character_sets": isCharacterSets, "view_table_usage": isViewTableUsage,
	} {
		m["information_schema."+name] = g
	}
	for name, g := range map[string]generator{
		"nodes": internalNodes, "ranges": internalRanges, "leases": internalLeases, "jobs": internalJobs,
		"cluster_settings": internalSettings, "sessions": internalSessions, "statements": internalStatements, "retries": internalRetries,
		"clocks": internalClocks, "time_sources": internalTimeSources, "lock_waits": internalLockWaits,
		"regions": internalRegions, "database_regions": internalDatabaseRegions, "super_regions": internalSuperRegions, "databases": internalDatabases,
		"tables": internalTables, "enums": internalEnums, "index_columns": internalIndexColumns, "this_node": internalThisNode, "zones": internalZones, "partitions": internalPartitions,
		"constraint_violations": internalViolations, "placements": internalPlacements, "universe": internalUniverse, "directories": internalDirectories,
		"cluster_version": internalClusterVersion, "node_versions": internalNodeVersions,
	} {
		m["meridian_internal."+name] = g
	}
	return m
}
