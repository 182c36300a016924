package truetime

import (
	"encoding/binary"
	"time"

	"meridian/clock"
)

// The fields of a packet that a server needs (RFC 5905 §7.3):
//
//	 0  leap indicator, version, mode   1  stratum   2  poll   3  precision
//	 4  root delay       8  root dispersion        12  reference identifier
//	16  reference time  24  origin time  32  receive time  40  transmit time
const (
	modeClient, modeServer = 3, 4
	oldestVersion          = 3
	newestVersion          = 4
	// precision is the exponent of 2 s that a master claims: a nanosecond.
	precision = -30
	// unixEpoch is the number of seconds from NTP's epoch, 1900, to Unix's.
	unixEpoch = 2_208_988_800
)

// reply is what a master answers.
type reply struct {
	unsynchronised bool
	// received and sent are readings of its clock, truth the interval of the latter moment, and set the time at which its reference was last read.
	received, sent, set int64
	truth               clock.Interval
}

// isQuestion reports whether a packet is a client's.
func isQuestion(p []byte) bool {
	if len(p) < packetBytes {
		return false
	}
	version := p[0] >> 3 & 7
	return p[0]&7 == modeClient && version >= oldestVersion && version <= newestVersion
}

// append writes the answer to a question. Its root dispersion is the master's epsilon, rounded up.
func (r *reply) append(question []byte) []byte {
	p := make([]byte, packetBytes)
	leap, stratum := byte(0), byte(1)
	if r.unsynchronised {
		leap, stratum = unsynchronisedLeap, unsynchronisedStratum
	}
	p[0] = leap<<6 | question[0]&0x38 | modeServer
	p[1], p[2] = stratum, question[2]
	p[3] = byte(precision & 0xff)
	binary.BigEndian.PutUint32(p[8:], short(r.truth.Epsilon()))
	copy(p[12:], "MRDN")
	binary.BigEndian.PutUint64(p[16:], stamp(r.set))
	copy(p[24:], question[40:48])
	binary.BigEndian.PutUint64(p[32:], stamp(r.received))
	binary.BigEndian.PutUint64(p[40:], stamp(r.sent))
	return p
}

// short is a duration in units of 2^-16 s, rounded up.
func short(d time.Duration) uint32 {
	const most = 1<<32 - 1
	if d >= 1<<16*time.Second {
		return most
	}
	return uint32(min((uint64(max(d, 0))<<16+uint64(time.Second)-1)/uint64(time.Second), most))
}

// stamp is a time in units of 2^-32 s, of the era in which it is.
func stamp(unix int64) uint64 {
	seconds, rest := unix/int64(time.Second), unix%int64(time.Second)
	if rest < 0 {
		seconds, rest = seconds-1, rest+int64(time.Second)
	}
	return uint64(uint32(seconds+unixEpoch))<<32 | uint64(rest)<<32/uint64(time.Second)
}
