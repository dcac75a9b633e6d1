package main

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"example.com/redis-operator/sharding"
)

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
