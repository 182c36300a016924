// Package regions has the tests of clusters over several regions: where tables and rows are kept, which region is
// inferred for a row, what survives the loss of a region, and what is enforced.
package regions
