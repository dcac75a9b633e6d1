// Command localcluster starts, stops and shows a local Kubernetes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"example.com/redis-operator/test/localcluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cluster, err := localcluster.Start(ctx, localcluster.Options{Log: func(line string) { fmt.Println(time.Now().Format("05.000"), line) }})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("export KUBECONFIG=" + cluster.Kubeconfig())
	<-ctx.Done()
	fmt.Println(cluster.Stop(context.Background()))
}
