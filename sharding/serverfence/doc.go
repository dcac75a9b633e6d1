// Package serverfence is the half of I6 that lives in the API server: admission policies by which the
// server itself refuses a write of a replica that does not hold the shard's Lease, whatever that
// replica believes, and the proof that they are in force.
//
// [Policy] builds the policies, purely; a program writes them into a manifest, and an administrator
// applies it. [Prove] and [Monitor] find out, from inside the operator and with no right beyond those
// that it has anyway, whether the server refuses what it should.
//
// It decides nothing about who holds a shard: the Lease does. It never writes anything that stays (its
// probes are dry runs), never changes a policy, and stops no replica: the client half, package guard,
// refuses calls by itself, and where the server has no such policies it is alone.
//
// There are two policies, and both look only at writes of the operator's service account to the kinds
// that are named to them:
//
//	NAME-fence-shard   one binding a shard, its parameter is the shard's Lease, its object selector the
//	                   shard's label: the new object's label (of a deletion, the old one's) is not this
//	                   Lease's shard, or the caller's Pod is the holder that the Lease names
//	NAME-fence-label   the new object (of a deletion, the old one) has a label in 0..S-1
//
// A selector matches the new or the old object. So an object whose label was changed matches two
// bindings, and the rule lets the owner of its new label through: that is how a wrong label is mended.
//
// The metric:
//
//	sharding_server_fence_active  gauge: 1 when the last proof succeeded, else 0 (min over replicas)
//
// Everything is safe for concurrent use.
package serverfence
