// Package e2e tells the stories of issue-level promises on a real Kubernetes: the operator as
// deploy/ installs it, real Redis, and clients that write and read.
//
// One Kubernetes serves all stories. Those that disturb the operator's replicas run one after the
// other; those about Redis clusters run in parallel after them, each in a namespace of its own.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"example.com/redis-operator/test/stage"
)

const (
	// A quarter of the default: the renewal of Leases is a good part of what an idle installation costs. The
	// default is what the demo, chaos and the benchmarks run with.
	shards = 16

	setUpLimit = 3 * time.Minute
	storyLimit = 4 * time.Minute
)

// env is what every story shares; it is set before the first one runs.
var env struct {
	*stage.Stage
	dial stage.Dialer
	log  *stage.LogCollector
	// interrupted ends with Ctrl-C or SIGTERM: every story then fails at once, and the stage is
	// taken down as after any other end.
	interrupted context.Context
}

func TestMain(m *testing.M) {
	flag.Parse()
	ctrllog.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := runStories(ctx, m)
	stop()
	os.Exit(code)
}

func runStories(interrupted context.Context, m *testing.M) int {
	ctx, cancel := context.WithTimeout(interrupted, setUpLimit)
	defer cancel()
	env.interrupted = interrupted
	started := time.Now()
	s, err := stage.Open(ctx, stage.Options{Name: "e2e", Shards: shards, Log: func(line string) {
		fmt.Printf("%6.1f s  %s\n", time.Since(started).Seconds(), line)
	}})
	if err != nil {
		fmt.Println("setting the stage:", err)
		return 1
	}
	defer s.Close()
	env.Stage = s
	env.log = s.CollectLogs()
	defer env.log.Stop()
	if err := s.Install(ctx); err != nil {
		fmt.Println("installing the operator:", err)
		s.Report(ctx, os.Stdout)
		return 1
	}
	var end func()
	env.dial, end = s.Dialer()
	defer end()
	return m.Run()
}

// story gives a test its deadline, and prints what helps when it has failed.
func story(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(env.interrupted, storyLimit,
		fmt.Errorf("the story took longer than %s", storyLimit))
	t.Cleanup(func() {
		cancel()
		if t.Failed() && env.interrupted.Err() == nil {
			report, end := context.WithTimeout(context.Background(), 20*time.Second)
			defer end()
			env.Report(report, os.Stdout)
		}
	})
	return ctx
}
