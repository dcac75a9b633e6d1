package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

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
		var namespaces []string
		clusters := 0
		for _, w := range d.fleet {
			if holders[int(p.ShardOf(w.Namespace))] != name {
				continue
			}
			clusters++
			if team := strings.TrimPrefix(w.Namespace, "team-"); !slices.Contains(namespaces, team) {
				namespaces = append(namespaces, team)
			}
		}
		shown += clusters
		reconciles, err := d.stage.Reconciles(ctx, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "          %s\t%d\t%d: %s\t%d\t%d\n", name, countHeld(holders, name),
			len(namespaces), strings.Join(namespaces, " "), clusters, reconciles)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	if shown != len(d.fleet) {
		return fmt.Errorf("the holders of the shards account for %d of %d clusters", shown, len(d.fleet))
	}
	return nil
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
