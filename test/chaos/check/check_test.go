package check

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/redis-operator/sharding/placement"
)

// handedOver is a's tenure from version 10 to its release at 30, and b's from 40.
func handedOver(more ...request) []request {
	return append([]request{
		held(0, 5, 0, ""), held(1, 10, 5, a), held(3, 20, 10, a),
		emptied(5, 30, 20, "Released"), held(6, 40, 30, b), held(8, 50, 40, b),
	}, more...)
}

func TestOverlaps(t *testing.T) {
	cases := map[string]struct {
		log  []request
		want []string
	}{
		"each in its time": {log: handedOver(wrote(2, 15, a, 10), wrote(4, 25, a, 10), wrote(7, 45, b, 40))},
		"old owner after the new one": {
			log: handedOver(wrote(7, 45, b, 40), wrote(9, 55, a, 10)),
			want: []string{"overlap: shard 0: write 55 ... while " + b + " held the shard",
				"overlap: shard 0: write 55 ... claim that ended with version 30 (Released)",
				"overlap ... write 55 ... came after shard 0: write 45"},
		},
		"old owner before the new one writes": {
			log: handedOver(wrote(7, 45, a, 10)),
			want: []string{"overlap: shard 0: write 45 ... while " + b + " held the shard",
				"overlap ... claim that ended with version 30 (Released)"},
		},
		"after its release": {
			log: handedOver(with(wrote(6, 35, a, 10), func(r *request) { r.at = 5 })),
			want: []string{"overlap: shard 0: write 35 ... while nobody held the shard",
				"overlap ... claim that ended with version 30"},
		},
		"new owner before its claim": {
			log:  handedOver(wrote(4, 25, b, 40)),
			want: []string{"overlap: shard 0: write 25 ... while " + a + " held the shard"},
		},
		"never held": {
			log:  handedOver(wrote(7, 45, c, 40)),
			want: []string{"overlap: shard 0: write 45 ... while " + b, "overlap ... made under a claim of " + b},
		},
		"older epoch of the same process": {
			// b was cut off, came back, and its later writes are under the epoch of its return.
			log:  handedOver(held(30, 60, 50, b), wrote(31, 65, b, 60), wrote(32, 70, b, 40)),
			want: []string{"overlap: shard 0: write 70 ... came after shard 0: write 65"},
		},
		"epoch that no Lease had": {
			log:  handedOver(wrote(7, 45, b, 41)),
			want: []string{"unknown: shard 0: write 45 ... names an epoch that no holder has written"},
		},
		"no claim": {
			log:  handedOver(with(wrote(7, 45, b, 40), func(r *request) { r.agent = "manager/v1" })),
			want: []string{"unknown ... says no claim"},
		},
		"label of another shard": {
			log: handedOver(with(wrote(7, 45, b, 40), func(r *request) {
				r.got = fields{"metadata": meta(45, fields{"labels": fields{"shard": "3"}})}
			})),
			want: []string{`unknown ... has the shard label "3"`},
		},
		"no change in time, of an object written before": {log: handedOver(wrote(4, 25, a, 10), wrote(7, 25, b, 40))},
		"no change, too late": {
			log:  handedOver(wrote(4, 25, a, 10), wrote(8, 25, a, 10)),
			want: []string{"overlap: shard 0: write without a change 25 ... did not hold the shard then"},
		},
		"deletion, too late": {
			log: handedOver(with(wrote(8, 0, a, 10), func(r *request) {
				r.verb, r.got = "delete", fields{"kind": "Status", "status": "Success"}
			})),
			want: []string{"overlap: shard 0: write without a change 0 (delete ... did not hold the shard then"},
		},
		"refused, dry run, exempt, or another's": {
			log: handedOver(
				with(wrote(8, 55, a, 10), func(r *request) { r.code = 403 }),
				with(wrote(8, 55, a, 10), func(r *request) { r.uri = "/x?dryRun=All" }),
				with(wrote(8, 55, a, 10), func(r *request) { r.resource, r.group = "events", "" }),
				with(wrote(8, 55, a, 10), func(r *request) { r.pod = "" }),
			),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wantViolations(t, read(t, options(), nil, tc.log...).Overlaps(), tc.want...)
		})
	}
}

