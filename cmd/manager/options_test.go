package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
)

// environment returns a getenv over the given pairs.
func environment(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

var inPod = map[string]string{"POD_NAME": "redis-operator-2", "POD_UID": "u-2", "POD_NAMESPACE": "operators"}

func TestParseOptions(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		arguments   []string
		environment map[string]string
		check       func(Options) bool
	}{
		"in a Pod": {nil, inPod, func(o Options) bool {
			return o.PodName == "redis-operator-2" && o.PodUID == "u-2" && o.Namespace == "operators" && o.StatefulSet == "redis-operator"
		}},
		"outside a cluster": {nil, nil, func(o Options) bool {
			return o.PodName == strings.ToLower(host) && o.StatefulSet == "" && o.Namespace == "redis-operator-system"
		}},
		"another StatefulSet": {[]string{"--statefulset=other"}, inPod, func(o Options) bool { return o.StatefulSet == "other" }},
		"defaults": {nil, inPod, func(o Options) bool {
			return o.Shards == 64 && o.LeaseDuration == 10*time.Second && o.MetricsAddress == ":8080" && o.ProbeAddress == ":8081"
		}},
		"limits follow the workers": {[]string{"--workers=4"}, inPod, func(o Options) bool { return o.QPS == 40 && o.Burst == 80 }},
		"limits given":              {[]string{"--kube-api-qps=7", "--kube-api-burst=9"}, inPod, func(o Options) bool { return o.QPS == 7 && o.Burst == 9 }},
		"LOG_LEVEL": {nil, map[string]string{"LOG_LEVEL": "debug"}, func(o Options) bool {
			return o.Log.Level.Enabled(zapcore.DebugLevel)
		}},
		"--zap-log-level wins": {[]string{"--zap-log-level=error"}, map[string]string{"LOG_LEVEL": "debug"}, func(o Options) bool {
			return !o.Log.Level.Enabled(zapcore.InfoLevel)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseOptions(tc.arguments, environment(tc.environment), &bytes.Buffer{})
			if err != nil {
				t.Fatal(err)
			}
			if !tc.check(got) {
				t.Errorf("unexpected %+v", got)
			}
		})
	}
}

func TestExecuteRefuses(t *testing.T) {
	cases := map[string]struct {
		arguments   []string
		environment map[string]string
		wantCode    int
		wantOutput  string
	}{
		"help":              {[]string{"--help"}, nil, exitOK, "-lease-duration"},
		"unknown flag":      {[]string{"--nonsense"}, nil, exitUsage, "nonsense"},
		"argument":          {[]string{"start"}, nil, exitUsage, `unexpected argument "start"`},
		"no shards":         {[]string{"--shards=0"}, nil, exitUsage, "--shards is 0; it must be positive"},
		"no workers":        {[]string{"--workers=-1"}, nil, exitUsage, "--workers is -1; it must be positive"},
		"no lease duration": {[]string{"--lease-duration=0s"}, nil, exitUsage, "--lease-duration is 0s; it must be positive"},
		"handover after the grace": {
			[]string{"--handover-timeout=40s"}, inPod, exitUsage,
			"--handover-timeout (40s) + DrainBound (5s) + one request (3.5s, half of --renew-deadline) must be less than --graceful-shutdown-timeout (30s)",
		},
		"deadline after expiry": {
			[]string{"--renew-deadline=10s"}, inPod, exitUsage, "--renew-deadline 10s has to be below --lease-duration 10s",
		},
		"bad LOG_LEVEL": {nil, map[string]string{"LOG_LEVEL": "loud"}, exitUsage, "reading LOG_LEVEL"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var output bytes.Buffer
			code := execute(context.Background(), tc.arguments, environment(tc.environment), &output)
			if code != tc.wantCode || !strings.Contains(output.String(), tc.wantOutput) {
				t.Errorf("code %d, output %q; want code %d and output with %q", code, output.String(), tc.wantCode, tc.wantOutput)
			}
		})
	}
}

func TestEveryFlagIsDocumented(t *testing.T) {
	documentation, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	new(Options).bind(flags)
	flags.VisitAll(func(f *flag.Flag) {
		if !strings.Contains(string(documentation), "| `--"+f.Name+"` |") {
			t.Errorf("docs/operations.md has no line for --%s", f.Name)
		}
	})
	for _, match := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\|").FindAllStringSubmatch(string(documentation), -1) {
		if flags.Lookup(match[1]) == nil {
			t.Errorf("docs/operations.md has a line for --%s, which is no flag", match[1])
		}
	}
}
