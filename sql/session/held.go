package session

import "meridian/sql/memory"

// What a session holds besides its statements, portals and their rows is small, unless a client makes it large: it sets
// parameters to texts of megabytes, or a million savepoints. So that is accounted for too (I9), in estimates of ours.
const (
	// settingBytes and savepointBytes are what one occupies besides its texts.
	settingBytes   = 128
	savepointBytes = 512
	// settingsFree is below which the settings are not counted anew at the end of a transaction.
	settingsFree = 16 << 10
)

// txnMemory is the account of what the open transaction holds in the session, until it ends.
func (s *Session) txnMemory() *memory.Account {
	if s.inTxn == nil {
		s.inTxn = s.memory.NewStatement(0)
	}
	return s.inTxn
}

// closeTxnMemory gives back what the transaction held.
func (s *Session) closeTxnMemory() {
	if s.inTxn != nil {
		s.inTxn.Close()
	}
	s.settleSettings()
}

// settleSettings gives back the memory of settings that were replaced, reset or undone. It counts them only when they hold twice
// what they did when they were counted last, so that a client that sets many does not have all counted for each.
func (s *Session) settleSettings() {
	if s.settingsHeld > settingsFree && s.settingsHeld > 2*s.settingsCounted {
		s.countSettings()
	}
}

func (s *Session) countSettings() {
	now := s.params.bytes()
	s.memory.Shrink(s.settingsHeld - now)
	s.settingsHeld, s.settingsCounted = now, now
}

// holdSetting takes the memory of a setting's new value. The one before it may have to come back when the transaction is
// rolled back.
func (s *Session) holdSetting(name, value string) error {
	n := int64(settingBytes + len(name) + len(value))
	err := s.memory.Grow(n)
	if err != nil {
		s.countSettings()
		err = s.memory.Grow(n)
	}
	if err != nil {
		return err
	}
	s.settingsHeld += n
	return nil
}

// bytes is what the settings occupy that are not the defaults.
func (p *parameters) bytes() int64 {
	n := 0
	for _, m := range []map[string]string{p.session, p.local, p.saved} {
		for k, v := range m {
			n += settingBytes + len(k) + len(v)
		}
	}
	return int64(n)
}

// holdSavepoint takes the memory of a savepoint, which has a copy of the list of settings.
func (s *Session) holdSavepoint(name string) error {
	return s.txnMemory().Grow(savepointBytes + int64(len(name)) + int64(len(s.params.session)+len(s.params.local))*settingBytes)
}
