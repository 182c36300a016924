package notify

import "meridian/wire"

func appendMessage(b []byte, m *message) []byte {
	b = wire.Uint(wire.Fixed64(b, 1, uint64(m.Run)), 3, m.First)
	var at int
	for i := range m.Publications {
		b, at = wire.BeginLong(b, 5, m.Publications[i].size())
		b = wire.End(appendPublication(b, &m.Publications[i]), at)
	}
	return b
}

func readMessage(r *wire.Reader, message *message) {
	for m := r.Open("notify.Message"); r.Next(&m); {
		switch r.Field() {
		case 1:
			message.Run = int64(r.Fixed64())
		case 3:
			message.First = r.Uint()
		case 5:
			readPublication(r, wire.Grow(r, &message.Publications))
		default:
			r.Skip()
		}
	}
}

func appendPublication(b []byte, p *publication) []byte {
	b = wire.String(b, 1, p.Database)
	var at int
	for i := range p.Notifications {
		b, at = wire.BeginLong(b, 3, p.Notifications[i].size())
		b = wire.End(appendNotification(b, &p.Notifications[i]), at)
	}
	return b
}

func readPublication(r *wire.Reader, p *publication) {
	for m := r.Open("notify.Publication"); r.Next(&m); {
		switch r.Field() {
		case 1:
			p.Database = r.String()
		case 3:
			readNotification(r, wire.Grow(r, &p.Notifications))
		default:
			r.Skip()
		}
	}
}

func appendNotification(b []byte, n *Notification) []byte {
	return wire.String(wire.String(wire.Int(b, 1, int64(n.Process)), 3, n.Channel), 5, n.Payload)
}

func readNotification(r *wire.Reader, n *Notification) {
	for m := r.Open("notify.Notification"); r.Next(&m); {
		switch r.Field() {
		case 1:
			n.Process = r.Int32()
		case 3:
			n.Channel = r.String()
		case 5:
			n.Payload = r.String()
		default:
			r.Skip()
		}
	}
}