// Who holds the shard where its Lease was not handed on in order.
func TestOverlapsOfLostLeases(t *testing.T) {
	cases := map[string]struct {
		log  []request
		want []string
	}{
		"taken without being emptied, then written by the old one": {
			log: []request{held(1, 10, 0, a), held(3, 20, 10, b), wrote(4, 25, a, 10)},
			want: []string{"overlap: shard 0: write 25 ... while " + b,
				"overlap ... claim that ended with version 20 (taken)"},
		},
		"a Lease that is missing leaves its last holder": {
			log: []request{held(1, 10, 0, a), leaseDeleted(2), wrote(3, 25, a, 10), held(4, 30, 0, ""), wrote(5, 35, a, 10), held(6, 40, 30, a)},
		},
		"a Lease that was missing, and another's now": {
			log: []request{held(1, 10, 0, a), leaseDeleted(2), wrote(3, 25, a, 10), held(4, 30, 0, b), wrote(5, 35, a, 10)},
			want: []string{"overlap: shard 0: write 35 ... while " + b,
				"overlap ... claim that ended with version 30 (deleted)"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wantViolations(t, read(t, options(), nil, tc.log...).Overlaps(), tc.want...)
		})
	}
}

// Two shards: what is written in a namespace is judged by its own shard's Lease.
func TestOverlapsByShard(t *testing.T) {
	o := options()
	o.Shards = 64
	if number := o.shardOf("tenant"); number != 63 {
		t.Fatalf("tenant is in shard %d, want 63", number)
	}
	lease := with(held(1, 10, 0, b), func(r *request) { r.name = "operator-shard-63" })
	right := with(wrote(4, 25, b, 10), func(r *request) {
		r.agent = "manager shard/63 epoch/10"
		r.got = fields{"metadata": meta(25, fields{"labels": fields{"shard": "63"}})}
	})
	wrong := with(right, func(r *request) { r.agent = "manager shard/0 epoch/9" })
	h := read(t, o, nil, held(1, 9, 0, a), lease, right)
	wantViolations(t, h.Overlaps())
	h = read(t, o, nil, held(1, 9, 0, a), lease, wrong)
	wantViolations(t, h.Overlaps(), "overlap: shard 63: write 25 ... under a claim on shard 0")
}

// The hash is written down twice on purpose; both must be the documented one.
func TestShardOfIsTheOperators(t *testing.T) {
	o := options()
	o.Shards = 64
	settings := placement.DefaultSettings()
	for i := range 1000 {
		namespace := fmt.Sprintf("tenant-%d", i)
		if got, want := o.shardOf(namespace), int(settings.ShardOf(namespace)); got != want {
			t.Fatalf("%s is in shard %d, to the operator in %d", namespace, got, want)
		}
	}
}

func TestRedisOverlaps(t *testing.T) {
	command := func(id, at int, connection string, words ...string) Command {
		return Command{Node: "node", Namespace: "tenant", ID: int64(id), At: second(at), Connection: "operator:" + connection, Words: words}
	}
	cases := map[string]struct {
		commands []Command
		want     []string
	}{
		"each in its time": {commands: []Command{
			command(1, 2, a+":10", "CLUSTER", "MEET"), command(2, 7, b+":40", "CLIENT", "KILL"), command(3, 7, b+":40", "config", "set")}},
		"reads and others": {commands: []Command{
			command(1, 7, b+":40", "CONFIG", "SET"), command(2, 9, a+":10", "CLUSTER", "NODES"), command(3, 9, a, "PING"),
			{Node: "node", Namespace: "tenant", ID: 4, At: second(9), Connection: "somebody", Words: []string{"SET", "x"}}}},
		"older after newer, told out of order": {
			commands: []Command{command(3, 5, a+":10", "CLUSTER", "FORGET"), command(2, 5, b+":40", "CLUSTER", "MEET")},
			want:     []string{"overlap: node executed 3: CLUSTER FORGET ... after commands for epoch 40"},
		},
		"long after the release": {
			commands: []Command{command(1, 7, a+":10", "CLUSTER", "FORGET")},
			want:     []string{"overlap ... 2.0 s and more after its tenure had ended (Released)"},
		},
		"another's epoch": {
			commands: []Command{command(1, 7, c+":40", "CLUSTER", "FORGET")},
			want:     []string{"overlap ... the epoch of " + b},
		},
		"epoch that no Lease had":  {commands: []Command{command(1, 7, b+":41", "FLUSHALL")}, want: []string{"unknown ... no holder of shard 0"}},
		"a change without a claim": {commands: []Command{command(1, 7, b, "FLUSHALL")}, want: []string{"unknown ... no epoch"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wantViolations(t, read(t, options(), nil, handedOver()...).RedisOverlaps(tc.commands), tc.want...)
		})
	}
}

