// Package tpcc is TPC-C (revision 5.11): a wholesale supplier whose terminals enter orders, book payments and deliver.
//
//	warehouse --< district --< customer --< history        a warehouse has ten districts of 3,000 customers each,
//	    |                          |                       and a stock of each of the 100,000 items
//	    +--< stock >-- item     orders --< order_line
//	                               +-- new_order           the orders that wait for their delivery
//
// Tables, sizes, values, transactions, shares, waits and the twelve consistency conditions are the specification's. Each transaction takes few
// round trips: its statements travel in batches, and each statement names all its rows. The SQL is PostgreSQL's, so the same program measures PostgreSQL.
//
//	new-order     45 %   2 round trips   one order of 5 to 15 lines, 1 % of the lines from another warehouse; 1 % of the orders rolled back
//	payment       43 %   1 or 2          15 % by a customer of another warehouse; 60 % find the customer by last name
//	order-status   4 %   1 or 2          a customer's last order
//	delivery       4 %   3               the oldest order of each district of a warehouse
//	stock-level    4 %   1               items of a district's last 20 orders that run short
//
// With waits, a terminal keys and thinks as long as the specification wants, so ten terminals per warehouse give at most 12.86 new orders per minute.
// Efficiency is the share of that. Without waits a terminal has no home: it draws a warehouse for each transaction, so that few connections
// use all rows.
//
// Departures. ORDER is called orders, because the specification's name is a word of SQL. All items of an order differ. A delivery is not queued
// but done while its terminal waits. The 90th percentiles are reported but not judged. ScaleDown makes small tables, for tests.
//
// With regions, each warehouse is at home in one of them, its rows are REGIONAL BY ROW, item is GLOBAL, and terminals use a
// gateway of their warehouse's region (CRDB'22 §7.3 and §7.4).
package tpcc
