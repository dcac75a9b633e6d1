package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"example.com/redis-operator/test/stage"
)

// demo is one run.
type demo struct {
	started time.Time
	stage   *stage.Stage
	dial    stage.Dialer
	endDial func()
	fleet   []stage.Wish
}

func (d *demo) say(format string, args ...any) {
	fmt.Printf("%6.1f s  %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}

// play does one act after the other; the first that fails ends the demo.
func (d *demo) play(ctx context.Context) error {
	acts := []struct {
		title string
		act   func(context.Context) error
	}{
		{"A Kubernetes with the operator in it", d.setUp},
		{"15 RedisClusters in 12 namespaces", d.createFleet},
		{"Who owns what", d.showOwnership},
		{"1,000 keys in every cluster", d.writeKeys},
		{"An operator replica is killed with SIGKILL", d.killReplica},
		{"The operator is scaled to 5 replicas and back to 3", d.scale},
		{"The Pod of a primary is deleted", d.deletePrimary},
		{"Every key is read again", d.readKeys},
	}
	for i, a := range acts {
		fmt.Printf("\n== %d. %s\n", i+1, a.title)
		if err := a.act(ctx); err != nil {
			return fmt.Errorf("%s: %w", a.title, err)
		}
	}
	fmt.Println()
	return nil
}

func (d *demo) setUp(ctx context.Context) error {
	s, err := stage.Open(ctx, stage.Options{Name: "demo", Log: func(line string) { d.say("%s", line) }})
	if err != nil {
		return err
	}
	d.stage = s
	d.dial, d.endDial = s.Dialer()
	if err := s.Install(ctx); err != nil {
		return err
	}
	return s.WaitSettled(ctx, stage.OperatorReplicas)
}

// buildFleet is 15 RedisClusters in 12 namespaces: sizes 1 and 3, with and without replicas, passwords
// and storage.
func buildFleet() []stage.Wish {
	const password = `p4ss "word" $with #odd 'bytes'`
	teams := []string{"checkout", "sessions", "fraud", "search", "mail", "orders", "cart", "stock", "jobs", "billing", "login", "audit"}
	namespace := func(i int) string { return "team-" + teams[i] }
	var fleet []stage.Wish
	for i := range teams {
		w := stage.Wish{Namespace: namespace(i), Name: "cache", Size: 1}
		switch i % 4 {
		case 0:
			w.Size, w.Replicas = 3, 1
		case 1:
			w.Replicas = 1
		}
		if i%3 == 0 {
			w.Password = password
		}
		w.Storage = i%4 == 2
		fleet = append(fleet, w)
	}
	return append(fleet,
		stage.Wish{Namespace: namespace(0), Name: "queue", Size: 1, Storage: true},
		stage.Wish{Namespace: namespace(1), Name: "index", Size: 3},
		stage.Wish{Namespace: namespace(2), Name: "store", Size: 3, Storage: true, Password: password},
	)
}

func keysOf(fleet []stage.Wish) []types.NamespacedName {
	var keys []types.NamespacedName
	for _, w := range fleet {
		keys = append(keys, w.Key())
	}
	return keys
}

func (d *demo) createFleet(ctx context.Context) error {
	d.fleet = buildFleet()
	started := time.Now()
	nodes := 0
	for _, w := range d.fleet {
		nodes += w.Nodes()
		if err := d.stage.Create(ctx, w); err != nil {
			return err
		}
	}
	d.say("created %d RedisClusters, %d Redis nodes in all", len(d.fleet), nodes)
	err := d.stage.WaitReady(ctx, keysOf(d.fleet), func(ready int) { d.say("%d of %d Ready", ready, len(d.fleet)) })
	if err != nil {
		return err
	}
	d.say("all Ready %.1f s after the first was created", time.Since(started).Seconds())
	return nil
}

// fail prints what was wrong, with what helps to find out why.
func (d *demo) fail(err error) {
	fmt.Printf("\ndemo: FAILED after %.0f s: %v\n", time.Since(d.started).Seconds(), err)
	if d.stage == nil || d.stage.Client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	d.stage.Report(ctx, os.Stdout)
}

// close removes what the demo made. On the current context that is the operator and the namespaces.
func (d *demo) close() {
	if d.stage == nil {
		return
	}
	if stage.OnCurrentContext() && os.Getenv("KEEP") != "1" {
		d.cleanCurrentContext()
	}
	d.endDial()
	d.stage.Close()
}

func (d *demo) cleanCurrentContext() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, w := range d.fleet {
		if _, err := d.stage.Kubectl(ctx, "delete", "namespace", w.Namespace, "--ignore-not-found", "--wait=false"); err != nil {
			d.say("%v", err)
		}
	}
	if err := d.stage.Uninstall(ctx); err != nil {
		d.say("%v", err)
	}
}