func TestGaps(t *testing.T) {
	taken := func(how string, at int) []request { // a's last renewal is at 3
		return append([]request{held(1, 10, 0, a), held(3, 20, 10, a), emptied(at-1, 30, 20, how)}, held(at, 40, 30, b))
	}
	cases := map[string]struct {
		log     []request
		windows []Window
		causes  []string
		want    []string
	}{
		"handover":        {log: handedOver(), causes: []string{"handover 1s"}},
		"death confirmed": {log: taken("Confirmed", 5), causes: []string{"death confirmed 2s"}},
		"expired in time": {log: taken("Expired", 15), causes: []string{"expired 12s"}},
		"expired too late": {
			log: taken("Expired", 16), causes: []string{"expired 13s"},
			want: []string{"unowned: shard 0: 13.0 s ... (expired), allowed are 12.0 s"},
		},
		"one disturbance explains no more": {
			log: taken("Expired", 18), causes: []string{"expired 15s"},
			windows: []Window{{What: "kill", From: second(4), To: second(4)}, {What: "kill", From: second(60), To: second(60)}},
			want:    []string{"unowned ... allowed are 13.0 s"},
		},
		"a second disturbance explains more": {
			log: taken("Expired", 23), causes: []string{"expired 20s"},
			windows: []Window{{What: "pause", From: second(4), To: second(100)}, {What: "pause", From: second(12), To: second(100)}},
		},
		"an outage explains its own length": {
			log: taken("Expired", 22), causes: []string{"expired 19s"},
			windows: []Window{{What: "API", From: second(2), To: second(10), Outage: true}},
		},
		"an outage that lasts explains everything": {
			log: taken("Expired", 60), causes: []string{"expired 57s"},
			windows: []Window{{What: "API", From: second(2), To: second(70), Outage: true}},
		},
		"a pause that lasts does not": {
			log: taken("Expired", 60), causes: []string{"expired 57s"},
			windows: []Window{{What: "pause", From: second(2), To: second(70)}},
			want:    []string{"unowned ... allowed are 12.0 s"},
		},
		"and no more": {
			log: taken("Expired", 23), causes: []string{"expired 20s"},
			windows: []Window{{What: "API", From: second(2), To: second(10), Outage: true}},
			want:    []string{"unowned ... allowed are 19.0 s"},
		},
		"not renewed": {
			log:    []request{held(1, 10, 0, a), held(25, 20, 10, a)},
			causes: []string{"not renewed 24s"}, want: []string{"unowned ... (not renewed)"},
		},
		"Lease deleted": {
			log:    []request{held(1, 10, 0, a), held(3, 20, 10, a), leaseDeleted(4), held(14, 40, 0, b)},
			causes: []string{"Lease deleted 11s"},
		},
		"taken": {
			log:    []request{held(1, 10, 0, a), held(3, 20, 10, a), held(4, 30, 20, b)},
			causes: []string{"taken from its holder 1s"}, want: []string{"overlap ... taken from its holder"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := read(t, options(), tc.windows, tc.log...)
			var causes []string
			for _, gap := range h.Gaps() {
				causes = append(causes, gap.Cause+" "+gap.Length().String())
			}
			if got, want := strings.Join(causes, ", "), strings.Join(tc.causes, ", "); got != want {
				t.Errorf("gaps are %q, want %q", got, want)
			}
			wantViolations(t, h.LongGaps(), tc.want...)
		})
	}
}

