// Package check decides from recorded histories whether an installation of the operator kept its
// invariants. It does not ask the operator: what it goes by is
//
//   - the API server's audit log: every version of the shard Leases and of the placement object, every
//     write that the operator's service account made, with the Pod that the server says it came from and
//     the claim in its User-Agent, every generation of the root objects, and every watch,
//   - what Redis servers executed, from their SLOWLOG, in their own order and by the connections' names,
//   - the figures of the processes, from their metrics.
//
// All versions come from one etcd and so have one order. Times are the API server's; the log is that of
// one server, or of several with one clock.
//
// It decides
//
//   - overlap (I1, I6): a write or a Redis command of a process that did not hold the shard at that
//     moment, or of an older epoch after one of a newer,
//   - unowned (I2): a shard that nobody held for longer than what was broken meanwhile explains,
//   - incomplete (I5): a generation of a root object that was not observed in time,
//   - leftover (I5): watches, goroutines, cached namespaces or queued keys that remain of lost shards,
//   - unknown: what the log does not account for, such as a claim that no Lease ever had.
//
// It computes the shard of a namespace and reads the placement by itself, and imports nothing of the
// operator. All of it is pure; a History is safe for concurrent use once it has been read.
package check
