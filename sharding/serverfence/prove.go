package serverfence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// What Prove answers, wrapped with the details, where the fence is not proved. Any other error says that
// the proof could not be carried out.
var (
	// ErrUnsupported: the API server has no ValidatingAdmissionPolicy.
	ErrUnsupported = errors.New("the API server has no ValidatingAdmissionPolicy")
	// ErrOutside: this process does not run as a service account of the operator's namespace, so that no
	// fence looks at what it writes.
	ErrOutside = errors.New("the process does not run as a service account of the operator's namespace")
	// ErrInactive: the server accepted what it should have refused, or refused what it should have
	// accepted.
	ErrInactive = errors.New("the server's fence is not in force as it should be")
)

const (
	// lagBound is how long the server may take to learn of a change of a Lease; 44 ms were measured on
	// one that is saturated with such changes.
	lagBound = 2 * time.Second
	// lagPause is the time between two looks while it may.
	lagPause = 50 * time.Millisecond
)

// ProofOptions say what to prove. Client, Namespace and Shards are required, the zero values of the
// others are the defaults of Options.
type ProofOptions struct {
	// Client is this process's own, not wrapped by the guard. It needs the rights to create ConfigMaps
	// and to get and list Leases in Namespace, which the library needs anyway.
	Client kubernetes.Interface
	// Installation, Namespace, ShardLabel and Shards are those of Options.
	Installation, Namespace, ShardLabel string
	Shards                              int
}

// Prove finds out whether the server refuses what it should: by dry runs of creating a ConfigMap, of
// which nothing stays. A label that is missing and one that is no shard have to be refused, with the
// policy's own words. So has each of the given shards that the calling Pod does not hold, while what it
// holds has to be accepted; one shard that it holds is tried in any case. It is nil, or wraps
// ErrUnsupported, ErrOutside or ErrInactive, or says why the proof could not be carried out.
func Prove(ctx context.Context, o ProofOptions, shards []placement.Shard) error {
	p, err := newProof(ctx, o)
	if err != nil {
		return err
	}
	if err := p.proveLabels(ctx); err != nil {
		return err
	}
	leases, err := o.Client.CoordinationV1().Leases(o.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: claim.InstallationLabel + "=" + p.o.Installation + "," + claim.ShardLabel,
	})
	if err != nil {
		return fmt.Errorf("listing the shard Leases: %w", err)
	}
	held := slices.IndexFunc(leases.Items, func(lease coordinationv1.Lease) bool { return p.holds(&lease) })
	if held >= 0 {
		if shard, ok := claim.ShardOfLease(&leases.Items[held]); ok {
			shards = append([]placement.Shard{shard}, shards...)
		}
	}
	for _, shard := range shards {
		if err := p.proveShard(ctx, shard); err != nil {
			return err
		}
	}
	return nil
}

// proof is one run of Prove.
type proof struct {
	o ProofOptions
	// caller is how an identity of the calling Pod begins, "" for a caller without one.
	caller string
}

// newProof asks the server what it can do, and whom it takes this process for.
func newProof(ctx context.Context, o ProofOptions) (*proof, error) {
	defaults := Options{Installation: o.Installation, ShardLabel: o.ShardLabel, Shards: o.Shards}.withDefaults()
	o.Installation, o.ShardLabel, o.Shards = defaults.Installation, defaults.ShardLabel, defaults.Shards
	if err := checkSupport(ctx, o.Client); err != nil {
		return nil, err
	}
	review, err := o.Client.AuthenticationV1().SelfSubjectReviews().Create(ctx,
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking the API server who this process is: %w", err)
	}
	user := review.Status.UserInfo
	if !strings.HasPrefix(user.Username, "system:serviceaccount:"+o.Namespace+":") {
		return nil, fmt.Errorf("running as %s: %w", user.Username, ErrOutside)
	}
	p := &proof{o: o}
	if name, uid := user.Extra[extraPodName], user.Extra[extraPodUID]; len(name) > 0 && len(uid) > 0 {
		p.caller = name[0] + "_" + uid[0] + "_"
	}
	return p, nil
}

// checkSupport looks for the API among those that the server lists.
func checkSupport(ctx context.Context, c kubernetes.Interface) error {
	var list metav1.APIResourceList
	err := c.Discovery().RESTClient().Get().AbsPath("/apis/admissionregistration.k8s.io/v1").Do(ctx).Into(&list)
	if apierrors.IsNotFound(err) {
		return ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("asking the API server for its admission policies: %w", err)
	}
	for _, resource := range list.APIResources {
		if resource.Name == "validatingadmissionpolicies" {
			return nil
		}
	}
	return ErrUnsupported
}

// proveLabels proves the policy of labels; no change of a Lease can disturb it.
func (p *proof) proveLabels(ctx context.Context) error {
	for _, label := range []string{"", strconv.Itoa(p.o.Shards)} {
		refused, err := p.try(ctx, label, LabelPolicyName(p.o.Installation))
		if err != nil {
			return err
		}
		if !refused {
			return fmt.Errorf("a write with the shard label %q is accepted: %w", label, ErrInactive)
		}
	}
	return nil
}

// proveShard compares what the server does with what the shard's Lease says. Where the two disagree it
// looks again, since the Lease may have changed and the server learns of that a little later.
func (p *proof) proveShard(ctx context.Context, shard placement.Shard) error {
	name := claim.LeaseName(p.o.Installation, shard)
	for begin := time.Now(); ; {
		lease, err := p.o.Client.CoordinationV1().Leases(p.o.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("Lease %s is missing: %w", name, ErrInactive)
		}
		if err != nil {
			return fmt.Errorf("reading Lease %s: %w", name, err)
		}
		refused, err := p.try(ctx, strconv.Itoa(int(shard)), BindingName(p.o.Installation, shard))
		if err != nil {
			return err
		}
		if refused != p.holds(lease) {
			return nil
		}
		if time.Since(begin) > lagBound {
			return fmt.Errorf("shard %d is held by %q, and a write of %q is refused: %t: %w",
				shard, claim.HolderOf(lease), p.caller, refused, ErrInactive)
		}
		if err := pause(ctx, lagPause); err != nil {
			return fmt.Errorf("waiting for the API server to learn of Lease %s: %w", name, err)
		}
	}
}

// holds says whether the calling Pod is the Lease's holder, as the policy does.
func (p *proof) holds(lease *coordinationv1.Lease) bool {
	return p.caller != "" && strings.HasPrefix(string(claim.HolderOf(lease)), p.caller)
}

// try tries a write with a shard label, "" for none, and says whether the named binding refused it. Any
// other failure is an error.
func (p *proof) try(ctx context.Context, label, binding string) (refused bool, err error) {
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.o.Namespace, Name: ProbeName(p.o.Installation),
	}}
	if label != "" {
		probe.Labels = map[string]string{p.o.ShardLabel: label}
	}
	_, err = p.o.Client.CoreV1().ConfigMaps(p.o.Namespace).Create(ctx, probe,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return false, nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "with binding '"+binding+"' denied request"):
		return true, nil
	}
	return false, fmt.Errorf("trying a write with the shard label %q: %w", label, err)
}

// IsRefusal tells whether an error is the refusal of a write by an installation's fence. It does not say
// that the shard is lost: the server learns of a new holder some milliseconds late. The Lease says it.
func IsRefusal(err error, installation string) bool {
	if installation == "" {
		installation = Options{}.withDefaults().Installation
	}
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+installation+"-fence-")
}

// pause waits, or answers why it should not.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
