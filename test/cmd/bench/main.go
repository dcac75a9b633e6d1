// Command bench runs one benchmark scenario and prints its figures, one a line:
//
//	bench <scenario> <metric> <value> <unit>
//
// Lines that begin with # tell how it goes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"example.com/redis-operator/test/bench"
)

var scenarios = map[string]func(context.Context) error{
	"cache": func(ctx context.Context) error {
		var options bench.CacheOptions
		var errs [3]error
		options.Namespaces, errs[0] = fromEnv("NAMESPACES", 1000)
		options.Empty, errs[1] = fromEnv("EMPTY", 4000)
		options.MultiNamespaces, errs[2] = fromEnv("MULTI_NAMESPACES", min(200, options.Namespaces))
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		return bench.Cache(ctx, os.Stdout, options)
	},
	"failover": func(ctx context.Context) error {
		trials, errTrials := fromEnv("TRIALS", 50)
		nodes, errNodes := fromEnv("NODES", 20)
		if err := errors.Join(errTrials, errNodes); err != nil {
			return err
		}
		return bench.Failover(ctx, os.Stdout, trials, nodes)
	},
	"formation": func(ctx context.Context) error {
		rounds, err := fromEnv("ROUNDS", 10)
		if err != nil {
			return err
		}
		return bench.Formation(ctx, os.Stdout, rounds)
	},
	"handover": func(ctx context.Context) error {
		moves, err := fromEnv("MOVES", 200)
		if err != nil {
			return err
		}
		return bench.Handover(ctx, os.Stdout, moves)
	},
	"idle": func(ctx context.Context) error {
		minutes, err := fromEnv("IDLE_MINUTES", 10)
		if err != nil {
			return err
		}
		return bench.Idle(ctx, os.Stdout, time.Duration(minutes)*time.Minute)
	},
	"placement": func(context.Context) error { return bench.Placement(os.Stdout) },
	"roll": func(ctx context.Context) error {
		trials, err := fromEnv("TRIALS", 10)
		if err != nil {
			return err
		}
		return bench.Roll(ctx, os.Stdout, trials)
	},
	"scaleout":   scaleout,
	"roll-redis": func(ctx context.Context) error { return bench.RollRedis(ctx, os.Stdout) },
	"zipf":       func(context.Context) error { bench.Zipf(os.Stdout); return nil },
}

func scaleout(ctx context.Context) error {
	var options bench.ScaleoutOptions
	var errs [3]error
	options.Clusters, errs[0] = fromEnv("CLUSTERS", 2000)
	options.Namespaces, errs[1] = fromEnv("NAMESPACES", 200)
	options.MilliCores, errs[2] = fromEnv("CPU_MILLIS", 100)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	return bench.Scaleout(ctx, os.Stdout, options)
}

func main() {
	ctrllog.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	for _, runChild := range []func(context.Context) (bool, error){bench.RunCacheChild, bench.RunRedisChild} {
		isChild, err := runChild(context.Background())
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		if isChild {
			return
		}
	}
	scenario := flag.String("scenario", "", "one of: "+names())
	flag.Parse()
	run, ok := scenarios[*scenario]
	if !ok {
		fmt.Fprintf(os.Stderr, "bench: no scenario %q: it is one of %s\n", *scenario, names())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func names() string { return strings.Join(slices.Sorted(maps.Keys(scenarios)), ", ") }

// fromEnv reads a positive whole number from the environment.
func fromEnv(name string, otherwise int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < 1 {
		return 0, fmt.Errorf("%s is %q: it must be a whole number from 1", name, text)
	}
	return value, nil
}
