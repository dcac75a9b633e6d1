package sharding

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/redis-operator/sharding/membership"
	"example.com/redis-operator/sharding/placement"
)

// ErrPodGone says that this process's Pod does not exist any more, or that another has its name:
// the process must end, since its member is another's now.
var ErrPodGone = errors.New("the Pod of this process is gone")

// prepare reads what has to be known before anything is started: the own Pod, the StatefulSet, and
// the settings of the installation. It tries until ctx ends, or an answer says that this process
// must not run.
func (c *coordinator) prepare(ctx context.Context) error {
	for {
		err := c.prepareOnce(ctx)
		if err == nil || isFinal(err) || ctx.Err() != nil {
			return err
		}
		c.log.Error(err, "Starting; trying again")
		if !pause(ctx, c.options.RetryPeriod) {
			return ctx.Err()
		}
	}
}

// isFinal tells whether trying again cannot help.
func isFinal(err error) bool {
	var settings *placement.SettingsError
	return errors.As(err, &settings) || errors.Is(err, ErrPodGone)
}

// isWrittenAgain tells whether the machine will see to P: it is missing, or broken. One that another
// release has written is waited for.
func isWrittenAgain(err error) bool {
	var unreadable *placement.UnreadableError
	return errors.Is(err, placement.ErrMissing) ||
		errors.As(err, &unreadable) && !errors.Is(err, placement.ErrOtherFormat)
}

// connect builds the clients, whose timeouts follow from the timings.
func (c *coordinator) connect() error {
	var err error
	if c.clients, err = newClients(c.s.config, c.options.claimTimings()); err != nil {
		return err
	}
	c.store = placement.NewStore(c.clients.requests.CoreV1().ConfigMaps(c.options.Namespace), c.options.Installation, c.options.settings())
	return nil
}

func (c *coordinator) prepareOnce(ctx context.Context) error {
	if c.clients == nil { // once: each would have connections of its own
		if err := c.connect(); err != nil {
			return err
		}
	}
	if err := c.readPod(ctx); err != nil {
		return err
	}
	if c.options.StatefulSet != "" {
		var err error
		c.statefulSet, err = c.clients.requests.AppsV1().StatefulSets(c.options.Namespace).Get(ctx, c.options.StatefulSet, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading the StatefulSet: %w", err)
		}
	}
	p, err := c.store.Load(ctx)
	switch {
	case err == nil:
		if err := c.takeOver(p.Timings); err != nil {
			return err
		}
	case !isWrittenAgain(err):
		return err
	}
	c.members = membership.New(membership.Options{
		Client: c.clients, Namespace: c.options.Namespace, Installation: c.options.Installation,
		LeaseDuration: c.options.LeaseDuration, RetryPeriod: c.options.RetryPeriod,
		OnPresence: func(p membership.Presence) { c.queue.put(PresenceSeen(p)) },
		OnRenewed:  func(version string) { c.queue.put(PresenceRenewed{Version: version}) },
	})
	return nil
}

// takeOver uses the timings that P records instead of the own ones, everywhere: all processes need the
// same.
func (c *coordinator) takeOver(recorded placement.Timings) error {
	changed, differ := c.optionsWith(recorded)
	if !differ {
		return nil
	}
	c.log.Info("Warning: taking over the timings of the installation, which differ from the options",
		"options", c.options.timings(), "installation", recorded)
	c.options = changed
	c.s.guard.SetCancelLead(changed.claimTimings().CancelLead)
	return c.connect()
}

// optionsWith are the options with the timings that P records; false if there is nothing to change.
func (c *coordinator) optionsWith(recorded placement.Timings) (Options, bool) {
	if recorded == (placement.Timings{}) || recorded == c.options.timings() {
		return c.options, false
	}
	changed := c.options.withTimings(recorded)
	if err := changed.Validate(); err != nil {
		c.log.Error(err, "Keeping the own timings: those of the installation do not fit the other options")
		return c.options, false
	}
	return changed, true
}

// ErrOtherTimings says that the installation was created with other timings while this process started
// with its own: started again, it takes them over.
var ErrOtherTimings = errors.New("the installation has other timings")

// compareTimings ends the process if the first P that it sees, where there was none to read when it
// started, records other timings. It has claimed nothing yet.
func (c *coordinator) compareTimings(p placement.Placement) {
	if c.compared {
		return
	}
	c.compared = true
	if _, differ := c.optionsWith(p.Timings); differ {
		c.fail(fmt.Errorf("%w: they are %v, this process has %v and must start again", ErrOtherTimings, p.Timings, c.options.timings()))
	}
}

// readPod checks that the Pod of this process is still there, and learns its UID. Without a
// StatefulSet or a UID the process has no Pod.
func (c *coordinator) readPod(ctx context.Context) error {
	if c.options.StatefulSet == "" && c.options.PodUID == "" {
		return nil
	}
	pod, err := c.clients.requests.CoreV1().Pods(c.options.Namespace).Get(ctx, c.options.Member, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: there is no Pod %s", ErrPodGone, c.options.Member)
	}
	if err != nil {
		return fmt.Errorf("reading the own Pod: %w", err)
	}
	known := c.options.PodUID
	if known == "" {
		known = c.podUID
	}
	if known != "" && known != string(pod.UID) {
		return fmt.Errorf("%w: Pod %s has UID %s, this process runs in %s", ErrPodGone, pod.Name, pod.UID, known)
	}
	c.podUID = string(pod.UID)
	return nil
}

// join takes a new identity: it reads the own Pod, writes the identity to the termination log, and
// only then publishes it. It tries until ctx ends.
func (c *coordinator) join(ctx context.Context, superseded bool) {
	for ctx.Err() == nil {
		identity, err := c.joinOnce(ctx, superseded)
		if err == nil {
			c.queue.put(Joined{Identity: identity})
			return
		}
		if errors.Is(err, ErrPodGone) || errors.Is(err, errSuperseded) {
			c.fail(fmt.Errorf("joining: %w", err))
			return
		}
		if ctx.Err() == nil {
			c.log.Error(err, "Joining; trying again")
		}
		pause(ctx, c.options.RetryPeriod)
	}
}

var errSuperseded = errors.New("another process has registered under the name of this member")

func (c *coordinator) joinOnce(ctx context.Context, superseded bool) (Identity, error) {
	if err := c.readPod(ctx); err != nil {
		return "", err
	}
	if superseded && c.podUID == "" {
		return "", errSuperseded
	}
	identity, err := membership.NewIdentity(Member(c.options.Member), c.podUID)
	if err != nil {
		return "", err
	}
	if err := c.writeTerminationLog(identity); err != nil {
		return "", err
	}
	if err := c.members.Join(ctx, identity); err != nil {
		return "", err
	}
	return identity, nil
}

// writeTerminationLog writes the identity where the kubelet finds it. The kubelet has made that file:
// where it is missing nobody would read it, which is worth a warning if there is a Pod.
func (c *coordinator) writeTerminationLog(identity Identity) error {
	if _, err := os.Stat(c.options.TerminationLog); errors.Is(err, os.ErrNotExist) {
		if c.podUID != "" {
			c.log.Info("Warning: no termination log; the death of this process will not be confirmed",
				"path", c.options.TerminationLog)
		}
		return nil
	}
	return membership.WriteTerminationLog(c.options.TerminationLog, identity)
}

// requestTimeout bounds one request that nothing else bounds.
func (c *coordinator) requestTimeout() time.Duration { return c.options.claimTimings().ClientTimeout() }
