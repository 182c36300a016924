// Package process runs the real binary: builds it, starts nodes on free ports of this machine with stores in a
// directory, begins the cluster, and kills, stops and restarts its nodes. These tests show properties that simulation cannot show: that
// flags, sockets, files and signals work, and that a process may die at any instruction.
//
//	Build --> Start(nodes) --> Init --> WaitReplicated      then:  Kill (SIGKILL)   Stop (SIGTERM)   Start again
//
// Nodes die with the process that started them, however it ends, where the operating system can promise that (Linux);
// Close ends them in any case.
package process
