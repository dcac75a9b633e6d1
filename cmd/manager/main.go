// Command manager is one replica of the Redis operator. Run several: each owns some shards of the
// cluster's namespaces, see package sharding.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Exit codes of the program.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() {
	os.Exit(execute(ctrl.SetupSignalHandler(), os.Args[1:], os.Getenv, os.Stderr))
}

// execute parses, runs until ctx ends, and returns the exit code.
func execute(ctx context.Context, arguments []string, getenv func(string) string, stderr io.Writer) int {
	options, err := ParseOptions(arguments, getenv, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "manager: %v\n", err)
		return exitUsage
	}
	logger := zap.New(zap.UseFlagOptions(&options.Log))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	if err := run(ctx, options); err != nil {
		logger.Error(err, "Ending with an error")
		return exitError
	}
	return exitOK
}
