package sharding

// The metrics of this package, all of them on Options.Registerer. Every replica exports its own
// view; what a panel should sum and what it should take the maximum of is said with each.
//
//	sharding_members{state}                 gauge: processes in P by state: joining, serving, leaving, dead (max over replicas)
//	sharding_expected_members               gauge: members that P expects to work (max)
//	sharding_shards{state}                  gauge: shards of this replica by state: warming, warm, claiming, held, admitting, draining, stalled
//	sharding_shards_owned                   gauge: shards that this replica admits work of (sum; by instance for "shards by owner")
//	sharding_shards_home                    gauge: shards whose home is this replica's member (sum)
//	sharding_shards_unowned                 gauge: shards whose Lease nobody holds, or whose holder's Lease has expired, as seen here (max)
//	sharding_unowned_seconds_total          counter: shard-seconds for which nobody admitted work of a shard that this replica then took (sum)
//	sharding_handovers_total{role}          counter: planned handovers, role winner or loser (sum)
//	sharding_failovers_total{cause}         counter: takeovers from a process that did not release: confirmed, expired (sum)
//	sharding_claims_lost_total{reason}      counter: claims that ended without a release: deadline, taken, missing
//	sharding_gap_seconds{kind}              histogram: kind handover or failover; from when the shard was last owned as seen here to the admission
//	sharding_drain_seconds                  histogram: from the end of admission to the last call's end
//	sharding_drain_overruns_total           counter: drains that overran their bound and were tried again
//	sharding_warm_seconds                   histogram: loading all scopes of one shard
//	sharding_warm_stuck_scopes              gauge: namespaces that have not synced for 10 s (sum)
//	sharding_scopes                         gauge: namespaces cached on this replica (sum)
//	sharding_placement_version              gauge: resourceVersion of P as seen here
//	sharding_placement_changes_total        counter: versions of P seen here
//	sharding_placement_writes_total{result} counter: writes of P by this replica: ok, conflict, error
//	sharding_guard_refusals_total{reason}   counter: calls that the guard refused: not_admitted, draining, expired, stale_epoch
//	sharding_queue_drops_total              counter: keys dropped when taken from the queue, since their shard is not held
//	sharding_ready                          gauge: 1 when /readyz passes
