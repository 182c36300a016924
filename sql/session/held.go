package session

import (
	"meridian/sql/memory"
)

// savepointBytes is the memory of a savepoint besides its name and the list of settings.
const savepointBytes = 512

// held is the memory of a session: the session's account, and below it those of the running statement and of the open transaction (I9).
// Apart from statements, portals and their rows a session holds little, unless its client sets parameters to texts of megabytes
// (parameter.Values), or makes a million savepoints. The sizes are estimates.
type held struct {
	memory       *memory.Account
	perStatement int64 // the limit of each statement's account
	accounts     []*memory.Account
	inTxn        *memory.Account // nil: the transaction holds nothing yet
}

// Memory is the session's account, for the buffers of its connection.
func (h *held) Memory() *memory.Account { return h.memory }

// account opens an account that ends with the running statement.
func (h *held) account() *memory.Account {
	n := len(h.accounts)
	if n < cap(h.accounts) {
		h.accounts = h.accounts[:n+1]
	} else {
		h.accounts = append(h.accounts, nil)
	}
	if h.accounts[n] == nil {
		h.accounts[n] = &memory.Account{}
	}
	h.accounts[n].Begin(h.memory, h.perStatement)
	return h.accounts[n]
}

// portalAccount opens an account for the rows of a portal, which outlives its statement.
func (h *held) portalAccount() *memory.Account { return h.memory.NewStatement(h.perStatement) }

// endStatement releases the memory of the running statement's accounts.
func (h *held) endStatement() {
	for _, a := range h.accounts {
		a.Close()
	}
	h.accounts = h.accounts[:0]
}

// txnMemory is the account of the open transaction's memory in the session, until it ends.
func (h *held) txnMemory() *memory.Account {
	if h.inTxn == nil {
		h.inTxn = h.memory.NewStatement(0)
	}
	return h.inTxn
}

// endTxn releases the transaction's memory.
func (h *held) endTxn() {
	if h.inTxn != nil {
		h.inTxn.Close()
	}
}

// close releases everything, at the session's end.
func (h *held) close() {
	h.endTxn()
	h.endStatement()
	h.memory.Close()
}
