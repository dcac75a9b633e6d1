package rediscluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func key(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// startPoller runs a poller until the test ends, and returns what it has woken, with the time of each.
func startPoller(t *testing.T) (p *poller, woken func() []string) {
	p = newPoller()
	ctx, cancel := context.WithCancel(t.Context())
	start := time.Now()
	var got []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Start(ctx)
	}()
	go func() {
		for {
			select {
			case e := <-p.events:
				got = append(got, e.Object.Namespace+"/"+e.Object.Name+" "+time.Since(start).String())
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return p, func() []string { synctest.Wait(); return got }
}

func TestPollerWakesInOrderAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, woken := startPoller(t)
		p.schedule(key("a", "late"), 3*time.Second)
		p.schedule(key("a", "early"), time.Second)
		p.schedule(key("a", "moved"), 10*time.Second)
		p.schedule(key("a", "moved"), 2*time.Second)
		<-time.After(time.Minute)
		want := []string{"a/early 1s", "a/moved 2s", "a/late 3s"}
		if diff := cmp.Diff(want, woken()); diff != "" {
			t.Errorf("woken (-want +got):\n%s", diff)
		}
	})
}

func TestPollerForgetsWhatIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, woken := startPoller(t)
		p.schedule(key("lost", "one"), time.Second)
		p.schedule(key("lost", "two"), time.Second)
		p.schedule(key("kept", "one"), time.Second)
		p.schedule(key("kept", "gone"), time.Second)
		p.dropNamespace("lost")
		p.drop(key("kept", "gone"))
		<-time.After(time.Minute)
		if diff := cmp.Diff([]string{"kept/one 1s"}, woken()); diff != "" {
			t.Errorf("woken (-want +got):\n%s", diff)
		}
	})
}

func TestPollerSaysWhenItHasStopped(t *testing.T) {
	p := newPoller()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if p.schedule(key("a", "b"), time.Second) {
		t.Error("a poller that has stopped takes work")
	}
}

func TestJitterStaysWithinItsBounds(t *testing.T) {
	for range 1000 {
		if d := jitter(pollStable); d < 24*time.Second || d > 36*time.Second {
			t.Fatalf("jitter gives %s", d)
		}
	}
}
