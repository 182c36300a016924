package session

import (
	"meridian/sql/bind"
	"meridian/sql/memory"
	"meridian/sql/notify"
	"meridian/sql/sqlstate"
)

// LISTEN, UNLISTEN and NOTIFY take effect with the COMMIT of their transaction, which first changes the channels and then publishes the
// notifications (notify.NT1). Until then they are kept here; ROLLBACK TO drops them, and so does running the statement or the transaction again.

// maxNotifyBytes bounds the notifications of a transaction; maxPayload is PostgreSQL's bound of one payload, and maxChannelName that of a channel's
// name. maxChannels bounds the channels of a session.
const (
	maxNotifyBytes = 8 << 20
	maxPayload     = 8000
	maxChannelName = 64
	maxChannels    = 10_000
)

// exchange distributes notifications (notify.Hub).
type exchange interface {
	// Room returns an error if the queue for another node is full.
	Room() error
	NewListener(database string, ring, overflowed func()) *notify.Listener
	Publish(database string, list []notify.Notification)
}

// notifying is the state of LISTEN and NOTIFY in a session.
type notifying struct {
	exchange         exchange
	database         string
	process          int32
	ring, overflowed func() // for its listener; other goroutines call them

	listener *notify.Listener // nil until the session first listens
	pending  []notify.Notification
	bytes    int // of pending
	changes  []listenChange
	// known has the pending notifications as a set, in which duplicates are found; nil while there are few.
	known map[notify.Notification]struct{}
}

// listenChange is LISTEN or UNLISTEN; without a channel, UNLISTEN *.
type listenChange struct {
	channel string
	listen  bool
}

// notifyMark is a point in a transaction to which rollbackTo returns.
type notifyMark struct{ pending, bytes, changes int }

func (n *notifying) mark() notifyMark { return notifyMark{len(n.pending), n.bytes, len(n.changes)} }

func (n *notifying) rollbackTo(m notifyMark) {
	if m.pending < len(n.pending) {
		n.pending, n.known = n.pending[:m.pending], nil
	}
	n.bytes, n.changes = m.bytes, n.changes[:m.changes]
}

func (n *notifying) reset() { n.pending, n.known, n.bytes, n.changes = nil, nil, 0, nil }

// fewPending is the number of notifications from which duplicates are found in a set instead of the list.
const fewPending = 16

// has reports whether a notification is pending: equal ones are sent once.
func (n *notifying) has(x notify.Notification) bool {
	if len(n.pending) < fewPending {
		for _, p := range n.pending {
			if p == x {
				return true
			}
		}
		return false
	}
	if n.known == nil {
		n.known = make(map[notify.Notification]struct{}, 2*len(n.pending))
		for _, p := range n.pending {
			n.known[p] = struct{}{}
		}
	}
	_, is := n.known[x]
	return is
}

// notify is NOTIFY; the memory of pending notifications is reserved in the transaction's account.
func (n *notifying) notify(account *memory.Account, channel, payload string) error {
	switch {
	case channel == "":
		return sqlstate.New(sqlstate.InvalidParameterValue, "channel name cannot be empty")
	case len(channel) >= maxChannelName:
		return sqlstate.New(sqlstate.InvalidParameterValue, "channel name too long")
	case len(payload) >= maxPayload:
		return sqlstate.New(sqlstate.InvalidParameterValue, "payload string too long")
	}
	x := notify.Notification{Process: n.process, Channel: channel, Payload: payload}
	if n.has(x) {
		return nil
	}
	size := 2*len(payload) + 2*maxChannelName
	if n.bytes+size > maxNotifyBytes || n.exchange.Room() != nil {
		return sqlstate.New(sqlstate.ProgramLimitExceeded, "too many notifications in the NOTIFY queue")
	}
	if err := account.Grow(int64(size)); err != nil {
		return err
	}
	n.pending, n.bytes = append(n.pending, x), n.bytes+size
	if n.known != nil {
		n.known[x] = struct{}{}
	}
	return nil
}

// listen is LISTEN and UNLISTEN.
func (n *notifying) listen(account *memory.Account, c any) (tag string, err error) {
	change := listenChange{}
	switch c := c.(type) {
	case *bind.Listen:
		change, tag = listenChange{c.Channel, true}, "LISTEN"
		if n.listener != nil && len(n.listener.Channels())+len(n.changes) >= maxChannels {
			return "", sqlstate.New(sqlstate.ProgramLimitExceeded, "too many channels").WithHint("A session can listen on %d channels.", maxChannels)
		}
	case *bind.Unlisten:
		change.channel, tag = c.Channel, "UNLISTEN"
	}
	if err := account.Grow(2 * maxChannelName); err != nil {
		return "", err
	}
	n.changes = append(n.changes, change)
	return tag, nil
}

// end changes the channels and publishes the notifications, if the transaction has committed.
func (n *notifying) end(committed bool) {
	if len(n.pending) == 0 && len(n.changes) == 0 {
		return // as in most transactions
	}
	if committed {
		for _, c := range n.changes {
			switch {
			case c.listen && n.listener == nil:
				n.listener = n.exchange.NewListener(n.database, n.ring, n.overflowed)
				n.listener.Listen(c.channel)
			case n.listener == nil:
			case c.listen:
				n.listener.Listen(c.channel)
			case c.channel == "":
				n.listener.UnlistenAll()
			default:
				n.listener.Unlisten(c.channel)
			}
		}
		n.exchange.Publish(n.database, n.pending)
	}
	n.reset()
}

// unlistenAll ends listening immediately.
func (n *notifying) unlistenAll() {
	if n.listener != nil {
		n.listener.UnlistenAll()
	}
}

// ring signals the connection, if there is one, that a notification has come. Another goroutine calls it.
func (s *Session) ring() {
	if r, ok := s.out.(interface{ Ring() }); ok {
		r.Ring()
	}
}

// overflowed ends the session because its client has not read its notifications (notify.NT4). Another goroutine calls it.
func (s *Session) overflowed() {
	s.endWith(sqlstate.New(sqlstate.ProgramLimitExceeded, "terminating connection because it did not take its notifications"))
	if s.client.Interrupt != nil {
		s.client.Interrupt() // ends a write for which its goroutine waits
	}
}

// Listens reports whether the session has ever listened: then its connection must deliver notifications.
func (s *Session) Listens() bool { return s.notifying.listener != nil }

// Notifications returns those that have come since the last call; none while a transaction is open, as in PostgreSQL.
func (s *Session) Notifications() []notify.Notification {
	if s.notifying.listener == nil || !s.Idle() {
		return nil
	}
	return s.notifying.listener.Take()
}

// Notify implements system.Environment.
func (e *environment) Notify(channel, payload string) error {
	e.s.ensureTxn()
	return e.s.notifying.notify(e.s.txnMemory(), channel, payload)
}

// Listening implements system.Environment.
func (e *environment) Listening() []string {
	if l := e.s.notifying.listener; l != nil {
		return l.Channels()
	}
	return nil
}
