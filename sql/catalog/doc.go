// Package catalog has the descriptors of databases, schemas, tables, views and sequences: pure data, and questions
// that can be answered from it alone. How they are stored, leased and published is sql/catalog/lease's.
package catalog
