// Command demo runs the main job of the operator from nothing to a verified end: a Kubernetes, the
// operator's replicas, a fleet of RedisClusters with keys in them, the loss of an operator replica,
// a scale-out and back, the loss of a primary, and a last look at every key. Everything it prints
// was measured in the run. It exits with 0 only after "demo: ok".
//
// Environment: CLUSTER=current runs it on the current kubeconfig context; KEEP=1 leaves everything
// up and says how to look around.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"example.com/redis-operator/test/stage"
)

// limit bounds the whole demo: it takes under five minutes once everything is built.
const limit = 10 * time.Minute

func main() {
	ctrllog.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx)
	stop()
	os.Exit(code)
}

func run(ctx context.Context) int {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo took longer than %s", limit))
	defer cancel()
	d := &demo{started: time.Now()}
	defer d.close()
	if err := d.play(ctx); err != nil {
		d.fail(err)
		return 1
	}
	if os.Getenv("KEEP") == "1" {
		d.lookAround(ctx)
	}
	fmt.Printf("demo: ok (%.0f s)\n", time.Since(d.started).Seconds())
	return 0
}

// lookAround says what can be done with a demo that stays up, and waits for Ctrl-C.
func (d *demo) lookAround(ctx context.Context) {
	fmt.Printf(`
The demo stays up until Ctrl-C. Look around in another terminal:
  export KUBECONFIG=%s
  kubectl get rdc -A
  kubectl get leases -n %s
  kubectl logs -n %s redis-operator-0 -f
  kubectl scale -n %s statefulset/redis-operator --replicas=4
`, d.stage.Kubeconfig, stage.OperatorNamespace, stage.OperatorNamespace, stage.OperatorNamespace)
	// The demo's own limit does not count while somebody looks around.
	wait, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-wait.Done()
}
