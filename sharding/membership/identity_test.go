package membership_test

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"example.com/redis-operator/sharding/membership"
	"example.com/redis-operator/sharding/placement"
)

func TestNewIdentityIsNewEachTime(t *testing.T) {
	for _, podUID := range []string{"uid", ""} {
		first, err := membership.NewIdentity("op-0", podUID)
		if err != nil {
			t.Fatal(err)
		}
		second, err := membership.NewIdentity("op-0", podUID)
		if err != nil {
			t.Fatal(err)
		}
		if first == second || first.Member() != "op-0" {
			t.Errorf("identities %q and %q, want two of member op-0", first, second)
		}
		if samePod := first.PodUID() == second.PodUID(); samePod != (podUID != "") {
			t.Errorf("Pod UIDs %q and %q of podUID %q", first.PodUID(), second.PodUID(), podUID)
		}
	}
	if _, err := membership.NewIdentity("op_0", "uid"); err == nil {
		t.Error("a member with the separator in its name was accepted")
	}
}

// Each new identity is added to the log, so that the death of any of them is confirmed.
func TestTerminationLogConfirmsEveryIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	for _, identity := range []placement.Identity{"op-0_uid_n1", "op-0_uid_n2"} {
		if err := membership.WriteTerminationLog(path, identity); err != nil {
			t.Fatal(err)
		}
	}
	message, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		{LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(message)}}},
	}}}
	messages := membership.Terminations(pod)
	if len(messages) != 1 {
		t.Fatalf("termination messages are %q, want one", messages)
	}
	cases := map[string]struct {
		podUID   string
		identity placement.Identity
		want     bool
	}{
		"the first identity":  {"uid", "op-0_uid_n1", true},
		"the second identity": {"uid", "op-0_uid_n2", true},
		"another Pod":         {"uid2", "op-0_uid_n1", false},
		"another process":     {"uid", "op-0_uid_n3", false},
	}
	for name, tc := range cases {
		if got := membership.ConfirmsDeath(tc.podUID, messages[0], tc.identity); got != tc.want {
			t.Errorf("%s: ConfirmsDeath answers %t, want %t", name, got, tc.want)
		}
	}
	if err := membership.WriteTerminationLog(filepath.Join(t.TempDir(), "no", "log"), "x"); err == nil {
		t.Error("a log that cannot be written was accepted")
	}
}
