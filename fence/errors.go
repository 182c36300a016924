package fence

import "errors"

var errUnknown = errors.New("its address is not known")
