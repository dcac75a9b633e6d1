package membership

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"example.com/redis-operator/sharding/placement"
)

// NewIdentity returns a new identity of a process in the given Pod. An empty podUID (a process
// without a Pod) is replaced by a random one, so that no other process passes for its container's
// predecessor.
func NewIdentity(member placement.Member, podUID string) (placement.Identity, error) {
	if podUID == "" {
		podUID = "none-" + nonce()
	}
	identity, err := placement.NewIdentity(string(member), podUID, nonce())
	if err != nil {
		return "", fmt.Errorf("composing an identity of %s: %w", member, err)
	}
	return identity, nil
}

// nonce returns ten random hexadecimal digits.
func nonce() string {
	var bytes [5]byte
	_, _ = rand.Read(bytes[:]) // never fails: it crashes the process instead
	return hex.EncodeToString(bytes[:])
}

// WriteTerminationLog appends the identity to the file that the kubelet copies into the status of
// the exited container. It must be called before the identity is published.
func WriteTerminationLog(path string, identity placement.Identity) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening the termination log: %w", err)
	}
	if _, err := fmt.Fprintf(file, "%s\n", identity); err != nil {
		_ = file.Close()
		return fmt.Errorf("writing the identity to the termination log: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("closing the termination log: %w", err)
	}
	return nil
}

// Terminations returns the messages of all terminated containers, current and last, in the
// kubelet's status of a Pod.
func Terminations(pod *corev1.Pod) []string {
	var messages []string
	for _, status := range pod.Status.ContainerStatuses {
		for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
			if state.Terminated != nil && state.Terminated.Message != "" {
				messages = append(messages, state.Terminated.Message)
			}
		}
	}
	return messages
}

// ConfirmsDeath tells whether a termination message in the status of the Pod with this UID proves
// that the process with this identity has ended.
func ConfirmsDeath(podUID, message string, identity placement.Identity) bool {
	return identity.PodUID() == podUID && strings.Contains(message, string(identity))
}
