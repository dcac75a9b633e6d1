package dashboards

// Sharding is the dashboard of who owns what, how handovers go, and what each replica does.
func Sharding() Dashboard {
	return Dashboard{
		File:        "sharding.json",
		UID:         "redis-operator-sharding",
		Title:       "Redis operator: sharding",
		Description: "Which replica owns which share of the namespaces, how shards go from one to another, and what each replica does.",
		Rows:        []Row{members(), ownership(), handovers(), scopes(), work(), clusters(), process()},
	}
}

// one is a panel with a single query.
func one(p Panel, expr, legend string) Panel {
	p.Queries = []Query{{Expr: expr, Legend: legend}}
	return p
}

func members() Row {
	return Row{Title: "Members", Panels: []Panel{
		{
			Title: "Members", Kind: Number, Unit: Count,
			Question: "How many members are expected, how many serve, how many are ready?",
			Bad:      "Fewer serving or ready than expected for more than a minute.",
			Queries: []Query{
				{Expr: `max(sharding_expected_members)`, Legend: "expected"},
				{Expr: `max(sharding_members{state="serving"})`, Legend: "serving"},
				{Expr: `sum(sharding_ready)`, Legend: "ready"},
			},
		},
		one(Panel{
			Title: "Server fence", Kind: Number, Unit: Count,
			Question: "Has every replica proved that the API server refuses writes of who does not hold the shard?",
			Bad:      "0: the policies are missing or do not fit, see the replicas' logs; the guard in each replica is alone.",
		}, `min(sharding_server_fence_active)`, "proved"),
		one(Panel{
			Title: "Processes by state", Unit: Count,
			Question: "Which processes does the placement record, and in what state?",
			Bad:      "joining or leaving that does not end within the handover bound.",
		}, `max by (state) (sharding_members)`, "{{state}}"),
		{
			Title: "Placement", Unit: PerSecond,
			Question: "How often does the placement change, and do the replicas compete in writing it?",
			Bad:      "Changes while no member comes or goes; conflicts or errors that do not stop.",
			Queries: []Query{
				{Expr: `max(rate(sharding_placement_changes_total[$__rate_interval]))`, Legend: "changes"},
				{Expr: `sum by (result) (rate(sharding_placement_writes_total[$__rate_interval]))`, Legend: "writes: {{result}}"},
			},
		},
		one(Panel{
			Title: "Placement version", Unit: Count,
			Question: "Do all replicas act on the same placement?",
			Bad:      "Lines that stay apart: a replica does not see the placement object.",
		}, `max by (pod) (sharding_placement_version)`, "{{pod}}"),
	}}
}

func ownership() Row {
	return Row{Title: "Ownership", Panels: []Panel{
		one(Panel{
			Title: "Shards by owner", Kind: Stacked, Unit: Count,
			Question: "How many shards does each replica admit work of?",
			Bad:      "A sum below the number of shards, or one replica with far more than the others.",
		}, `sum by (pod) (sharding_shards_owned)`, "{{pod}}"),
		one(Panel{
			Title: "Shards by home", Kind: Stacked, Unit: Count,
			Question: "How many shards does the placement give to each replica?",
			Bad:      "Differences of more than one shard between replicas, where the placement records no weights.",
		}, `sum by (pod) (sharding_shards_home)`, "{{pod}}"),
		{
			Title: "Weight by owner", Unit: Count,
			Question: "How much do the shards of each replica weigh, and what is the most that they are to? Small installations record no weights: the number of shards then, and a bound of 0.",
			Bad:      "A replica over the bound for longer than ten minutes; see docs/operations.md on giant namespaces.",
			Queries: []Query{
				{Expr: `sum by (pod) (sharding_shard_weight) or sum by (pod) (sharding_shards_owned)`, Legend: "{{pod}}"},
				{Expr: `max(sharding_weight_bound)`, Legend: "bound"},
			},
		},
		one(Panel{
			Title: "Unowned shards", Unit: Count,
			Question: "How many shards has nobody, as the worst informed replica sees it?",
			Bad:      "Anything above zero for longer than a Lease duration.",
		}, `max(sharding_shards_unowned)`, "unowned"),
		one(Panel{
			Title: "Unowned seconds", Unit: Seconds,
			Question: "How many shard-seconds went by in five minutes without an owner?",
			Bad:      "More than the number of shards of a lost replica times the Lease duration.",
		}, `sum(increase(sharding_unowned_seconds_total[5m]))`, "shard-seconds"),
		one(Panel{
			Title: "Shards by state", Kind: Stacked, Unit: Count,
			Question: "In which state are the shards that the replicas deal with?",
			Bad:      "warming, held, stalled, draining or releasing that does not end.",
		}, `sum by (state) (sharding_shards)`, "{{state}}"),
	}}
}

