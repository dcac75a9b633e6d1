package placement

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// storedExample is a placement with something in every field.
func storedExample(t *testing.T) Placement {
	t.Helper()
	c := newCluster(t, 16, 3)
	c.p.Timings = Timings{LeaseDuration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 1500 * time.Millisecond}
	c.start(operators(3)...)
	c.kill("redis-operator-1", Expired)
	c.record("redis-operator-2", Leaving)
	c.join("redis-operator-1")
	c.p.Weights = map[Shard]int64{3: 20, 11: 7}
	return c.p
}

// TestEncodeIsFixed pins the stored form: replicas of two releases read one P.
func TestEncodeIsFixed(t *testing.T) {
	got, err := Encode(storedExample(t))
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "stored.golden.json", string(got)+"\n")
	back, err := Decode(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(storedExample(t), back); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

// TestStoredSize: P of the largest sensible installation stays far below the limit of an object.
func TestStoredSize(t *testing.T) {
	p := Place(New(settingsOf(1024), Timings{}), operators(50))
	for nonce := range maxDeadKept + 3 {
		for i, member := range operators(50) {
			p.Processes = register(p.Processes, identityOf(member, i, nonce))
		}
	}
	data, err := Encode(Place(p, p.Expected))
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 128<<10 {
		t.Errorf("%d bytes", len(data))
	}
}

// TestDecodeWithoutWeights: what was stored before there were weights stays valid, and is placed by
// number.
func TestDecodeWithoutWeights(t *testing.T) {
	p, err := Decode([]byte(`{"format":1,"shards":2,"hash":"fnv1a64-mix","expected":["x-0","x-1"],"homes":{"x-0":[0],"x-1":[1]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if placed := Place(p, p.Expected); len(p.Weights) != 0 || !placed.Equal(p) {
		t.Errorf("weights %v, placed %v", p.Weights, placed)
	}
}

func TestDecodeRefuses(t *testing.T) {
	encoded, err := Encode(storedExample(t))
	if err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	process := func(doc object, i int) object { return doc["processes"].([]any)[i].(object) }
	homes := func(doc object) object { return doc["homes"].(object) }
	cases := map[string]struct {
		change    func(doc object)
		wantField string
	}{
		"no format":              {func(d object) { delete(d, "format") }, "format"},
		"a format to come":       {func(d object) { d["format"] = 2 }, "format"},
		"shards as text":         {func(d object) { d["shards"] = "many" }, "shards"},
		"no shards":              {func(d object) { d["shards"] = 0 }, "shards"},
		"too many shards":        {func(d object) { d["shards"] = 1 << 30 }, "shards"},
		"another hash":           {func(d object) { d["hash"] = "crc32" }, "hash"},
		"a duration as number":   {func(d object) { d["timings"].(object)["retryPeriod"] = 2 }, "timings.retryPeriod"},
		"no duration":            {func(d object) { d["timings"].(object)["retryPeriod"] = "soon" }, "timings.retryPeriod"},
		"a negative duration":    {func(d object) { d["timings"].(object)["leaseDuration"] = "-1s" }, "timings.leaseDuration"},
		"a missing duration":     {func(d object) { delete(d["timings"].(object), "renewDeadline") }, "timings.renewDeadline"},
		"a version of nothing":   {func(d object) { d["statefulSetVersion"] = "v1" }, "statefulSetVersion"},
		"members out of order":   {func(d object) { d["expected"] = []string{"x-1", "x-0"} }, "expected"},
		"a member twice":         {func(d object) { d["expected"] = []string{"x-1", "x-1"} }, "expected"},
		"a member with a slash":  {func(d object) { d["expected"] = []string{"x/1"} }, "expected[0]"},
		"expected as an object":  {func(d object) { d["expected"] = object{} }, "expected"},
		"a malformed identity":   {func(d object) { process(d, 0)["identity"] = "x" }, "processes[0].identity"},
		"an identity twice":      {func(d object) { process(d, 1)["identity"] = process(d, 0)["identity"] }, "processes[1].identity"},
		"an unknown state":       {func(d object) { process(d, 0)["state"] = "running" }, "processes[0].state"},
		"no state":               {func(d object) { delete(process(d, 0), "state") }, "processes[0].state"},
		"dead without cause":     {func(d object) { process(d, 0)["state"] = "dead" }, "processes[0].cause"},
		"alive with cause":       {func(d object) { process(d, 0)["cause"] = "expired" }, "processes[0].cause"},
		"an unknown cause":       {func(d object) { process(d, 0)["cause"] = "old age" }, "processes[0].cause"},
		"no order":               {func(d object) { delete(process(d, 0), "joined") }, "processes[0].joined"},
		"processes out of order": {func(d object) { process(d, 1)["joined"] = 99 }, "processes"},
		"a shard too high":       {func(d object) { homes(d)["redis-operator-0"] = []int{16} }, `homes["redis-operator-0"]`},
		"a shard below zero":     {func(d object) { homes(d)["redis-operator-0"] = []int{-1} }, `homes["redis-operator-0"]`},
		"a shard with two homes": {func(d object) {
			homes(d)["redis-operator-1"] = homes(d)["redis-operator-0"]
		}, `homes["redis-operator-1"]`},
		"a shard without home":   {func(d object) { delete(homes(d), "redis-operator-0") }, "homes"},
		"an unexpected home":     {func(d object) { homes(d)["x-1"] = homes(d)["redis-operator-0"]; delete(homes(d), "redis-operator-0") }, "homes"},
		"a deputy of nothing":    {func(d object) { d["deputies"] = object{"redis-operator-0": []int{77}} }, `deputies["redis-operator-0"]`},
		"a deputy without name":  {func(d object) { d["deputies"] = object{"": []int{7}} }, "deputies"},
		"a weight of nothing":    {func(d object) { d["weights"] = object{"77": 1} }, "weights"},
		"a weight below zero":    {func(d object) { d["weights"] = object{"7": -1} }, "weights"},
		"a weight too large":     {func(d object) { d["weights"] = object{"7": MaxWeight + 1} }, "weights"},
		"a fraction of a weight": {func(d object) { d["weights"] = object{"7": 0.5} }, "weights"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var doc object
			if err := json.Unmarshal(encoded, &doc); err != nil {
				t.Fatal(err)
			}
			tc.change(doc)
			data, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Decode(data)
			wantFieldError(t, err, tc.wantField)
			if !p.Equal(Placement{}) {
				t.Errorf("an error and %+v", p)
			}
		})
	}
}

func TestDecodeGarbage(t *testing.T) {
	cases := map[string]struct {
		data string
		want string // part of the message
	}{
		"nothing":           {"", "unexpected end"},
		"not JSON":          {"shards: 64", "invalid character"},
		"null":              {"null", "format"},
		"a list":            {"[]", "array"},
		"cut short":         {`{"format":1,"shards":64`, "unexpected end"},
		"an unknown field":  {`{"format":1,"shards":1,"hash":"fnv1a64-mix","colour":"red"}`, "colour"},
		"two objects":       {`{"format":1,"shards":1,"hash":"fnv1a64-mix"}{}`, "invalid character"},
		"nothing but shape": {`{"format":1}`, "shards"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Decode([]byte(tc.data)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to say %q", err, tc.want)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	cases := map[string]struct {
		change    func(p *Placement)
		wantField string
	}{
		"no settings":         {func(p *Placement) { p.Settings = Settings{} }, "shards"},
		"homes of other size": {func(p *Placement) { p.Homes = p.Homes[1:] }, "homes"},
		"another's identity":  {func(p *Placement) { p.Processes[0].Member = "x" }, "processes[0].member"},
		"a deputy of nothing": {func(p *Placement) { p.Deputies = map[Shard]Member{99: "x"} }, "deputies"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := storedExample(t)
			tc.change(&p)
			_, err := Encode(p)
			wantFieldError(t, err, tc.wantField)
		})
	}
}

// FuzzDecode: whatever is accepted is valid, survives a round trip and can be placed.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"format":1,"shards":2,"hash":"fnv1a64-mix"}`))
	f.Add([]byte(`{"format":1,"shards":2,"hash":"fnv1a64-mix","expected":["x-0"],"homes":{"x-0":[0,1]},` +
		`"processes":[{"identity":"x-0_u_n","state":"serving","joined":1}],"deputies":{"x-1":[1]},"weights":{"1":3}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data)
		if err != nil {
			return
		}
		encoded, err := Encode(p)
		if err != nil {
			t.Fatalf("accepted, but not encoded again: %v", err)
		}
		back, err := Decode(encoded)
		if err != nil || !back.Equal(p) {
			t.Fatalf("round trip: %v\n%s", err, cmp.Diff(p, back))
		}
		if placed := Place(p, p.Expected); placed.Validate() != nil {
			t.Fatalf("placing gave %v", placed.Validate())
		}
	})
}
