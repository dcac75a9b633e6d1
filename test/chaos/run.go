package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"example.com/redis-operator/test/chaos/check"
	"example.com/redis-operator/test/stage"
)

const (
	// settleLimit bounds how long the installation may take to find its order again.
	settleLimit = 2 * time.Minute
	// quiet is how long nothing moves before what is left of lost shards is looked for: a namespace
	// without root objects stays cached for 10 s.
	quiet = 15 * time.Second
	// dropLimit bounds how long namespaces without root objects may stay cached.
	dropLimit = 45 * time.Second
	// goroutineSlack is how many goroutines more than when it was idle a process may have at rest:
	// connections that are kept, and controllers that were started since.
	goroutineSlack = 60
	// clock is how times are printed that are compared with logs.
	clock = "15:04:05.000"
)

// Options say which run it is.
type Options struct {
	Seed uint64
	// Length is the time in which the installation is disturbed.
	Length time.Duration
	// Out is told what happens.
	Out io.Writer
	// Keep is the folder into which the audit log is copied; "" for none.
	Keep string
}

// run is one run. What several goroutines change is in record.
type run struct {
	*stage.Stage
	*record
	options  Options
	idle     check.Figures
	restored sync.WaitGroup // the disturbances that are not over
}

// Run sets up an installation on a local Kubernetes, disturbs it, and takes everything down. It returns
// what the checker has found, and an error where the run itself did not come to its end.
func Run(ctx context.Context, o Options) ([]check.Violation, error) {
	r := &run{options: o, record: newRecord(o.Out)}
	var err error
	if r.Stage, err = stage.Open(ctx, stage.Options{Name: "chaos", Log: func(line string) { r.say("%s", line) }}); err != nil {
		return nil, fmt.Errorf("setting the stage: %w", err)
	}
	defer r.Close()
	if err := r.prepare(ctx); err != nil {
		r.Report(ctx, o.Out)
		return nil, err
	}
	commands, err := r.disturb(ctx)
	if err != nil {
		return nil, err
	}
	violations, err := r.rest(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		r.Report(ctx, o.Out)
	}
	checked, checkErr := r.check(commands())
	return append(violations, checked...), errors.Join(err, checkErr)
}

// prepare installs the operator, looks at what its processes are like without work, and makes the
// namespaces.
func (r *run) prepare(ctx context.Context) error {
	if err := r.Install(ctx); err != nil {
		return fmt.Errorf("installing the operator: %w", err)
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	processes, err := r.processes(ctx)
	if err != nil {
		return err
	}
	for _, p := range processes {
		r.idle.Goroutines = max(r.idle.Goroutines, p.Figures.Goroutines)
	}
	for n := range namespaces {
		if err := r.CreateNamespace(ctx, namespaceName(n)); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until every shard is held at home.
func (r *run) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleLimit, fmt.Errorf("not within %s", settleLimit))
	defer cancel()
	if err := r.WaitOperator(ctx, stage.OperatorReplicas); err != nil {
		return err
	}
	return r.WaitSettled(ctx, stage.OperatorReplicas)
}

// disturb runs schedule and churn to their end, and heals what they have left broken. The function that
// it returns ends the recording of what Redis servers do, and tells it.
func (r *run) disturb(ctx context.Context) (commands func() []check.Command, err error) {
	background, end := context.WithCancel(ctx)
	var work sync.WaitGroup
	redis := newRedisLog(r.Stage)
	work.Go(func() { redis.follow(background) })
	work.Go(func() { r.watchLife(background) })
	commands = func() []check.Command {
		end()
		work.Wait()
		return redis.commands()
	}
	schedule := Schedule(r.options.Seed, r.options.Length)
	for _, d := range schedule {
		fmt.Fprintf(r.options.Out, "schedule  %s\n", d)
	}
	r.begin()
	var churn sync.WaitGroup
	churn.Go(func() { r.churn(ctx) })
	for _, d := range schedule {
		if !r.waitUntil(ctx, d.At) {
			break
		}
		r.restored.Go(func() { r.perform(ctx, d) })
	}
	r.waitUntil(ctx, r.options.Length)
	churn.Wait()
	r.restored.Wait()
	if ctx.Err() != nil {
		commands()
		return nil, context.Cause(ctx)
	}
	r.say("the disturbances are over")
	return commands, r.heal(ctx)
}

// heal mends what a disturbance may have left, whether it came to its end or not.
func (r *run) heal(ctx context.Context) error {
	problem := errors.Join(r.Local.ResumeAPIServer(ctx), r.Local.StartAPIServer(ctx), r.Local.ReconnectPods(ctx))
	for _, node := range r.Local.Nodes() {
		problem = errors.Join(problem, r.Local.RestoreNode(ctx, node))
	}
	if problem != nil {
		return fmt.Errorf("mending what was disturbed: %w", problem)
	}
	return r.setReplicas(ctx, stage.OperatorReplicas)
}

// rest waits until the installation is in order and all generations are observed, notes what there is
// then, and has the last RedisCluster deleted, so that nothing is to be cached any more.
func (r *run) rest(ctx context.Context) ([]check.Violation, error) {
	if err := r.settle(ctx); err != nil {
		return nil, err
	}
	r.say("every shard is held at home")
	if err := r.waitObserved(ctx); err != nil {
		return nil, err
	}
	r.say("every generation is observed")
	if !pause(ctx, quiet) {
		return nil, context.Cause(ctx)
	}
	var err error
	if r.rested, err = r.processes(ctx); err != nil {
		return nil, err
	}
	r.restedAt = time.Now()
	if err := r.deleteAll(ctx); err != nil {
		return nil, err
	}
	processes, err := r.waitDropped(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		r.say("%s at rest: %d goroutines (idle: %d), %d keys queued, %d namespaces cached", p.Pod,
			p.Figures.Goroutines, r.idle.Goroutines, p.Figures.QueuedKeys, p.Figures.Scopes)
	}
	return check.AtRest(processes, r.idle, goroutineSlack), nil
}

// check reads the audit log and judges it.
func (r *run) check(commands []check.Command) ([]check.Violation, error) {
	log, err := os.ReadFile(r.Local.AuditLog())
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	if r.options.Keep != "" {
		if err := os.WriteFile(filepath.Join(r.options.Keep, "audit.log"), log, 0o600); err != nil {
			return nil, fmt.Errorf("keeping the audit log: %w", err)
		}
	}
	windows := r.disturbed()
	for _, w := range windows {
		fmt.Fprintf(r.options.Out, "disturbed from %s to %s: %s\n", w.From.UTC().Format(clock), w.To.UTC().Format(clock), w.What)
	}
	history, err := check.Read(bytes.NewReader(log), checkOptions(), windows)
	if err != nil {
		return nil, err
	}
	history.Write(r.options.Out)
	fmt.Fprintf(r.options.Out, "checked %d Redis commands of the operator on %d runs of servers\n",
		len(commands), countNodes(commands))
	violations := history.Overlaps()
	violations = append(violations, history.RedisOverlaps(commands)...)
	violations = append(violations, history.Placements()...)
	violations = append(violations, history.LongGaps()...)
	violations = append(violations, history.Late()...)
	return append(violations, history.Watches(r.restedAt, r.rested, r.restartsOfAPI())...), nil
}

// isRunning reports whether the Pod's container runs.
func isRunning(pod *corev1.Pod) bool {
	statuses := pod.Status.ContainerStatuses
	return len(statuses) > 0 && statuses[0].State.Running != nil
}

// pause waits, and answers false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
