package core

import "fmt"

// Call is the message of a core that answers requests: a request, or the reply to it. ID relates the two.
type Call[Q, R any] struct {
	ID      uint64
	Request *Q
	Reply   *R
}

func (c Call[Q, R]) String() string {
	if c.Reply != nil {
		return fmt.Sprintf("reply %d: %+v", c.ID, *c.Reply)
	}
	return fmt.Sprintf("request %d: %+v", c.ID, *c.Request)
}
