package topology

import "testing"

func TestIsStopped(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		node Node
		want bool
	}{
		"answers":                         {Node{Pod{ContainerRunning: true}, State{Alive: true, Reachable: true}}, false},
		"busy":                            {Node{Pod{ContainerRunning: true}, State{Alive: true}}, false},
		"does not run":                    {Node{Pod{}, State{}}, true},
		"hangs":                           {Node{Pod{ContainerRunning: true}, State{}}, false},
		"refuses, the kubelet says so":    {Node{Pod{ContainerRunning: true}, State{Refused: true}}, true},
		"refuses, the kubelet can get in": {Node{Pod{ContainerRunning: true, Ready: true}, State{Refused: true}}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.node.IsStopped(); got != tc.want {
				t.Errorf("IsStopped is %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	six := Address{IP: "fd00::7", Port: 6379}
	if got := six.String(); got != "[fd00::7]:6379" {
		t.Errorf("String is %s", got)
	}
	if !six.Same(Address{IP: "fd00::7", Port: 6379, BusPort: 16379}) || six.Same(Address{IP: "fd00::7", Port: 6379, BusPort: 1}) {
		t.Error("bus ports are compared wrongly")
	}
}
