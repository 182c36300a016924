package scalar

func addToChar(*Registry) {}
