package keys

import (
	"encoding/hex"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"meridian/encoding"
)

// PrettyPrint shows a key for people. It never fails: what it does not understand it prints in hexadecimal.
func PrettyPrint(k Key) string {
	var b strings.Builder
	printKey(&b, k)
	return b.String()
}

// Masked names a key without the bytes of a row: of a user's table it has the table, the index, and a hash of the rest. Texts of errors and logs come to places where a row
// may not be (docs/decisions/0012-regions.md, rule 7). The same key has the same name everywhere; the hash is not secret, so a value that can be guessed can be checked.
func Masked(k Key) string {
	_, _, rest, err := DecodeIndexKey(k)
	prefix := ""
	switch {
	case IsLocal(k):
		prefix = "/Local"
	case err != nil || len(rest) == 0:
		return PrettyPrint(k)
	default:
		prefix = PrettyPrint(k[:len(k)-len(rest)])
	}
	h := fnv.New64a()
	_, _ = h.Write(k)
	return prefix + "/#" + strconv.FormatUint(h.Sum64(), 16)
}

// PrettySpan shows a span.
func PrettySpan(s Span) string {
	if s.Point() {
		return PrettyPrint(s.Start)
	}
	return "[" + PrettyPrint(s.Start) + ", " + PrettyPrint(s.End) + ")"
}

func (k Key) String() string { return PrettyPrint(k) }

func (s Span) String() string { return PrettySpan(s) }

func printKey(b *strings.Builder, k Key) {
	switch {
	case len(k) == 0:
		b.WriteString("/Min")
	case k.Equal(Max):
		b.WriteString("/Max")
	case k[0] == 0x01:
		printLocal(b, k)
	case k[0] == Meta1Prefix[0]:
		b.WriteString("/Meta1")
		printKey(b, k[1:])
	case k[0] == Meta2Prefix[0]:
		b.WriteString("/Meta2")
		printKey(b, k[1:])
	case k[0] == SystemPrefix[0]:
		b.WriteString("/System")
		printSystem(b, k[1:])
	case k[0] == TablePrefix[0]:
		b.WriteString("/Table")
		printColumns(b, k[1:])
	default:
		printRaw(b, k)
	}
}

func printRaw(b *strings.Builder, k []byte) {
	if len(k) > 0 {
		b.WriteString("/0x" + hex.EncodeToString(k))
	}
}

func printSystem(b *strings.Builder, k []byte) {
	if len(k) == 0 {
		return
	}
	if n, err := DecodeNodeKey(append(SystemPrefix[:1:1], k...)); err == nil {
		b.WriteString("/" + string(k[:len(k)-5]) + "/" + strconv.Itoa(int(n)))
		return
	}
	for _, c := range k {
		if c < ' ' || c > '~' {
			printRaw(b, k)
			return
		}
	}
	b.WriteString("/" + string(k))
}

func printLocal(b *strings.Builder, k Key) {
	b.WriteString("/Local")
	if len(k) < 2 {
		printRaw(b, k[1:])
		return
	}
	switch k[1] {
	case localRangeID:
		if id, err := DecodeRangeIDKey(k); err == nil {
			b.WriteString("/RangeID/" + strconv.FormatUint(id, 10) + "/" + string(k[10]) + "/")
			name := map[string]string{"ul": "RaftLog", "uh": "HardState", "ut": "TruncatedState", "up": "ReplicaID",
				"ux": "Tombstone", "ra": "AppliedState", "rl": "Lease", "rg": "GCThreshold", "rn": "Seal", "ud": "Delta"}[string(k[10:12])]
			if name == "" {
				name = "0x" + hex.EncodeToString(k[11:12])
			}
			b.WriteString(name)
			if _, index, err := DecodeRaftLogKey(k); err == nil {
				b.WriteString("/" + strconv.FormatUint(index, 10))
			} else {
				printRaw(b, k[12:])
			}
			return
		}
	case localRange:
		if addr, rest, err := decodeRangeLocal(k); err == nil {
			b.WriteString("/Range")
			printKey(b, addr)
			switch {
			case len(rest) == 1 && rest[0] == nameDescriptor:
				b.WriteString("/Descriptor")
			case len(rest) == 17 && rest[0] == nameTxn:
				b.WriteString("/Txn/" + hex.EncodeToString(rest[1:5]))
			case len(rest) > 0 && rest[0] == nameProtocol:
				b.WriteString("/Protocol")
				printRaw(b, rest[1:])
			default:
				printRaw(b, rest)
			}
			return
		}
	case localStore:
		b.WriteString("/Store/" + strconv.QuoteToASCII(string(k[2:])))
		return
	case localLock:
		b.WriteString("/Lock")
		printKey(b, k[2:])
		return
	}
	printRaw(b, k[1:])
}

// printColumns shows encoded values.
func printColumns(b *strings.Builder, k []byte) {
	for len(k) > 0 {
		if k[0] == Interleaved {
			b.WriteString("/Interleaved")
			k = k[1:]
			continue
		}
		kind, d := encoding.Peek(k)
		rest, err := encoding.Skip(k)
		if err != nil {
			printRaw(b, k)
			return
		}
		b.WriteByte('/')
		switch kind {
		case encoding.Null:
			b.WriteString("NULL")
		case encoding.Bool:
			v, _, _ := encoding.DecodeBool(k, d)
			b.WriteString(strconv.FormatBool(v))
		case encoding.Int:
			if v, _, err := encoding.DecodeInt(k, d); err == nil {
				b.WriteString(strconv.FormatInt(v, 10))
			} else {
				u, _, _ := encoding.DecodeUint(k, d)
				b.WriteString(strconv.FormatUint(u, 10))
			}
		case encoding.Float:
			v, _, _ := encoding.DecodeFloat(k, d)
			b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
		case encoding.Decimal:
			var v apd.Decimal
			if _, err := encoding.DecodeDecimal(k, &v, d); err != nil {
				b.WriteString("?")
			} else {
				b.WriteString(v.String())
			}
		case encoding.Bytes:
			v, _, _ := encoding.DecodeString(k, d)
			b.WriteString(strconv.QuoteToASCII(v))
		default:
			b.WriteString("0x" + hex.EncodeToString(k[:len(k)-len(rest)]))
		}
		k = rest
	}
}
