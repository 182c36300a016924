package keys

import (
	"testing"

	"meridian/encoding"
)

// userRow, albumRow and photoRow are keys of a hierarchy of three tables.
func userRow(u int64) Key {
	return encoding.AppendInt(IndexPrefix(uint32(104), uint32(1)), u, encoding.Ascending)
}

func albumRow(u, a int64) Key {
	return encoding.AppendInt(AppendInterleaved(userRow(u), uint32(105), uint32(2)), a, encoding.Ascending)
}

func photoRow(u, a, p int64) Key {
	return encoding.AppendInt(AppendInterleaved(albumRow(u, a), uint32(106), uint32(1)), p, encoding.Ascending)
}

// TestDirectory: a directory is a row of the root and all that is interleaved in it; its keys are next to each other, and its boundaries are those of the rows around it.
func TestDirectory(t *testing.T) {
	ordered := []Key{userRow(1), albumRow(1, 1), photoRow(1, 1, 1), photoRow(1, 1, 300), albumRow(1, 2), userRow(2), photoRow(2, 1, 1), userRow(300)}
	for i := 1; i < len(ordered); i++ {
		if !ordered[i-1].Less(ordered[i]) {
			t.Errorf("%s is not before %s", ordered[i-1], ordered[i])
		}
	}
	if got := photoRow(1, 2, 3).String(); got != "/Table/104/1/1/Interleaved/105/2/2/Interleaved/106/1/3" {
		t.Error(got)
	}
	for _, c := range []struct {
		k            Key
		table, index uint32
	}{{userRow(1), 104, 1}, {albumRow(1, 1), 105, 2}, {photoRow(1, 1, 1), 106, 1}, {IndexPrefix(uint32(9), uint32(3)), 9, 3}} {
		if table, index, _, err := Owner(c.k); err != nil || table != c.table || index != c.index {
			t.Errorf("%s is of %d/%d, %v", c.k, table, index, err)
		}
	}
	if _, _, _, err := Owner(append(userRow(1), Interleaved)); err == nil {
		t.Error("a key that ends before the table's name has an owner")
	}
	if _, ok := Directory(userRow(1)); ok {
		t.Error("a row of the root is in the directory of another")
	}
	if d, ok := Directory(photoRow(7, 1, 1)); !ok || !d.Equal(userRow(7)) {
		t.Errorf("%s, %v", d, ok)
	}
	start, end := IndexPrefix(uint32(104), uint32(1)), IndexPrefix(uint32(104), uint32(1)).PrefixEnd()
	for _, c := range []struct {
		name          string
		k, start, end Key
		before, after Key
	}{
		{name: "of the root", k: userRow(7), start: start, end: end, before: userRow(7), after: userRow(7)},
		{name: "inside", k: photoRow(7, 1, 1), start: start, end: end, before: userRow(7), after: userRow(7).PrefixEnd()},
		{name: "in the first directory", k: photoRow(7, 1, 1), start: userRow(7), end: end, after: userRow(7).PrefixEnd()},
		{name: "in the last one", k: photoRow(7, 1, 1), start: start, end: userRow(7).PrefixEnd(), before: userRow(7)},
		{name: "in the only one", k: photoRow(7, 1, 1), start: albumRow(7, 1), end: albumRow(7, 2)},
	} {
		if before, after := Boundaries(c.k, c.start, c.end); !before.Equal(c.before) || !after.Equal(c.after) {
			t.Errorf("%s: %s and %s", c.name, before, after)
		}
	}
}

func FuzzDirectory(f *testing.F) {
	f.Add([]byte(photoRow(1, 2, 3)))
	f.Fuzz(func(t *testing.T, b []byte) {
		k := Key(b)
		_, _, _, _ = Owner(k)
		_ = PrettyPrint(k)
		row, ok := Directory(k)
		if before, after := Boundaries(k, TablePrefix, TableMax); ok && (len(row) >= len(k) || before != nil && !before.Equal(row) || after != nil && after.Less(k)) {
			t.Errorf("%x: directory %x, from %x to %x", b, []byte(row), []byte(before), []byte(after))
		}
	})
}
