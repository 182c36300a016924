package catalog

import "testing"

// TestWithTemplates: both templates are listed, but for one whose name a stored database has.
func TestWithTemplates(t *testing.T) {
	stored := []*Database{{ID: 5, Name: "postgres"}, {ID: 200, Name: "template1"}}
	all := WithTemplates(stored)
	if len(all) != 3 || all[1].IsTemplate() || !all[2].IsTemplate() || all[2].Name != "template0" || all[2].AllowsConnections() {
		t.Errorf("got %v", all)
	}
	if all = WithTemplates(stored[:1]); len(all) != 3 || all[1].Name != "template1" || all[2].Name != "template0" || stored[1].ID != 200 {
		t.Errorf("got %v, after %v", all, stored)
	}
	for _, d := range all[1:] {
		if o, ok := TemplateObject(d.ID); !ok || o.Name != d.Name || o.Class != ClassDatabase {
			t.Errorf("rights on %s are those of %+v", d.Name, o)
		}
	}
}
