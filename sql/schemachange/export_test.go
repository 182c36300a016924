package schemachange

import "time"

// SetRemoveAfter makes the data of what is dropped from now on be removed soon.
func (e *Executor) SetRemoveAfter(d time.Duration) { e.o.RemoveAfter = d }
