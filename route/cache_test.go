package route

import (
	"testing"

	"meridian/keys"
	"meridian/kv"
)

func info(id kv.RangeID, start, end string, generation uint64, lease kv.NodeID) kv.RangeInfo {
	d := kv.RangeDescriptor{ID: id, Start: keys.Key(start), End: keys.Key(end), Generation: generation,
		Replicas: []kv.ReplicaDescriptor{{Node: 1, Store: 1, Replica: 1}, {Node: 2, Store: 2, Replica: 2}}}
	r, _ := d.Replica(lease)
	return kv.RangeInfo{Desc: d, Leaseholder: r}
}

// TestCacheOrder: old news does not replace what is known (route.RO1), whatever order it comes in.
func TestCacheOrder(t *testing.T) {
	var c cache
	if !c.insert(info(1, "a", "z", 3, 2)) {
		t.Error("the first range is not news")
	}
	// The range has split; the left side keeps its leaseholder.
	if !c.insert(info(1, "a", "m", 4, 0), info(2, "m", "z", 4, 0)) {
		t.Error("a split is not news")
	}
	if e := c.find(keys.Key("b")); e == nil || e.desc.Generation != 4 || e.leaseholder() != 2 {
		t.Errorf("left side: %+v", e)
	}
	if e := c.find(keys.Key("m")); e == nil || e.desc.ID != 2 || e.leaseholder() != 0 {
		t.Errorf("right side: %+v", e)
	}
	// The descriptor of before the split comes late.
	if c.insert(info(1, "a", "z", 3, 1)) {
		t.Error("old news replaced newer")
	}
	if e := c.find(keys.Key("p")); e == nil || e.desc.ID != 2 {
		t.Errorf("after old news: %+v", e)
	}
	// Only the leaseholder is new.
	if !c.insert(info(2, "m", "z", 4, 1)) || c.find(keys.Key("p")).leaseholder() != 1 {
		t.Error("a leaseholder is not news")
	}
	// A merge, and the edges.
	c.insert(info(1, "a", "z", 5, 1))
	if len(c.load()) != 1 || c.find(keys.Key("z")) != nil || c.find(keys.Key("A")) != nil {
		t.Errorf("after the merge: %v", c.load())
	}
	if c.findBefore(keys.Key("z")) == nil || c.findBefore(keys.Key("a")) != nil || c.findBefore(keys.Key("b")) == nil {
		t.Error("findBefore")
	}
	c.evict(c.find(keys.Key("b")))
	if len(c.load()) != 0 {
		t.Error("evicted, and still there")
	}
}
