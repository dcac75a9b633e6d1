// Package scopedcache is a controller-runtime cache whose namespaces come and go while it runs.
//
// It decides what is cached: everything of the scopes (namespaces) that were added, the declared
// shared namespaces, and the cluster-scoped kinds; nothing else. It refuses to answer for a
// namespace that is not cached: such a read is a NotOwnedError, never NotFound and never an empty
// list, because "not mine" must never look like "deleted". It does not decide which namespaces
// those are; the coordinator does.
//
// Cache implements cache.Cache, so that the standard builder (For, Owns, Watches) works over it
// unchanged. Handlers and index fields are registered once and follow every scope, present and
// future. What a handler can rely on:
//
//   - The calls of one handler come one after another. For one object they come in the order in
//     which the API server reported the changes; an Add or an Update may come more than once.
//   - Objects of a scope that is being added come as initial (isInInitialList) Adds, so that a
//     priority queue puts them behind everything else. They come while the scope is still warming
//     and its shard is not admitted, and the guard drops what they enqueue. Replay, called after
//     the shard is admitted, delivers each object that is cached at that moment once more, as an
//     ordinary Add. What changes before Replay is covered by Replay, what changes after it comes
//     as an ordinary event of an admitted shard; so nothing falls between (I5).
//   - Removing a scope delivers nothing: no Delete, and nothing that was still queued.
//
// A Cache is safe for concurrent use.
package scopedcache
