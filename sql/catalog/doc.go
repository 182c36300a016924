// Package catalog has the descriptors of databases, schemas, tables, views and sequences: pure data, and queries that can be answered from
// it alone. Package sql/catalog/lease stores, leases and publishes them.
package catalog