func TestUnownedAtTheEnd(t *testing.T) {
	renewed := []request{held(1, 10, 0, a), held(9, 20, 10, a), held(17, 30, 20, a)}
	cases := map[string]struct {
		log  []request
		want []string
	}{
		"nobody at the end": {
			log: []request{held(1, 10, 0, a), emptied(3, 20, 10, "Released")}, want: []string{"unowned ... nobody holds it at the end"},
		},
		"silent at the end": {
			log: []request{held(1, 10, 0, a), rootObject(13, 50, 1, 1)}, want: []string{"unowned ... has not renewed since"},
		},
		"alive at the end": {log: append(renewed, rootObject(20, 50, 1, 1))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wantViolations(t, read(t, options(), nil, tc.log...).LongGaps(), tc.want...)
		})
	}
}

func TestLate(t *testing.T) {
	created, changed := rootObject(1, 10, 1, 0), rootObject(10, 30, 2, 1)
	cases := map[string]struct {
		log     []request
		windows []Window
		want    []string
	}{
		"in time":           {log: []request{created, rootObject(5, 20, 1, 1), changed, rootObject(29, 40, 2, 2)}},
		"too late":          {log: []request{created, rootObject(5, 20, 1, 1), changed, rootObject(31, 40, 2, 2)}, want: []string{"incomplete: tenant/cache: generation 2 ... was observed within 21.0 s, allowed are 20.0 s"}},
		"never":             {log: []request{created, rootObject(5, 20, 1, 1), changed, held(40, 50, 0, a)}, want: []string{"generation 2 ... was not observed within 30.0 s"}},
		"log ends too soon": {log: []request{created, held(15, 50, 0, a)}},
		"both by the later": {log: []request{created, rootObject(2, 20, 2, 0), rootObject(15, 30, 2, 2)}},
		"deleted first": {log: []request{created, with(rootObject(9, 0, 0, 0), func(r *request) {
			r.verb, r.got = "delete", fields{"kind": "Status", "status": "Success"}
		}), held(40, 50, 0, a)}},
		"deleted with its namespace": {log: []request{created, with(rootObject(9, 0, 0, 0), func(r *request) {
			r.verb, r.name, r.got = "deletecollection", "", fields{"kind": "List"}
		}), held(40, 50, 0, a)}},
		"created again": {
			log: []request{created, with(rootObject(9, 0, 0, 0), func(r *request) {
				r.verb, r.got = "delete", fields{"kind": "Status", "status": "Success"}
			}), rootObject(10, 20, 1, 0), held(40, 50, 0, a)},
			want: []string{"generation 1 ... was not observed"},
		},
		"an outage": {
			log:     []request{created, rootObject(30, 20, 1, 1)},
			windows: []Window{{From: second(2), To: second(12), Outage: true}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wantViolations(t, read(t, options(), tc.windows, tc.log...).Late(), tc.want...)
		})
	}
}

