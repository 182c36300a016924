// Package lease stores descriptors, distributes them to all nodes, and replaces a version by the next one while statements run.
//
// # The problem
//
// A statement is bound against descriptors, and its plan stays in caches for hours. A schema change must neither make every statement read
// its descriptors again, nor let a node keep using a plan that writes no entries into an index that others have begun to read. The rule
// that makes this safe is
//
//	I7  at most two successive versions of a descriptor are in use, anywhere, at any moment.
//
// # Storage
//
//	/Table/1/1/<id>                         descriptor: database, schema, relation, role, access control list, or the cluster settings
//	/Table/2/1/<database>/<schema>/<name>   id that the name stands for
//	/Table/6/1/<table>                      statistics
//	/Table/6/2/<table>                      number of rows that were changed since
//	/Table/6/3/1                            the node that collects statistics without having been asked, and until when
//	/Table/7/1/<node>                       the node's tenure: how long it may use its snapshot
//	/Table/7/2/<id>                         a version that has been published, but that some node may not use yet, or that is registered for a time
//	/Table/7/3/<table>/<version>            the version is frozen: by which transaction
//	/Table/<table>/0                        never written; its lock is that of the whole table
//
// A node knows the whole catalogue: an immutable Snapshot, swapped when a descriptor changes. Looking up a name, or checking that a cached
// plan is still valid, costs one atomic load and no message.
//
// # Tenure
//
// A node may use its snapshot as long as its tenure lasts. It renews the tenure while it lives; a change of a descriptor waits for every
// node whose tenure has not expired. A transaction commits at a timestamp within the tenure (txn.SetDeadlineSource), so a node that lost
// its tenure can't commit transactions that used old descriptors.
//
//	lease.L1 (I7): A node says that it uses version v of a descriptor only when no transaction of its own uses an older one.
//	lease.L2 (I7): Version v+1 is written only when every node with a tenure has said so of v. While the row in /Table/7/2 exists, a node
//	    may not have done so; the writer of v+1 finds the row and waits for all nodes first.
//	lease.L3: A node that did not renew its tenure in time, and takes up another, reads the whole catalogue again, and of the
//	    transactions that began before only those can commit whose versions are all still the present ones.
//	lease.L4: A transaction does not use a version younger than its read timestamp: data may be missing from an index
//	    that the version made public. It starts over instead.
//	lease.L6: A transaction has locked a table, for TRUNCATE, DROP TABLE, schema changes among other statements and LOCK TABLE, once a
//	    frozen version, with which no other transaction may begin, is in use everywhere; its change of the table is committed only while the
//	    row of the freeze exists: freeze.go.
//	lease.L7: The newest roles and access control lists are used: no transaction relies on their versions, so that a change of them waits
//	    for none, and takes effect with the next statement of every session.
//	lease.L8: No object names a dropped role: access.go, pinRoles.
//	lease.L9: A transaction that waits until a version is no longer in use, or until a job has finished with a table, visibly waits for
//	    every transaction that uses an older version of the table and has a lock: waits.go.
//	lease.L10: A descriptor that a later version has changed may be listed, and is neither used nor changed: decodeDescriptor, unusable. Its
//	    version counts as any other's, so changes of it are published and waited for.
//	lease.L14: No object names an option of the placement menu that was dropped: menu.go, pinPlacements.
//	lease.L5: A transaction that reads the past uses the versions, and the names, that were valid at its timestamp.
//
// # The life of a change
//
//	CREATE INDEX ...                      edits are collected in Txn, visible to the transaction only
//	  Txn.Flush                           version checked, rows written, /Table/7/2 rows written
//	  commit
//	  Txn.Finish   local snapshot         -> new transactions of this node use the new version
//	               Notifier.Broadcast     -> other nodes: HandleChange
//	               wait: no transaction on any node uses the earlier version
//	               /Table/7/2 rows removed (not waited for)
//	               functions registered with AfterCommit: backfills
//
// A version of a table that is externally consistent is published at a registered time instead: register.go (lease.L15 to lease.L18).
//
// Nodes that a notification did not reach read /Table/7/2 every PollInterval, and publish the versions that they use in their tenure row. A
// publisher that died leaves its row; after a while any node completes the change.
//
// # What it does not do
//
// It does not interpret changes: package sql/schemachange has the states of columns and indexes. The catalogue has to fit into memory:
// MaxDescriptors bounds it.
//
// See CRDB'20 §5.4 for the protocol that this follows; there leases are per descriptor, here one per node.
package lease
