package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"example.com/redis-operator/sharding"
)

// TestMakeDeployKeepsReplicas runs `make deploy` with a kubectl that knows of one StatefulSet and
// notes what is applied.
func TestMakeDeployKeepsReplicas(t *testing.T) {
	kubectl, err := filepath.Abs("../../bin/k8s/kubectl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kubectl); err != nil {
		t.Fatalf("no bin/k8s/kubectl, which make k8s builds: %v", err)
	}
	for installed, want := range map[string]int32{"": 3, "5": 5, "0": 0} {
		t.Run("installed "+installed, func(t *testing.T) {
			dir := t.TempDir()
			applied, fake := filepath.Join(dir, "applied.yaml"), filepath.Join(dir, "kubectl")
			script := fmt.Sprintf("#!/bin/sh\ncase $1 in\nget) printf '%s' ;;\nkustomize) exec %s \"$@\" ;;\napply) cat > %s ;;\nesac\n",
				installed, kubectl, applied)
			if err := os.WriteFile(fake, []byte(script), 0o700); err != nil { //nolint:gosec // It is a program.
				t.Fatal(err)
			}
			said, err := exec.CommandContext(t.Context(), "make", "-C", "../..", "deploy", "KUBECTL="+fake, "IMG=example.com/operator:v2").CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			set := findStatefulSet(t, applied)
			if got := ptr.Deref(set.Spec.Replicas, -1); got != want {
				t.Errorf("%d replicas applied, want %d", got, want)
			}
			if got := set.Spec.Template.Spec.Containers[0].Image; got != "example.com/operator:v2" {
				t.Errorf("image %s applied", got)
			}
		})
	}
}

func findStatefulSet(t *testing.T, path string) appsv1.StatefulSet {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range bytes.Split(content, []byte("\n---\n")) {
		var set appsv1.StatefulSet
		if err := yaml.Unmarshal(document, &set); err == nil && set.Kind == "StatefulSet" {
			return set
		}
	}
	t.Fatal("no StatefulSet was applied")
	return appsv1.StatefulSet{}
}

// TestStatefulSetFitsTheDefaults holds deploy/manager against what the program assumes where no flag
// says otherwise.
func TestStatefulSetFitsTheDefaults(t *testing.T) {
	content, err := os.ReadFile("../../deploy/manager/statefulset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var set appsv1.StatefulSet
	if err := yaml.UnmarshalStrict(content, &set); err != nil {
		t.Fatal(err)
	}
	options, err := ParseOptions(nil, environment(inPod), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	pod := set.Spec.Template.Spec
	container := pod.Containers[0]
	ports := map[string]int32{}
	for _, port := range container.Ports {
		ports[port.Name] = port.ContainerPort
	}
	fields := map[string]string{}
	for _, variable := range container.Env {
		if variable.ValueFrom != nil {
			fields[variable.Name] = variable.ValueFrom.FieldRef.FieldPath
		}
	}
	cases := map[string]struct{ got, want any }{
		"fields":            {len(fields), 3},
		"grace period":      {time.Duration(ptr.Deref(pod.TerminationGracePeriodSeconds, 0)) * time.Second, options.PodGrace},
		"termination log":   {container.TerminationMessagePath, sharding.DefaultTerminationLog},
		"management":        {set.Spec.PodManagementPolicy, appsv1.ParallelPodManagement},
		"name":              {set.Name, options.StatefulSet},
		"metrics":           {fmt.Sprintf(":%d", ports["metrics"]), options.MetricsAddress},
		"probes":            {fmt.Sprintf(":%d", ports["probes"]), options.ProbeAddress},
		"$POD_NAME":         {fields["POD_NAME"], "metadata.name"},
		"$POD_UID":          {fields["POD_UID"], "metadata.uid"},
		"$POD_NAMESPACE":    {fields["POD_NAMESPACE"], "metadata.namespace"},
		"default namespace": {defaultNamespace, "redis-operator-system"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("is %v, want %v", tc.got, tc.want)
			}
		})
	}
}
