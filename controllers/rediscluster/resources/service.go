package resources

import (
	redisv1 "example.com/redis-operator/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// HeadlessService gives every Pod a host name, ready or not.
func HeadlessService(in Input) *corev1.Service {
	service := in.service(HeadlessServiceName(in.Cluster.Name))
	service.Spec.ClusterIP = corev1.ClusterIPNone
	service.Spec.PublishNotReadyAddresses = true
	service.Spec.Ports = append(service.Spec.Ports, servicePort(redisv1.PortNameBus, in.Cluster.Spec.ClientPort()+redisv1.BusPortOffset))
	return service
}

// ClientService is where a cluster client starts: any node tells it of all others.
func ClientService(in Input) *corev1.Service {
	return in.service(ClientServiceName(in.Cluster.Name))
}

func (in Input) service(name string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: in.meta(name, in.labels()),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: Selector(in.Cluster.Name),
			Ports:    []corev1.ServicePort{servicePort(redisv1.PortNameRedis, in.Cluster.Spec.ClientPort())},
		},
	}
}

func servicePort(name string, port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromString(name)}
}
