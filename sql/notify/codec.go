package notify

import "meridian/wire"

func (m *message) fields(c *wire.Coder) {
	c.Message("notify.Message", wire.Skips)
	c.Sfixed64(1, &m.Run)
	wire.Uint64(c, 3, &m.First)
	wire.Large(c, 5, &m.Publications, (*publication).fields, (*publication).size)
}

func (p *publication) fields(c *wire.Coder) {
	c.Message("notify.Publication", wire.Skips)
	c.String(1, &p.Database)
	wire.Large(c, 3, &p.Notifications, (*Notification).fields, (*Notification).size)
}

func (n *Notification) fields(c *wire.Coder) {
	c.Message("notify.Notification", wire.Skips)
	c.Int32(1, &n.Process)
	c.String(3, &n.Channel)
	c.String(5, &n.Payload)
}