func handovers() Row {
	return Row{Title: "Handovers and failovers", Panels: []Panel{
		one(Panel{
			Title: "Handovers", Unit: Count,
			Question: "How many shards were handed over by plan in five minutes?",
			Bad:      "Handovers while no member comes or goes.",
		}, `sum by (role) (increase(sharding_handovers_total[5m]))`, "{{role}}"),
		one(Panel{
			Title: "Failovers", Unit: Count,
			Question: "How many shards were taken from processes that did not hand them over?",
			Bad:      "expired: a death that the kubelet did not confirm, so it took a Lease duration.",
		}, `sum by (cause) (increase(sharding_failovers_total[5m]))`, "{{cause}}"),
		one(Panel{
			Title: "Gap, p99", Unit: Seconds,
			Question: "For how long was a shard without an owner when it moved?",
			Bad:      "handover above 250 ms; failover above the Lease duration and 2 s.",
		}, `histogram_quantile(0.99, sum by (le, kind) (increase(sharding_gap_seconds_bucket[5m])))`, "{{kind}}"),
		{
			Title: "Drain and warm, p99", Unit: Seconds,
			Question: "How long does a drain take, and the loading of a shard's scopes?",
			Bad:      "A drain near its bound: a call to Redis or the API server hangs.",
			Queries: []Query{
				{Expr: `histogram_quantile(0.99, sum by (le) (increase(sharding_drain_seconds_bucket[5m])))`, Legend: "drain"},
				{Expr: `histogram_quantile(0.99, sum by (le) (increase(sharding_warm_seconds_bucket[5m])))`, Legend: "warm"},
			},
		},
		one(Panel{
			Title: "Drain overruns", Unit: Count,
			Question: "How many drains ran over their bound, so that the shard stayed where it was?",
			Bad:      "Any that repeat: the shard cannot move.",
		}, `sum(increase(sharding_drain_overruns_total[5m]))`, "overruns"),
		one(Panel{
			Title: "Claims lost", Unit: Count,
			Question: "How many claims ended without a release, and why?",
			Bad:      "deadline: renewals fail. taken or emptied: somebody else wrote the Lease.",
		}, `sum by (reason) (increase(sharding_claims_lost_total[5m]))`, "{{reason}}"),
	}}
}

func scopes() Row {
	return Row{Title: "Scopes and guard", Panels: []Panel{
		one(Panel{
			Title: "Namespaces cached", Kind: Stacked, Unit: Count,
			Question: "How many namespaces does each replica cache?",
			Bad:      "One replica with far more than the others: heavy shards.",
		}, `sum by (pod) (sharding_scopes)`, "{{pod}}"),
		one(Panel{
			Title: "Stuck scopes", Unit: Count,
			Question: "How many namespaces have not loaded for ten seconds?",
			Bad:      "Anything above zero: the log names the namespaces.",
		}, `sum by (pod) (sharding_warm_stuck_scopes)`, "{{pod}}"),
		one(Panel{
			Title: "Refused calls", Unit: PerSecond,
			Question: "How many calls does the guard refuse, and why?",
			Bad:      "expired or stale_epoch: a process that was too slow for its Lease.",
		}, `sum by (reason) (rate(sharding_guard_refusals_total[$__rate_interval]))`, "{{reason}}"),
		one(Panel{
			Title: "Dropped keys", Unit: PerSecond,
			Question: "How many queued keys were dropped, since their shard had gone?",
			Bad:      "A rate that goes on while no shard moves.",
		}, `sum by (pod) (rate(sharding_queue_drops_total[$__rate_interval]))`, "{{pod}}"),
	}}
}

