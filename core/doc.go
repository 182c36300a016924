// Package core is the shape that every protocol core has.
//
// A core is a protocol as a value: messages and clock readings in, effects out. It never blocks, starts a goroutine,
// reads a clock, opens a file or rolls dice. A driver is a short loop that feeds a core and carries out its effects; it
// decides nothing about the protocol. A host is what the machine lends to the driver.
//
//	         messages, clock readings, "durable up to ticket t"
//	driver ------------------------------------------------------> core
//	       <------------------------------------------------------
//	         Effects: Persist, Send, After, Apply, Wake
//
// The rules that the test suite stands on:
//
//	core.K1: determinism: Step on the same state with the same input gives the same effects, always. So a core has no maps whose iteration
//	    order shows, and its random numbers arrive as messages;
//	core.K2: durable before sent: a message that promises something (a vote, an acknowledgement) is in After, and the driver
//	    sends it only once Persist of the same Effects is on disk. Send is for messages that promise nothing;
//	core.K3: Durable is called with tickets in order, each once, and means that every Persist up to it is on disk (I1);
//	core.K4: a driver drains Effects after every Step, Tick and Durable, and applies Apply in order.
//
// A core may read through a view that it is handed, but writes only by effects. Long work leaves as an effect and comes
// back as a message, so that a step stays short. The driver of a range, in replica, carries out many cores' Persist
// with one sync of the store's disk.
//
// Replay is the test harness of a core: it feeds a script and prints the trace, and CheckDeterminism runs a script
// twice and compares.
package core
