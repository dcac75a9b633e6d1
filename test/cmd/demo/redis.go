package main

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"k8s.io/apimachinery/pkg/types"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/stage"
)

const keysPerCluster = 1000

func (d *demo) writeKeys(ctx context.Context) error {
	started := time.Now()
	err := d.eachCluster(ctx, func(client *goredis.ClusterClient) error {
		return stage.WriteKeys(ctx, client, keysPerCluster)
	})
	if err != nil {
		return err
	}
	d.say("wrote %d keys in %.1f s", keysPerCluster*len(d.fleet), time.Since(started).Seconds())
	return d.readKeys(ctx)
}

func (d *demo) readKeys(ctx context.Context) error {
	started := time.Now()
	total := 0
	err := d.eachCluster(ctx, func(client *goredis.ClusterClient) error {
		found, err := stage.ReadKeys(ctx, client, keysPerCluster)
		total += found
		return err
	})
	d.say("read %d of %d keys in %.1f s", total, keysPerCluster*len(d.fleet), time.Since(started).Seconds())
	return err
}

func (d *demo) eachCluster(ctx context.Context, use func(*goredis.ClusterClient) error) error {
	for _, w := range d.fleet {
		client, err := d.stage.RedisClient(ctx, w.Key(), d.dial)
		if err != nil {
			return err
		}
		err = use(client)
		if closeErr := client.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return fmt.Errorf("cluster %s: %w", w.Key(), err)
		}
	}
	return nil
}

// deletePrimary deletes the Pod of a primary that has a replica and shows the promotion, as the
// operator reports it and as a client feels it.
func (d *demo) deletePrimary(ctx context.Context) error {
	key := d.fleet[0].Key()
	cluster, err := d.stage.Cluster(ctx, key)
	if err != nil {
		return err
	}
	primary, ok := primaryOfGroup(cluster, 0)
	if !ok {
		return fmt.Errorf("RedisCluster %s reports no primary of node group 0", key)
	}
	client, err := d.stage.RedisClient(ctx, key, d.dial)
	if err != nil {
		return err
	}
	defer client.Close()
	deleted := time.Now()
	if _, err := d.stage.Kubectl(ctx, "delete", "pod", "-n", key.Namespace, primary.Name, "--wait=false"); err != nil {
		return err
	}
	d.say("deleted %s, primary of slots %s in %s", primary.Name, primary.Slots, key)
	promoted, err := d.waitPromoted(ctx, key, primary)
	if err != nil {
		return err
	}
	d.say("%s was promoted, and reported so %.1f s after the deletion", promoted.Name, time.Since(deleted).Seconds())
	if err := stage.WriteKeys(ctx, client, keysPerCluster); err != nil {
		return fmt.Errorf("writing after the promotion: %w", err)
	}
	d.say("a client wrote all %d keys again", keysPerCluster)
	if err := d.stage.WaitReady(ctx, []types.NamespacedName{key}, nil); err != nil {
		return err
	}
	d.say("%s is Ready again with all its nodes %.1f s after the deletion", key, time.Since(deleted).Seconds())
	return nil
}

func primaryOfGroup(cluster *redisv1.RedisCluster, group int32) (redisv1.NodeState, bool) {
	for _, node := range cluster.Status.NodeStates {
		if node.NodeGroup == group && node.Role == "primary" && node.Slots != "" {
			return node, true
		}
	}
	return redisv1.NodeState{}, false
}

func (d *demo) waitPromoted(ctx context.Context, key types.NamespacedName, old redisv1.NodeState) (redisv1.NodeState, error) {
	var promoted redisv1.NodeState
	err := d.stage.Wait(ctx, "another primary of the node group in "+key.String(), func() (string, error) {
		cluster, err := d.stage.Cluster(ctx, key)
		if err != nil {
			return "", err
		}
		node, ok := primaryOfGroup(cluster, old.NodeGroup)
		if !ok || node.ID == old.ID {
			return fmt.Sprintf("phase %s, primary %s", cluster.Status.Phase, node.Name), nil
		}
		promoted = node
		return "", nil
	})
	return promoted, err
}
