package stage

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Dialer connects to a Pod's address from outside the cluster.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer returns how to reach Pods: into the local Kubernetes' network namespace, or by port-forward
// on the current context. The function that it returns besides ends what the dialer has opened.
func (s *Stage) Dialer() (Dialer, func()) {
	if s.Local != nil {
		return s.Local.Dial, func() {}
	}
	f := &forwards{stage: s, local: map[string]string{}, stop: make(chan struct{})}
	return f.dial, func() { close(f.stop) }
}

// forwards keeps one port-forward for each Pod address that was dialled.
type forwards struct {
	stage *Stage
	stop  chan struct{}

	mu    sync.Mutex        // guards local
	local map[string]string // address of a Pod to the local address that is forwarded to it
}

func (f *forwards) dial(ctx context.Context, network, address string) (net.Conn, error) {
	local, err := f.forward(ctx, address)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, local)
}

func (f *forwards) forward(ctx context.Context, address string) (string, error) {
	f.mu.Lock()
	local, known := f.local[address]
	f.mu.Unlock()
	if known {
		return local, nil
	}
	local, err := f.open(ctx, address)
	if err != nil {
		return "", fmt.Errorf("forwarding a port to %s: %w", address, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.local[address] = local
	return local, nil
}

func (f *forwards) open(ctx context.Context, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	pod, err := f.podAt(ctx, host)
	if err != nil {
		return "", err
	}
	transport, upgrader, err := spdy.RoundTripperFor(f.stage.Config)
	if err != nil {
		return "", err
	}
	target := f.stage.Kubernetes.CoreV1().RESTClient().Post().Resource("pods").
		Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:" + port},
		f.stop, ready, io.Discard, io.Discard)
	if err != nil {
		return "", err
	}
	failed := make(chan error, 1)
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		return "", err
	case <-ctx.Done():
		return "", ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))), nil
}

func (f *forwards) podAt(ctx context.Context, ip string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := f.stage.Client.List(ctx, &pods, client.MatchingFields{"status.podIP": ip}); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pods.Items[i].Status.PodIP == ip {
			return &pods.Items[i], nil
		}
	}
	return nil, fmt.Errorf("no Pod has the address %s", ip)
}
