// Package sharding makes a controller-runtime operator horizontally scalable: every replica of
// the operator's StatefulSet owns some shards of the cluster's namespaces, caches only what is in
// them, and reconciles only that.
//
// The package decides which replica may act on a namespace, and until when. It refuses to decide
// what is done there: it knows no API type of the operator that uses it.
//
// # Words
//
//	replica    one operator process in one Pod of the operator's StatefulSet
//	identity   podName_podUID_nonce, new with every process and every rejoin
//	shard      a fixed slice of the namespaces: mix(hash(namespace)) mod S; S is 64 by default
//	member     a Pod name that is expected to work: the ordinals below spec.replicas
//	           (live when P records a serving identity under it)
//	placement  the one published object P: settings, processes with their state, homes, deputies
//	weight     what a shard costs, folded into P from what its holders publish every few minutes
//	home       the member that placement gives a shard to
//	deputy     the member that acts while the home is not live
//	claim      a process holding a shard's Lease; its epoch is the resourceVersion of the write
//	           that acquired it
//	handover   a shard going from one live process to another; failover when the first is dead
//	gap        from the last moment the old owner could have admitted work of the shard to the
//	           first that the new owner admits
//	scope      the part of the API cached for some shards: one scope a namespace
//	directory  the metadata-only index of which namespaces hold root objects, and how many
//
// # Invariants
//
//   - I1 exclusion: no two processes act on one namespace at the same time. A process stops
//     starting calls for a shard, and has none in flight that can change anything, before the
//     shard's Lease can be taken by another; if it cannot achieve that in time it exits.
//   - I2 liveness: while one replica lives, every shard is owned. Planned handover: gap under
//     250 ms at p99. Death confirmed by the kubelet's status: under 2 s from that status.
//     Unconfirmed death: Lease duration + 2 s.
//   - I3 agreement: placement is an object in the API; an equal version means an equal placement.
//     It is a function of P, the expected members, the recorded states and the published weights,
//     never of a replica's cache, its clock, or who happens to hold a Lease at the moment.
//   - I4 stability: without weights every member's home count is floor or ceil of the mean and a
//     change of members moves exactly the optimum; with weights the bound is 1.15 x max(mean,
//     heaviest shard) of weight instead, and a change moves no more than the greedy rule of
//     docs/design/0002-placement.md needs. Failures and restarts move no home in either case: a
//     restarted Pod gets its own shards back, so a shard moves at most twice in a rolling restart.
//   - I5 completeness: on acquiring a shard every root object in it is reconciled at least once; a
//     key of a shard that is not held is dropped when it is taken from the queue, and its timers
//     with it; nothing of it stays cached.
//   - I6 fencing: a process that was paused, cut off or slow past its Lease starts no call after
//     the moment the Lease could have been taken: checked against the monotonic clock, at each
//     call, from when the last renewal was sent; and where the API server supports it, the server
//     refuses such a write by itself (package serverfence).
//
// # One shard in one replica
//
// Three facts move on their own, and [Machine.Step] draws its conclusions from their combination:
// whether the replica holds the claim, whether its scopes are loaded, and whether it admits work.
//
//	           placement names this replica
//	idle ---------------------------------------> warming
//	 ^  ^                                            | scopes loaded; published in the
//	 |  |  placement names another                   | presence Lease with P's version
//	 |  +------------------------------------------ warm
//	 |                                               | Lease seen free (or emptied: its holder
//	 |                                               | is dead or its Lease expired), acquired
//	 |                                               v
//	 |                                             held
//	 |                                               | placement still names it, scopes warm,
//	 |                                               | settled
//	 |             renewals fail, watch stalls       v
//	 |            +---------------------------- admitting <-----------------+
//	 |            v                                  |                      | drain overran:
//	 |         stalled ----(recovered)--> admitting  | winner is warm,      | reported, tried
//	 |            | deadline, or another             | or stopping          | again later
//	 |            | holder                           v                      |
//	 |            v                               draining -----------------+
//	 +----- (claim lost)                             | no call in flight
//	 |                                               v
//	 +------------------------------------------ releasing
//
// A failover claims first and warms afterwards. See docs/design/0001-ownership-protocol.md for why
// Leases, why one placement object, and why epochs.
//
// # Usage
//
//	s, err := sharding.New(cfg, sharding.Options{
//		Namespace:   "my-operator-system",      // the operator's own namespace
//		Member:      os.Getenv("POD_NAME"),
//		StatefulSet: "my-operator",             // spec.replicas gives the expected members
//		RootKinds:   []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap")},
//	})
//	options := ctrl.Options{}
//	s.ManagerOptions(&options)                      // cache, client, no leader election
//	mgr, err := ctrl.NewManager(cfg, options)
//	err = s.Attach(mgr)                             // coordinator and directory
//	err = mgr.AddReadyzCheck("sharding", s.ReadyCheck)
//	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
//		Complete(s.Reconciler(&reconciler{mgr.GetClient()}))
//	err = mgr.Start(ctx)
//
// One shard (Options.Shards: 1) gives the classic single leader.
//
// # Concurrency
//
// [Sharding] is safe for concurrent use. [Machine] is not: one goroutine, the coordinator's, owns it.
package sharding
