package catalog

// The names of key spans that ALTER RANGE configures.
const (
	DefaultRange  = "default"
	MetaRange     = "meta"
	LivenessRange = "liveness"
	SystemRange   = "system"
)

// ZoneExtensions are from ALTER DATABASE ... ALTER LOCALITY ... CONFIGURE ZONE: what a database's regions give to the tables of a locality is changed by them.
// They survive changes of the regions.
type ZoneExtensions struct {
	Global   *ZoneConfig `json:",omitempty"`
	Regional *ZoneConfig `json:",omitempty"`
	// In are those of single home regions; they count more than Regional.
	In map[string]*ZoneConfig `json:",omitempty"`
}

// Home is the extension of the configuration of rows whose home is a region; nil: there is none.
func (e *ZoneExtensions) Home(region string) *ZoneConfig {
	if e == nil {
		return nil
	}
	return e.In[region].Over(e.Regional)
}

// Empty reports whether there is no extension.
func (e *ZoneExtensions) Empty() bool {
	return e == nil || e.Global == nil && e.Regional == nil && len(e.In) == 0
}

// Partitioning divides the entries of an index by the values of its first columns.
type Partitioning struct {
	// Columns is the number of key columns that it divides by, after those of the partitioning that contains it.
	Columns    int
	Partitions []Partition
	// Range says that it is PARTITION BY RANGE; else it is BY LIST.
	Range bool `json:",omitempty"`
}

// Partition is one part.
type Partition struct {
	Name string
	// Values are the tuples of PARTITION BY LIST.
	Values []Bound `json:",omitempty"`
	// From is inclusive, To exclusive: those of PARTITION BY RANGE.
	From *Bound        `json:",omitempty"`
	To   *Bound        `json:",omitempty"`
	Sub  *Partitioning `json:",omitempty"`
}

// Bound is a tuple of values, of a list or at the end of a range.
type Bound struct {
	// Text is the tuple as SQL, without parentheses: constants, DEFAULT, MINVALUE or MAXVALUE.
	Text string
	// Key is the tuple as it is encoded in the keys of the index, up to the first word that is not a value. End says that the bound is after all keys with this
	// prefix, which is MAXVALUE.
	Key []byte `json:",omitempty"`
	End bool   `json:",omitempty"`
	// Values is the number of values in Key.
	Values int
}

// Find finds a partition by its name, also within others; nil if there is none.
func (p *Partitioning) Find(name string) *Partition {
	if p == nil {
		return nil
	}
	for i := range p.Partitions {
		if p.Partitions[i].Name == name {
			return &p.Partitions[i]
		}
		if sub := p.Partitions[i].Sub.Find(name); sub != nil {
			return sub
		}
	}
	return nil
}

// Each calls f for each partition, those within others after these, with the partition around it, which may be nil, and the number of key columns before its own.
func (p *Partitioning) Each(f func(q, parent *Partition, before int)) { p.each(nil, 0, f) }

func (p *Partitioning) each(parent *Partition, before int, f func(q, parent *Partition, before int)) {
	if p == nil {
		return
	}
	for i := range p.Partitions {
		q := &p.Partitions[i]
		f(q, parent, before)
		q.Sub.each(q, before+p.Columns, f)
	}
}

// Partitioned reports whether an index of the table is partitioned, and which.
func (t *Table) Partitioned() *Index {
	for i := range t.Indexes {
		if t.Indexes[i].Partitioning != nil {
			return &t.Indexes[i]
		}
	}
	return nil
}
