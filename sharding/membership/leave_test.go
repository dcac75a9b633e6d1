package membership_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"example.com/redis-operator/sharding/membership"
	"example.com/redis-operator/sharding/shardingtest"
)

// A renewal that is on its way when the process leaves does not create the deleted Lease again. In real
// time, since who waits for a mutex keeps that of synctest from passing.
func TestLeaveWaitsForARenewal(t *testing.T) {
	api := shardingtest.NewLeases()
	m := membership.New(membership.Options{
		Client: api, Namespace: "system", Installation: "op", LeaseDuration: lease, RetryPeriod: retry,
		OnPresence: func(membership.Presence) {}, OnRenewed: func(string) {},
	})
	if err := m.Join(t.Context(), "op-0_u_n"); err != nil {
		t.Fatal(err)
	}
	renewing, deleted := make(chan struct{}), make(chan struct{})
	api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
		switch c.Verb {
		case "update":
			return shardingtest.Fault{Before: func(context.Context) {
				close(renewing)
				select {
				case <-deleted:
				case <-time.After(200 * time.Millisecond):
				}
			}}
		case "delete":
			return shardingtest.Fault{After: func(context.Context) { close(deleted) }}
		}
		return shardingtest.Fault{}
	})
	var renewal sync.WaitGroup
	renewal.Go(func() { _ = m.Join(context.Background(), "op-0_u_n") })
	<-renewing
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	renewal.Wait()
	if version, err := m.Read(t.Context(), "op-0_u_n"); err != nil || version != "" {
		t.Errorf("after leaving there is a presence Lease of version %q (%v)", version, err)
	}
}