func work() Row {
	return Row{Title: "Work", Panels: []Panel{
		one(Panel{
			Title: "Reconciles by replica", Kind: Stacked, Unit: PerSecond,
			Question: "How is the work spread over the replicas?",
			Bad:      "One replica does most of it, or one none.",
		}, `sum by (pod) (rate(controller_runtime_reconcile_total[$__rate_interval]))`, "{{pod}}"),
		one(Panel{
			Title: "Reconciles by result", Unit: PerSecond,
			Question: "How do the reconciles end?",
			Bad:      "error that does not go back to zero.",
		}, `sum by (result) (rate(controller_runtime_reconcile_total[$__rate_interval]))`, "{{result}}"),
		one(Panel{
			Title: "Queue age, p99", Unit: Seconds,
			Question: "How long do keys wait in each replica's queue?",
			Bad:      "Seconds: too few workers or too few replicas.",
		}, `histogram_quantile(0.99, sum by (le, pod) (increase(workqueue_queue_duration_seconds_bucket[5m])))`, "{{pod}}"),
		one(Panel{
			Title: "Queue depth", Unit: Count,
			Question: "How many keys wait in each replica's queue?",
			Bad:      "A depth that only grows.",
		}, `sum by (pod) (workqueue_depth)`, "{{pod}}"),
		one(Panel{
			Title: "Reconcile duration, p99", Unit: Seconds,
			Question: "How long does a reconcile take, the keys that were dropped included?",
			Bad:      "Above 5 s, the deadline of a pass.",
		}, `histogram_quantile(0.99, sum by (le, pod) (increase(controller_runtime_reconcile_time_seconds_bucket[5m])))`, "{{pod}}"),
	}}
}

func clusters() Row {
	return Row{Title: "RedisClusters", Panels: []Panel{
		one(Panel{
			Title: "Clusters by phase", Kind: Stacked, Unit: Count,
			Question: "How are the RedisClusters?",
			Bad:      "Degraded or Failed that stays; a sum below the number of RedisClusters: some have no owner.",
		}, `sum by (phase) (redis_operator_clusters)`, "{{phase}}"),
		one(Panel{
			Title: "Clusters by replica", Kind: Stacked, Unit: Count,
			Question: "How many RedisClusters does each replica own?",
			Bad:      "One replica with far more than the others.",
		}, `sum by (pod) (redis_operator_clusters)`, "{{pod}}"),
		{
			Title: "Clusters", Kind: Number, Unit: Count,
			Question: "How many RedisClusters are Ready, and how many have all their slots served?",
			Bad:      "Less than all of them.",
			Queries: []Query{
				{Expr: `count(redis_operator_cluster_ready)`, Legend: "all"},
				{Expr: `sum(redis_operator_cluster_ready)`, Legend: "ready"},
				{Expr: `sum(redis_operator_cluster_slots_assigned == bool 16384)`, Legend: "all slots"},
			},
		},
		{
			Title: "Nodes", Unit: Count,
			Question: "How many Redis nodes are there, and how many work?",
			Bad:      "Fewer working than there are.",
			Queries: []Query{
				{Expr: `sum(redis_operator_cluster_nodes)`, Legend: "nodes"},
				{Expr: `sum(redis_operator_cluster_ready_nodes)`, Legend: "working"},
			},
		},
		one(Panel{
			Title: "Steps", Unit: Count,
			Question: "What did the planner have done in five minutes?",
			Bad:      "Steps that repeat without end, or that fail.",
		}, `sum by (kind, result) (increase(redis_operator_steps_total[5m]))`, "{{kind}} {{result}}"),
		one(Panel{
			Title: "Pass duration, p99", Unit: Seconds,
			Question: "How long does one pass over one cluster take?",
			Bad:      "Near 5 s, the deadline of a pass: some nodes do not answer.",
		}, `histogram_quantile(0.99, sum by (le, pod) (increase(redis_operator_pass_duration_seconds_bucket[5m])))`, "{{pod}}"),
	}}
}

func process() Row {
	return Row{Title: "Process", Panels: []Panel{
		one(Panel{
			Title: "Memory", Unit: Bytes,
			Question: "How much memory does each replica use?",
			Bad:      "Near the limit of the Pod.",
		}, `max by (pod) (process_resident_memory_bytes)`, "{{pod}}"),
		one(Panel{
			Title: "CPU", Unit: Count,
			Question: "How many cores does each replica use?",
			Bad:      "One replica at its limit while others idle.",
		}, `sum by (pod) (rate(process_cpu_seconds_total[$__rate_interval]))`, "{{pod}}"),
		one(Panel{
			Title: "API requests", Unit: PerSecond,
			Question: "What does the operator ask of the API server, and how is it answered?",
			Bad:      "409, 429 or 5xx that do not stop.",
		}, `sum by (method, code) (rate(rest_client_requests_total[$__rate_interval]))`, "{{method}} {{code}}"),
	}}
}
