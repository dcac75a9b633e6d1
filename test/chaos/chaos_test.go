package chaos

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

var (
	seed    = flag.Uint64("chaos.seed", 1, "what the disturbances and the churn are drawn from")
	minutes = flag.Float64("chaos.minutes", 1, "how long the installation is disturbed")
	keep    = flag.String("chaos.keep", "", "an existing folder into which the API server's audit log is copied")
)

// TestChaos is a run of -chaos.minutes. It needs the machine for itself: it measures time.
func TestChaos(t *testing.T) {
	if stage.OnCurrentContext() {
		t.Skip("needs the local Kubernetes: it breaks Nodes and the API server")
	}
	ctrllog.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	length := time.Duration(*minutes * float64(time.Minute))
	fmt.Printf("chaos: seed %d, %s; again with: make chaos SEED=%d MINUTES=%g\n", *seed, length, *seed, *minutes)
	violations, err := Run(ctx, Options{Seed: *seed, Length: length, Out: os.Stdout, Keep: *keep})
	for _, v := range violations {
		t.Error(v)
	}
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("chaos: seed %d, %s: %d violations\n", *seed, length, len(violations))
}
