// Package movr is a company that rents bikes, scooters and skateboards in cities of three regions: the sample that
// `meridian demo` loads, and a workload of its customers' operations.
//
//	users ----< rides >---- vehicles          every key begins with the city, so a region's cities can be kept
//	  |           |            |              together, near the people who live there
//	  |           |            +-- owner: a user of the same city
//	  |           +----< vehicle_location_histories
//	  +----< user_promo_codes >---- promo_codes
//
// A ride without an end keeps its vehicle "in_use"; that is what Check verifies, in one statement and so in one
// snapshot: as many vehicles are in use as rides are open, each open ride's vehicle is in use, and no vehicle is on two
// rides. Starting and ending a ride each change two tables in one transaction. Both are conditional updates, so the
// workload is right under READ COMMITTED too and can measure PostgreSQL as it comes.
//
// The rows are made from a seed: two loads of one size are equal, which lets documents quote them.
package movr
