// Package fault makes schedules of what goes wrong: seeded, printable, and carried out through a small interface.
//
//	seed ---> Generate ---> Plan ---> String ---> committed with the fix, read back by Parse
//	                          |
//	                         Run(clock, Target): crash, restart, cut, heal, slow, skew, ...
//
// A plan is a list of actions at times since its start. Generate keeps these promises, so that a workload which runs
// under a plan can demand an outcome:
//
//	fault.F1: at most MaxDown nodes are crashed or isolated at any moment (give a minority, and the cluster must go on);
//	fault.F2: clocks stay within MaxSkew of true time, so any two are within twice that;
//	fault.F3: everything that is broken is repaired by the end: nodes restarted, links healed, disks sound, clocks right. After the end
//	    every request must succeed.
//
// One line of a plan, as String prints it:
//
//	1.25s crash n3
//	2s    cut n1 n4
//	2.5s  skew n2 -180ms
package fault
