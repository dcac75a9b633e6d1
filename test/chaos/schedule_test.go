package chaos

import (
	"reflect"
	"testing"
	"time"
)

func TestScheduleIsAFunctionOfTheSeed(t *testing.T) {
	for seed := range uint64(20) {
		if a, b := Schedule(seed, 3*time.Minute), Schedule(seed, 3*time.Minute); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %v and then %v", seed, a, b)
		}
		if a, b := Churn(seed, 3*time.Minute), Churn(seed, 3*time.Minute); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: the churn differs from one call to the next", seed)
		}
	}
	if reflect.DeepEqual(Schedule(1, 3*time.Minute), Schedule(2, 3*time.Minute)) {
		t.Error("two seeds have one schedule")
	}
}

func TestSchedule(t *testing.T) {
	const length = 3 * time.Minute
	for seed := range uint64(500) {
		kinds := map[Kind]int{}
		freeAt := map[string]time.Duration{}
		for _, d := range Schedule(seed, length) {
			kinds[d.Kind]++
			class := traits[d.Kind].class
			if d.At < freeAt[class] {
				t.Errorf("seed %d: %s begins before another of class %s is over", seed, d, class)
			}
			if d.At+d.For > length {
				t.Errorf("seed %d: %s lasts longer than the run", seed, d)
			}
			if d.Kind == Scale && (d.Replicas < 1 || d.Replicas > 6) {
				t.Errorf("seed %d: %s", seed, d)
			}
			freeAt[class] = d.At + d.For + traits[d.Kind].rest
		}
		if len(kinds) != len(traits) {
			t.Errorf("seed %d: of %d kinds only %d are scheduled: %v", seed, len(traits), len(kinds), kinds)
		}
	}
}

func TestChurn(t *testing.T) {
	for seed := range uint64(200) {
		nodes := map[string]int32{}
		verbs := map[Verb]int{}
		for _, c := range Churn(seed, 3*time.Minute) {
			verbs[c.Verb]++
			if _, exists := nodes[c.Namespace]; exists == (c.Verb == Create) {
				t.Fatalf("seed %d: %s in %s, where one is: %t", seed, c.Verb, c.Namespace, exists)
			}
			switch c.Verb {
			case Create:
				nodes[c.Namespace] = 1 + c.Replicas
			case Delete:
				delete(nodes, c.Namespace)
			case Configure:
			}
			wanted := int32(0)
			for _, n := range nodes {
				wanted += n
			}
			if wanted > maxNodes {
				t.Fatalf("seed %d: %d nodes are wanted at %s, at most %d may be", seed, wanted, c.At, maxNodes)
			}
		}
		if verbs[Create] < 10 || verbs[Delete] < 5 || verbs[Configure] < 50 {
			t.Errorf("seed %d: the churn is %v", seed, verbs)
		}
	}
}
