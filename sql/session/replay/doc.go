// Package replay records the statements of a transaction so that they can be run again, and compares their new answers with those that the
// client already has (session.S2).
//
// A transaction that loses a conflict is run again by the gateway, in a new attempt of the same transaction or, where the old identity
// is lost, as another one with a higher priority. Answers that have not been sent yet are written anew. Answers that the client has are
// compared: a statement must write the same bytes again, otherwise the client gets 40001. This is what one transaction looks like on the
// wire when its third statement conflicts:
//
//	           sent, fingerprint kept              still in the buffer
//	.------------------------------------. .------------------------------.
//	BEGIN  [ 1: T D D C ]  Z  [ 2: C ]  Z  1 2 [ 3: T D C ]  1 2 [ 4: ...
//	         compared          compared    gap   written anew  gap  goes on
//
// Gaps are the protocol's messages between statements; they are written again as they were.
//
// A session has one Log, which records one transaction after the other. The session calls, in this order,
//
//	Begin ... Ended                          for each statement, which the Log keeps (or TurnOff notes why not)
//	LayOut, Start, for each step:            when a statement has lost a conflict, as often as necessary
//	    Place, (the session runs it), Compare
//	Resume, Place of the present statement
//	Done
//
// A statement that runs again gets the same numbers of sequences (Draw) and the same data for its COPY (Tape) as in its first run.
package replay
