package wire

import (
	"bytes"
	"encoding/json"
	"io"
)

// JSON reads a row that is kept as JSON, because people read it and speed does not matter: descriptors of the catalogue, jobs. Nodes
// read, change and write such rows, so a member that this version does not know is refused like an odd field (wire.W1): it would be lost. Into has
// what is known of the row nevertheless, so that the row can be shown.
//
// A row's member "needs" is the version of which a reader has to be that knows all of it. The writer of a new member, or of a new value of one, sets it;
// the error has it.
func JSON(b []byte, name string, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			return &MalformedError{Message: name}
		}
		return nil
	}
	// The decoder's errors have no types. Input that is valid but for unknown members is of a later version.
	if json.Unmarshal(b, into) == nil {
		var row struct {
			Needs string `json:"needs"`
		}
		_ = json.Unmarshal(b, &row) // it is an object, or has no such member
		return &VersionError{Message: name, Cause: err, Needs: row.Needs}
	}
	return err
}
