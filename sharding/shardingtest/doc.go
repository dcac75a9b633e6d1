// Package shardingtest has what users of the sharding library need in their own tests: a guard that
// owns what the test says it owns, and a Leases API in memory that can fail, delay and lose answers.
//
// Leases and a real API server pass the same contract, LeasesContract.
package shardingtest
