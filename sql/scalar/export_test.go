package scalar

import "sort"

// All lists every function and operator by OID.
func (r *Registry) All() []*Overload {
	all := r.AllFunctions()
	for _, list := range r.ops {
		all = append(all, list...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].OID < all[j].OID })
	return all
}
