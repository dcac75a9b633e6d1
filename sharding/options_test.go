package sharding

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"example.com/redis-operator/sharding/placement"
)

func validOptions() Options {
	return Options{
		Namespace: "system", Member: "redis-operator-0", StatefulSet: "redis-operator",
		RootKinds: []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap")},
	}
}

func TestOptionsValidate(t *testing.T) {
	cases := map[string]struct {
		change func(*Options)
		want   string // part of the error; empty: valid
	}{
		"defaults":      {func(*Options) {}, ""},
		"one shard":     {func(o *Options) { o.Shards = 1 }, ""},
		"fixed members": {func(o *Options) { o.StatefulSet, o.Members = "", []string{"a"} }, ""},
		"short Leases": {func(o *Options) {
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 2*time.Second, 1400*time.Millisecond, 400*time.Millisecond
		}, ""},
		"no namespace":         {func(o *Options) { o.Namespace = "" }, "Namespace is required"},
		"no member":            {func(o *Options) { o.Member = "" }, "Member is required"},
		"no source of members": {func(o *Options) { o.StatefulSet = "" }, "exactly one of StatefulSet and Members"},
		"two sources":          {func(o *Options) { o.Members = []string{"a"} }, "exactly one of StatefulSet and Members"},
		"too many shards":      {func(o *Options) { o.Shards = placement.MaxShards + 1 }, "shards"},
		"unknown hash":         {func(o *Options) { o.Hash = "crc" }, "hash"},
		"no root kinds":        {func(o *Options) { o.RootKinds = nil }, "RootKinds is required"},
		"bad installation":     {func(o *Options) { o.Installation = "Not_A_Name" }, "Installation"},
		"bad label":            {func(o *Options) { o.ShardLabel = "a/b/c" }, "ShardLabel"},
		"half seconds":         {func(o *Options) { o.LeaseDuration = 10500 * time.Millisecond }, "LeaseDuration"},
		"deadline too late":    {func(o *Options) { o.RenewDeadline = 10 * time.Second }, "RenewDeadline"},
		"retry too slow":       {func(o *Options) { o.RetryPeriod = 6 * time.Second }, "RetryPeriod"},
		"handover too long":    {func(o *Options) { o.HandoverBound = 30 * time.Second }, "HandoverBound"},
		"stop fits":            {func(o *Options) { o.ManagerGrace = 28501 * time.Millisecond }, ""},
		"stop too long": {
			func(o *Options) { o.ManagerGrace = 28500 * time.Millisecond },
			"HandoverBound (20s) + DrainBound (5s) + one request (3.5s, half of RenewDeadline) must be less than ManagerGrace (28.5s)",
		},
		"manager grace too long": {func(o *Options) { o.ManagerGrace = 45 * time.Second }, "ManagerGrace"},
		"drain too long":         {func(o *Options) { o.DrainBound = 20 * time.Second }, "DrainBound"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			options := validOptions()
			tc.change(&options)
			_, err := New(&rest.Config{}, options)
			if tc.want == "" && err != nil {
				t.Fatalf("New: %v", err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Fatalf("New answers %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// Calls that are cancelled have time to end before the claim's deadline, whatever the Lease lasts.
func TestClaimTimings(t *testing.T) {
	cases := map[string]struct{ lease, renew, want time.Duration }{
		"default":      {10 * time.Second, 7 * time.Second, 2 * time.Second},
		"short Leases": {2 * time.Second, 1400 * time.Millisecond, 400 * time.Millisecond},
		"long Leases":  {60 * time.Second, 40 * time.Second, 2 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := Options{LeaseDuration: tc.lease, RenewDeadline: tc.renew, RetryPeriod: tc.renew / 4}
			if got := o.claimTimings(); got.CancelLead != tc.want || got.Validate() != nil {
				t.Errorf("CancelLead is %s, want %s; Validate: %v", got.CancelLead, tc.want, got.Validate())
			}
		})
	}
}
