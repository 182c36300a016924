// Package ycsb is the core workloads A to F of the Yahoo! Cloud Serving Benchmark.
package ycsb
