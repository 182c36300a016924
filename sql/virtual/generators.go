package virtual

// generators lists the relations that may have rows.
func generators() map[string]generator {
	return map[string]generator{}
}
