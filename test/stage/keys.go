package stage

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	redisv1 "example.com/redis-operator/api/v1"
)

const (
	keyBatch     = 200
	redisTimeout = 5 * time.Second
)

// RedisClient returns a cluster client for a RedisCluster, as an application would use it. The
// caller closes it.
func (s *Stage) RedisClient(ctx context.Context, key types.NamespacedName, dial Dialer) (*goredis.ClusterClient, error) {
	var cluster redisv1.RedisCluster
	if err := s.Client.Get(ctx, key, &cluster); err != nil {
		return nil, fmt.Errorf("reading RedisCluster %s: %w", key, err)
	}
	password := ""
	if name := cluster.Spec.PasswordSecret; name != "" {
		var secret corev1.Secret
		if err := s.Client.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name}, &secret); err != nil {
			return nil, fmt.Errorf("reading the password of %s: %w", key, err)
		}
		password = string(secret.Data["password"])
	}
	var addresses []string
	for _, node := range cluster.Status.NodeStates {
		if node.Address != "" {
			addresses = append(addresses, node.Address)
		}
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("RedisCluster %s reports no address", key)
	}
	return goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs:          addresses,
		Password:       password,
		Dialer:         func(ctx context.Context, network, addr string) (net.Conn, error) { return dial(ctx, network, addr) },
		PoolSize:       2,
		DialTimeout:    redisTimeout,
		ReadTimeout:    redisTimeout,
		MaxRedirects:   10,
		MaxRetries:     3,
		RouteByLatency: false,
	}), nil
}

func keyName(i int) string  { return "key-" + strconv.Itoa(i) }
func keyValue(i int) string { return "value-" + strconv.Itoa(i*i) }
func batchEnd(i, n int) int { return min(i+keyBatch, n) }

// WriteKeys writes n keys whose values ReadKeys knows.
func WriteKeys(ctx context.Context, client *goredis.ClusterClient, n int) error {
	for start := 0; start < n; start += keyBatch {
		_, err := client.Pipelined(ctx, func(pipe goredis.Pipeliner) error {
			for i := start; i < batchEnd(start, n); i++ {
				pipe.Set(ctx, keyName(i), keyValue(i), 0)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("writing keys from %s on: %w", keyName(start), err)
		}
	}
	return nil
}

// ReadKeys reads what WriteKeys wrote and returns how many of the n keys have their value; the
// error names the first that has not.
func ReadKeys(ctx context.Context, client *goredis.ClusterClient, n int) (int, error) {
	found := 0
	var wrong error
	for start := 0; start < n; start += keyBatch {
		replies := make([]*goredis.StringCmd, 0, keyBatch)
		_, err := client.Pipelined(ctx, func(pipe goredis.Pipeliner) error {
			for i := start; i < batchEnd(start, n); i++ {
				replies = append(replies, pipe.Get(ctx, keyName(i)))
			}
			return nil
		})
		for i, reply := range replies {
			switch {
			case reply.Err() == nil && reply.Val() == keyValue(start+i):
				found++
			case wrong == nil:
				wrong = wrongKey(start+i, reply)
			}
		}
		if err != nil && wrong == nil {
			wrong = fmt.Errorf("reading keys from %s on: %w", keyName(start), err)
		}
	}
	return found, wrong
}

func wrongKey(i int, reply *goredis.StringCmd) error {
	if reply.Err() != nil {
		return fmt.Errorf("reading %s: %w", keyName(i), reply.Err())
	}
	return fmt.Errorf("%s is %q, want %q", keyName(i), reply.Val(), keyValue(i))
}