func TestWatches(t *testing.T) {
	watching := func(at int, id, stage string) request {
		return request{at: at, verb: "watch", resource: "pods", ns: "tenant", pod: "uid-a", id: id, stage: stage}
	}
	begun, over := watching(2, "x", "ResponseStarted"), watching(7, "x", "ResponseComplete")
	p := Process{Pod: "op-0", PodUID: "uid-a", Started: second(0)}
	cases := map[string]struct {
		log      []request
		at       int
		process  Process
		restarts []time.Time
		want     []string
	}{
		"of its own shard":        {log: []request{held(1, 10, 0, a), begun}, at: 9, process: p},
		"of its own shard then":   {log: handedOver(begun), at: 4, process: p},
		"over":                    {log: handedOver(begun, over), at: 9, process: p},
		"open then":               {log: handedOver(begun, over), at: 6, process: p, want: []string{"leftover: op-0"}},
		"begun later":             {log: handedOver(watching(20, "x", "ResponseStarted")), at: 9, process: p},
		"open, of a shard lost":   {log: handedOver(begun), at: 9, process: p, want: []string{"leftover: op-0 does not hold shard 0 and watches pods in tenant since"}},
		"another Pod's":           {log: handedOver(begun), at: 9, process: Process{Pod: "op-1", PodUID: "uid-b"}},
		"an earlier container's":  {log: handedOver(begun), at: 9, process: Process{Pod: "op-0", PodUID: "uid-a", Started: second(3)}},
		"of an API server before": {log: handedOver(begun), at: 9, process: p, restarts: []time.Time{second(7)}},
		"of an API server after":  {log: handedOver(begun), at: 9, process: p, restarts: []time.Time{second(1)}, want: []string{"leftover"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := read(t, options(), nil, tc.log...)
			wantViolations(t, h.Watches(second(tc.at), []Process{tc.process}, tc.restarts), tc.want...)
		})
	}
}

func TestAtRest(t *testing.T) {
	cases := map[string]struct {
		figures Figures
		want    []string
	}{
		"as an idle one":           {figures: Figures{Goroutines: 100}},
		"queued keys":              {figures: Figures{Goroutines: 100, QueuedKeys: 1}, want: []string{"leftover: op-0 has 1 keys"}},
		"cached namespaces":        {figures: Figures{Goroutines: 100, Scopes: 2}, want: []string{"leftover: op-0 caches 2"}},
		"goroutines":               {figures: Figures{Goroutines: 111}, want: []string{"leftover: op-0 has 111 goroutines"}},
		"goroutines, within slack": {figures: Figures{Goroutines: 110}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wantViolations(t, AtRest([]Process{{Pod: "op-0", Figures: tc.figures}}, Figures{Goroutines: 100}, 10), tc.want...)
		})
	}
}

func TestPlacements(t *testing.T) {
	written := func(document string) request {
		return request{at: 1, verb: "update", resource: "configmaps", ns: own, name: "operator-placement", pod: "uid-a",
			got: fields{"metadata": meta(7, nil), "data": fields{"placement.json": document}}}
	}
	cases := map[string]struct {
		document string
		want     []string
	}{
		"whole":              {document: `{"expected":["op-0","op-1"],"homes":{"op-0":[0],"op-1":[1]}}`},
		"nobody expected":    {document: `{}`},
		"not to be read":     {document: `{"homes":7}`, want: []string{"unknown: placement version 7"}},
		"a shard with none":  {document: `{"expected":["op-0"],"homes":{"op-0":[0]}}`, want: []string{"1 of 2 shards have a home"}},
		"a shard with two":   {document: `{"expected":["op-0"],"homes":{"op-0":[0,1,1]}}`, want: []string{"shard 1 has the homes op-0 and op-0"}},
		"a home not counted": {document: `{"expected":["op-0"],"homes":{"op-0":[0],"op-9":[1]}}`, want: []string{"op-9, which is not expected"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Shards = 2
			h := read(t, o, nil, written(tc.document))
			wantViolations(t, h.Placements(), tc.want...)
			wantViolations(t, h.Overlaps())
		})
	}
}

func TestWrite(t *testing.T) {
	var out bytes.Buffer
	log := handedOver(wrote(7, 45, b, 40), with(wrote(8, 55, a, 10), func(r *request) { r.code = 403 }), held(9, 60, 55, b))
	read(t, options(), nil, log...).Write(&out)
	for _, part := range []string{
		"checked 1 writes under 1 claims, 2 tenures of 1 Leases",
		"refused by the server's fence: 1 writes; not in the log: 1 writes of Leases",
		"handover                     1 times, median   1.000 s",
	} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the report has no %q:\n%s", part, out.String())
		}
	}
}

func TestReadRefusesGarbage(t *testing.T) {
	if _, err := Read(strings.NewReader("{}\nno JSON\n{}\n"), options(), nil); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("err = %v, want it to name line 2", err)
	}
}
