// Package lease keeps descriptors: where they are stored, how every node knows them, and how a new version of one
// replaces the old one while statements run.
//
// # The problem
//
// A statement is bound against descriptors, and the plan that comes of it lives in caches for hours. A change of the
// schema must neither make every statement read its descriptors again, nor let a node go on with a plan that writes
// no entries into an index that others have begun to read. The rule that makes this safe is
//
//	I7  at most two successive versions of a descriptor are in use, anywhere, at any moment.
//
// # Storage
//
//	/Table/1/1/<id>                         descriptor: database, schema, relation, role, access control list, or the cluster settings
//	/Table/2/1/<database>/<schema>/<name>   id that the name stands for
//	/Table/6/1/<table>                      statistics
//	/Table/7/1/<node>                       the node's tenure: how long it may use what it knows
//	/Table/7/2/<id>                         a version that has been published, but that some node may not use yet
//	/Table/7/3/<table>/<version>            the version is frozen: by which transaction
//	/Table/<table>/0                        never written; its lock is that of the whole table
//
// A node knows the whole catalogue: an immutable Snapshot, swapped when a descriptor changes. Looking up a name, and
// finding that a cached plan is still good, costs one atomic load and no message.
//
// # Tenure
//
// A node may use its snapshot as long as its tenure lasts. It renews the tenure while it lives; whoever changes a
// descriptor waits for every node whose tenure has not run out. A transaction commits at a timestamp within the
// tenure (txn.SetDeadlineSource), so a node that lost its tenure can't commit what it did with old descriptors.
//
//	L1 (I7) A node says that it uses version v of a descriptor only when no transaction of its own uses an older one.
//	L2 (I7) Version v+1 is written only when every node with a tenure has said so of v. While the row in /Table/7/2
//	        exists, somebody may not have; the writer of v+1 finds it and makes sure first.
//	L3      A node that got its tenure anew, not renewed in time, reads the whole catalogue again, and of the
//	        transactions that began before only those can commit whose versions are all still the present ones.
//	L4      A transaction does not use a version younger than its read timestamp: data may be missing from an index
//	        that the version made public. It starts over instead.
//	L6      A transaction has a table for itself, for TRUNCATE, DROP TABLE, changes of the schema among other statements and
//	        LOCK TABLE, once a version with which nobody else may begin anything is in use everywhere; what it makes of the
//	        table is committed only while the row that says so is there: freeze.go.
//	L7      Roles and access control lists are used as they are now: no transaction relies on their versions, so that a
//	        change of them waits for none, and holds for the next statement of every session.
//	L8      An object names no role that is gone: access.go, pinRoles.
//	L9      A transaction that waits until others let go of a version, or until a job has let go of a table, is seen to wait
//	        for every transaction that uses an older version of the table and has a lock: waits.go.
//	L5      A transaction that reads the past uses the versions, and the names, that were valid at its timestamp.
//
// # The life of a change
//
//	CREATE INDEX ...                      edits are gathered in Txn, seen by the transaction only
//	  Txn.Flush                           version checked, rows written, /Table/7/2 rows written
//	  commit
//	  Txn.Finish   local snapshot         -> new transactions of this node use the new version
//	               Notifier.Broadcast     -> other nodes: HandleChange
//	               wait: no transaction anywhere uses the version before
//	               /Table/7/2 rows removed (not waited for)
//	               what was asked for with AfterCommit: backfills
//
// Nodes that a notification did not reach look at /Table/7/2 every PollInterval, and say in their tenure row what
// they use by now. A publisher that died leaves its row; after a while any node completes it.
//
// # What it does not do
//
// It does not know what a change means: states of columns and indexes are sql/schemachange's. The catalogue has to
// fit into memory: MaxDescriptors bounds it.
//
// See CRDB'20 §5.4 for the protocol that this follows; there leases are per descriptor, here one per node.
package lease
