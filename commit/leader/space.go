package leader

import (
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
)

// firstUserKey, which is never changed, is where the tables of users begin; those before are the catalogue's.
var firstUserKey = keys.TableKey(uint32(16384))

// useOf is the purpose for which a batch takes space (replica.Use): that of its most demanding request. The catalogue is small, and
// dropping a table begins with a change of it.
func useOf(b *kv.Batch) replica.Use {
	use := replica.Settles
	for _, r := range b.Requests {
		switch r.(type) {
		case *kv.PutRequest, *kv.CPutRequest, *kv.LoadRequest:
			if !r.Span().Start.Less(firstUserKey) {
				return replica.Adds
			}
		case *kv.DeleteRequest, *kv.DeleteRangeRequest, *kv.AddRequest:
			if !r.Span().Start.Less(firstUserKey) {
				use = replica.Removes
			}
		}
	}
	return use
}
