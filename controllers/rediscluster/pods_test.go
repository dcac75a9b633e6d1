package rediscluster

import (
	"strings"
	"testing"

	redisv1 "example.com/redis-operator/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const rejected = `entrypoint: starting with directives 0123456789abcdef

*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***
Reading the configuration file, at line 14
>>> 'maxmemry 100mb'
Bad directive or wrong number of arguments
`

func podWith(status corev1.ContainerStatus, conditions ...corev1.PodCondition) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "orders-0-1", Labels: map[string]string{appsv1.StatefulSetRevisionLabel: "new"}},
		Spec:       corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Image: "redis:7.0"}}},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{status}, Conditions: conditions},
	}
}

func terminated(code int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: message}}
}

var (
	running  = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	crashing = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
)

func TestComputePodProblem(t *testing.T) {
	cases := map[string]struct {
		pod        *corev1.Pod
		wantReason string
		wantWords  []string
	}{
		"runs": {pod: podWith(corev1.ContainerStatus{Ready: true, State: running})},
		"waits at its start gate after a kill": {
			pod: podWith(corev1.ContainerStatus{State: running, LastTerminationState: terminated(137, "")}),
		},
		"not scheduled": {
			pod: podWith(corev1.ContainerStatus{}, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available"}),
			wantReason: redisv1.ReasonNotScheduled, wantWords: []string{"orders-0-1", "0/3 nodes"},
		},
		"image": {
			pod:        podWith(corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "volatile"}}}),
			wantReason: redisv1.ReasonImageNotPulled, wantWords: []string{"redis:7.0", "orders-0-1", "node-a"},
		},
		"directive, between two starts": {
			pod:        podWith(corev1.ContainerStatus{State: crashing, LastTerminationState: terminated(1, rejected)}),
			wantReason: redisv1.ReasonDirectiveRejected, wantWords: []string{"orders-0-1", "node-a", "'maxmemry 100mb': Bad directive"},
		},
		"directive, in the middle of a start": {
			pod:        podWith(corev1.ContainerStatus{State: running, LastTerminationState: terminated(1, rejected)}),
			wantReason: redisv1.ReasonDirectiveRejected, wantWords: []string{"maxmemry"},
		},
		"ends again and again": {
			pod:        podWith(corev1.ContainerStatus{State: crashing, LastTerminationState: terminated(1, "one\nentrypoint: the password is empty\n")}),
			wantReason: redisv1.ReasonContainerFailing, wantWords: []string{"exit code 1", "the password is empty"},
		},
		"cannot be created": {
			pod:        podWith(corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: "no key"}}}),
			wantReason: redisv1.ReasonContainerFailing, wantWords: []string{"no key", "node-a"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, found := computePodProblem(tc.pod)
			if found != (tc.wantReason != "") || got.reason != tc.wantReason {
				t.Fatalf("got %+v, want reason %q", got, tc.wantReason)
			}
			for _, word := range tc.wantWords {
				if !strings.Contains(got.message, word) {
					t.Errorf("message %q does not say %q", got.message, word)
				}
			}
		})
	}
}

func TestIsReplaceable(t *testing.T) {
	const hash = "fedcba9876543210"
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 2},
		Status: appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdateRevision: "new"}}
	old := podWith(corev1.ContainerStatus{State: crashing})
	old.Labels[appsv1.StatefulSetRevisionLabel] = "old"
	cases := map[string]struct {
		pod  *corev1.Pod
		hash string
		want bool
	}{
		"present template, running":        {podWith(corev1.ContainerStatus{State: running}), hash, false},
		"older template":                   {old, hash, true},
		"crashed with other directives":    {podWith(corev1.ContainerStatus{State: crashing, LastTerminationState: terminated(1, rejected)}), hash, true},
		"crashed with these directives":    {podWith(corev1.ContainerStatus{State: crashing, LastTerminationState: terminated(1, rejected)}), "0123456789abcdef", false},
		"crashed without saying with what": {podWith(corev1.ContainerStatus{State: crashing, LastTerminationState: terminated(1, "x")}), hash, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := isReplaceable(tc.pod, set, tc.hash); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestComputeCredential(t *testing.T) {
	cases := map[string]struct {
		data       map[string][]byte
		wantReason string
	}{
		"any bytes": {map[string][]byte{"password": {1, 255, '\r', ' ', '"', '\\', '$'}}, ""},
		"no key":    {map[string][]byte{"pass": []byte("x")}, redisv1.ReasonSecretMissing},
		"empty":     {map[string][]byte{"password": {}}, redisv1.ReasonPasswordInvalid},
		"NUL":       {map[string][]byte{"password": {'a', 0}}, redisv1.ReasonPasswordInvalid},
		"newline":   {map[string][]byte{"password": []byte("a\n")}, redisv1.ReasonPasswordInvalid},
		"too long":  {map[string][]byte{"password": []byte(strings.Repeat("x", 513))}, redisv1.ReasonPasswordInvalid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := computeCredential(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "auth"}, Data: tc.data})
			if got.reason != tc.wantReason || (got.reason == "") != (got.value != "") {
				t.Errorf("got %+v, want reason %q", got, tc.wantReason)
			}
			if got.reason != "" && !strings.Contains(got.message, "Secret auth") {
				t.Errorf("message %q does not name the Secret", got.message)
			}
		})
	}
}

func TestIsFailingToStart(t *testing.T) {
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	ended := func(code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	cases := map[string]struct {
		statuses []corev1.ContainerStatus
		want     bool
	}{
		"none there":           {},
		"all end":              {statuses: []corev1.ContainerStatus{ended(1), ended(1)}, want: true},
		"one waits at its end": {statuses: []corev1.ContainerStatus{ended(0), ended(1)}, want: true},
		"one runs":             {statuses: []corev1.ContainerStatus{ended(1), running}},
		"ended well":           {statuses: []corev1.ContainerStatus{ended(0)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pods := []*corev1.Pod{{}}
			for _, status := range tc.statuses {
				pods = append(pods, &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{status}}})
			}
			if got := isFailingToStart(pods); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestNormalise(t *testing.T) {
	same := map[string]string{"100mb": "104857600", "1K": "1000", "900  1": "900 1", "replica 1mb 2kb 60": "replica 1048576 2048 60"}
	for a, b := range same {
		if normalise(a) != normalise(b) {
			t.Errorf("normalise: %q and %q differ", a, b)
		}
	}
	if normalise("100mb") == normalise("100kb") {
		t.Error("normalise: different amounts are the same")
	}
	if normalise("KE") == normalise("Ke") {
		t.Error("normalise: flags that differ in case are the same")
	}
}
