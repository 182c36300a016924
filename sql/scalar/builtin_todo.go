package scalar

func addArithmetic(*Registry)    {}
func addDecimalMath(*Registry)   {}
func addTextOperators(*Registry) {}
func addStrings(*Registry)       {}
func addRegex(*Registry)         {}
func addFormat(*Registry)        {}
func addMath(*Registry)          {}
func addDateTime(*Registry)      {}
func addToChar(*Registry)        {}
func addJSON(*Registry)          {}
func addArrays(*Registry)        {}
func addSequences(*Registry)     {}
func addSystem(*Registry)        {}
func addAggregates(*Registry)    {}
