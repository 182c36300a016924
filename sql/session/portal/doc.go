// Package portal has the named objects of a session that outlive a message: prepared statements, and the portals in which they are bound
// and run. Two sets have them (Statements, Portals), and account for their memory in the session's.
//
//	         Parse, PREPARE        Bind                    Execute
//	text  ------------------> Statement ------> Portal ------------> rows
//	                          until DEALLOCATE    |  until Close, or its transaction ends
//	         DECLARE CURSOR                       |
//	query ----------------------------------------+  WITH HOLD: until the session ends, once its transaction has committed
//
// A SQL cursor is a portal that DECLARE makes. Rows come from the running query as they are asked for; those of a cursor that may
// scroll are kept, so that it can go back:
//
//	       kept: 1 2 3 4          read: 4        not read yet
//	pos:   0 . . . ^ .                           (pos 0 is before the first row, read+1 after the last)
//
// Rules:
//
//	portal.PO1: a cursor shows the rows as they were at DECLARE: before a statement of its transaction writes, the remaining rows are read
//	    (Freeze);
//	portal.PO2: a cursor WITH HOLD is read to its end before its transaction commits (Materialize), and then belongs to the session;
//	portal.PO3: a cursor with neither SCROLL nor NO SCROLL may go back while its rows occupy less than scrollBytes.
//
// The set does not know how a query is planned or started: a portal gets the rows of its query (Open), and a cursor a function that starts
// it anew.
package portal
