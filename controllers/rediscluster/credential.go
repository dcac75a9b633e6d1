package rediscluster

import (
	"bytes"
	"context"
	"fmt"

	redisv1 "example.com/redis-operator/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxPasswordBytes is the longest password that a server takes.
const maxPasswordBytes = 512

// credential is the password of a cluster, empty when it has none, or the reason of api/v1 why there is
// none to use.
type credential struct {
	value           string
	reason, message string
}

// observePassword reads the password from the Secret that the spec names.
func (r *Reconciler) observePassword(ctx context.Context, cluster *redisv1.RedisCluster) (credential, error) {
	name := cluster.Spec.PasswordSecret
	if name == "" {
		return credential{}, nil
	}
	secret := &corev1.Secret{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return credential{reason: redisv1.ReasonSecretMissing, message: fmt.Sprintf("Secret %s does not exist", name)}, nil
	}
	if err != nil {
		return credential{}, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return computeCredential(secret), nil
}

// computeCredential takes the password out of a Secret, or says what is wrong with it.
func computeCredential(secret *corev1.Secret) credential {
	password, found := secret.Data[redisv1.SecretKeyPassword]
	invalid := func(format string, args ...any) credential {
		return credential{reason: redisv1.ReasonPasswordInvalid,
			message: fmt.Sprintf("key %s of Secret %s %s", redisv1.SecretKeyPassword, secret.Name, fmt.Sprintf(format, args...))}
	}
	switch {
	case !found:
		return credential{reason: redisv1.ReasonSecretMissing,
			message: fmt.Sprintf("Secret %s has no key %s", secret.Name, redisv1.SecretKeyPassword)}
	case len(password) == 0:
		return invalid("is empty")
	case len(password) > maxPasswordBytes:
		return invalid("has more than %d bytes", maxPasswordBytes)
	case bytes.IndexByte(password, 0) >= 0:
		return invalid("holds a NUL, which a password cannot")
	case bytes.IndexByte(password, '\n') >= 0:
		return invalid("holds a newline, which a password cannot: often one that echo put at its end")
	}
	return credential{value: string(password)}
}
