package serverfence

import (
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/guard"
	"example.com/redis-operator/sharding/placement"
)

// Options say for which installation the policies are. Namespace, ServiceAccount and Kinds are
// required; the zero values of all others are the defaults that their comments name.
type Options struct {
	// Installation is the first part of the names of Leases and policies; default redis-operator. Two
	// installations in one cluster need two names and two service accounts.
	Installation string
	// Namespace is the operator's own: its Leases, its service account and its placement are there.
	Namespace string
	// ServiceAccount is the name of the account whose writes are fenced. Nobody else's are.
	ServiceAccount string
	// ShardLabel is the key of the label that carries an object's shard; default cache.example.com/shard.
	ShardLabel string
	// Shards is S; default 64.
	Shards int
	// Kinds are what is fenced. A kind that is not named is exempt.
	Kinds []Kind
	// Exempt are single objects of fenced kinds that every replica may write, in addition to the
	// placement object.
	Exempt []Object
}

// Kind is one resource as it appears in the API's paths. All its subresources are fenced with it.
type Kind struct {
	Group, Name string
	// Operations are those fenced; default CREATE, UPDATE (which patches are, too) and DELETE. It does
	// not limit those on subresources.
	Operations []admissionv1.OperationType
}

// Object is one object of a resource.
type Object struct{ Group, Resource, Namespace, Name string }

func (o Options) withDefaults() Options {
	if o.Installation == "" {
		o.Installation = "redis-operator"
	}
	if o.ShardLabel == "" {
		o.ShardLabel = guard.DefaultShardLabel
	}
	if o.Shards == 0 {
		o.Shards = placement.DefaultShards
	}
	return o
}

// Validate names every option that cannot be. All of them end up inside expressions, so that none may
// hold a quote; no name of Kubernetes can.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	check := func(field, value string, problems []string) {
		if len(problems) > 0 {
			errs = append(errs, fmt.Errorf("%s %q: %s", field, value, strings.Join(problems, "; ")))
		}
	}
	check("Installation", o.Installation, validation.IsDNS1123Label(o.Installation))
	check("Namespace", o.Namespace, validation.IsDNS1123Label(o.Namespace))
	check("ServiceAccount", o.ServiceAccount, validation.IsDNS1123Subdomain(o.ServiceAccount))
	check("ShardLabel", o.ShardLabel, validation.IsQualifiedName(o.ShardLabel))
	if o.Shards < 1 || o.Shards > placement.MaxShards {
		errs = append(errs, fmt.Errorf("Shards %d is not between 1 and %d", o.Shards, placement.MaxShards))
	}
	if len(o.Kinds) == 0 {
		errs = append(errs, errors.New("Kinds is empty: nothing would be fenced"))
	}
	for _, kind := range o.Kinds {
		check("Kinds", kind.Name, validation.IsDNS1123Label(kind.Name))
		if kind.Group != "" {
			check("Kinds", kind.Group, validation.IsDNS1123Subdomain(kind.Group))
		}
	}
	for _, object := range o.Exempt {
		check("Exempt", object.Namespace, validation.IsDNS1123Label(object.Namespace))
		check("Exempt", object.Name, validation.IsDNS1123Subdomain(object.Name))
		check("Exempt", object.Resource, validation.IsDNS1123Label(object.Resource))
		if object.Group != "" {
			check("Exempt", object.Group, validation.IsDNS1123Subdomain(object.Group))
		}
	}
	return errors.Join(errs...)
}

// ShardPolicyName is the name of the policy that compares the caller with the shard's Lease.
func ShardPolicyName(installation string) string { return installation + "-fence-shard" }

// LabelPolicyName is the name of the policy, and of its binding, that wants a shard label.
func LabelPolicyName(installation string) string { return installation + "-fence-label" }

// BindingName is the name of the binding of the shard policy to one shard's Lease.
func BindingName(installation string, shard placement.Shard) string {
	return fmt.Sprintf("%s-%d", ShardPolicyName(installation), shard)
}

// ProbeName is the name of the ConfigMap of the operator's own namespace whose creation Prove tries, as
// a dry run. It never exists.
func ProbeName(installation string) string { return installation + "-fence-probe" }

// exemptions are the placement object and what Options add.
func (o Options) exemptions() []Object {
	p := Object{Resource: "configmaps", Namespace: o.Namespace, Name: placement.ConfigMapName(o.Installation)}
	return append([]Object{p}, o.Exempt...)
}

// labels mark what belongs to an installation.
func (o Options) labels() map[string]string {
	return map[string]string{claim.InstallationLabel: o.Installation}
}
