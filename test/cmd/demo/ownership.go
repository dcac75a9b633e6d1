package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/test/stage"
)

// showOwnership prints the table replica -> shards -> namespaces -> clusters -> reconciles, and
// fails when some cluster's shard has no holder or one replica does all the work.
func (d *demo) showOwnership(ctx context.Context) error {
	p, err := d.stage.Placement(ctx)
	if err != nil {
		return err
	}
	holders, err := d.stage.Holders(ctx)
	if err != nil {
		return err
	}
	pods, err := d.stage.OperatorPods(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "          REPLICA\tSHARDS\tNAMESPACES\tCLUSTERS\tRECONCILES")
	shown := 0
	for i := range pods {
		name := pods[i].Name
		teams, clusters := d.attendedBy(name, p, holders)
		shown += clusters
		reconciles, err := d.stage.Reconciles(ctx, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "          %s\t%d\t%d: %s\t%d\t%d\n", name, countHeld(holders, name),
			len(teams), strings.Join(teams, " "), clusters, reconciles)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	if shown != len(d.fleet) {
		return fmt.Errorf("the holders of the shards account for %d of %d clusters", shown, len(d.fleet))
	}
	return nil
}

// attendedBy is the teams, and the number of clusters, whose shard the replica holds.
func (d *demo) attendedBy(pod string, p placement.Placement, holders map[int]string) (teams []string, clusters int) {
	for _, w := range d.fleet {
		if holders[int(p.ShardOf(w.Namespace))] != pod {
			continue
		}
		clusters++
		if team := strings.TrimPrefix(w.Namespace, "team-"); !slices.Contains(teams, team) {
			teams = append(teams, team)
		}
	}
	return teams, clusters
}

func countHeld(holders map[int]string, pod string) int {
	count := 0
	for _, holder := range holders {
		if holder == pod {
			count++
		}
	}
	return count
}

// scale goes to 5 replicas and back to 3, and holds the moved shards against the optimum.
func (d *demo) scale(ctx context.Context) error {
	for _, replicas := range []int32{5, stage.OperatorReplicas} {
		before, err := d.stage.Placement(ctx)
		if err != nil {
			return err
		}
		if err := d.stage.ScaleOperator(ctx, replicas); err != nil {
			return err
		}
		if err := d.stage.WaitSettled(ctx, int(replicas)); err != nil {
			return err
		}
		after, err := d.stage.Placement(ctx)
		if err != nil {
			return err
		}
		moved, optimum := stage.MovedHomes(before, after)
		d.say("%d -> %d replicas: %d of %d shards moved, the least possible is %d",
			len(before.Expected), len(after.Expected), moved, len(after.Homes), optimum)
		if moved != optimum {
			return fmt.Errorf("%d shards moved where %d would do", moved, optimum)
		}
	}
	return d.showOwnership(ctx)
}
