// Command localcluster starts, stops and shows a real Kubernetes of three Nodes on this host; see
// package localcluster for how it works.
//
//	localcluster up            start one and return; prints the line that points kubectl at it
//	localcluster status        say whether it runs
//	localcluster import FILE REF | import operator BINARY | import redis
//	                           make an image available on every Node
//	localcluster fault NAME ARGUMENT...
//	                           break something, or mend it; without a name, list what there is
//	localcluster down          stop it and remove everything that belongs to it
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"example.com/redis-operator/test/localcluster"
	"k8s.io/klog/v2"
)

// commands take what follows the flags.
var commands = map[string]func(ctx context.Context, options localcluster.Options, args []string) error{
	"up": up, "run": run, "down": down, "status": status, "import": importImage, "fault": fault,
}

func main() {
	// What the client libraries log about retries is no news to whoever runs this.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := execute(ctx, os.Args[1:])
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return
	case !errors.Is(err, errSaid):
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

// execute parses the command line and runs one command.
func execute(ctx context.Context, args []string) error {
	var options localcluster.Options
	flags := flag.NewFlagSet("localcluster", flag.ContinueOnError)
	flags.StringVar(&options.Name, "name", "", "tells clusters on one host apart (default redis-operator)")
	flags.StringVar(&options.Dir, "dir", "", "the cluster's own folder (default build/localcluster/NAME)")
	flags.StringVar(&options.Binaries, "binaries", "", "what tools/kubernetes/build.sh wrote (default bin/k8s, here or above)")
	flags.IntVar(&options.Nodes, "nodes", 0, "number of Nodes, 1 to 3 (default 3)")
	flags.IntVar(&options.Block, "block", 0, "slice of 198.18.0.0/15, 1 to 8 (default: the first free one)")
	flags.Usage = func() { usage(flags.Output(), flags) }
	if len(args) == 0 {
		usage(os.Stderr, flags)
		return errors.New("localcluster: which command?")
	}
	command, known := commands[args[0]]
	if !known {
		usage(os.Stderr, flags)
		return fmt.Errorf("localcluster: no command is called %q", args[0])
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	return command(ctx, options, flags.Args())
}

func usage(out io.Writer, flags *flag.FlagSet) {
	fmt.Fprintln(out, "usage: localcluster up|down|status|import|fault [flags] [arguments]")
	flags.SetOutput(out)
	flags.PrintDefaults()
}

func down(ctx context.Context, options localcluster.Options, _ []string) error {
	options.Log = say
	if err := localcluster.Clean(ctx, options); err != nil {
		return err
	}
	say("nothing of the cluster is left")
	return nil
}

func status(ctx context.Context, options localcluster.Options, _ []string) error {
	cluster, err := localcluster.Find(options)
	if err != nil {
		return err
	}
	say(fmt.Sprintf("cluster %s runs in %s, Nodes %s", cluster.Name(), cluster.Dir(), strings.Join(cluster.Nodes(), " ")))
	ready, err := cluster.ReadyNodes(ctx)
	if err != nil {
		return err
	}
	say(fmt.Sprintf("API server at %s, %d of %d Nodes Ready", cluster.RESTConfig().Host, ready, len(cluster.Nodes())))
	say("export KUBECONFIG=" + cluster.Kubeconfig())
	return nil
}

func fault(ctx context.Context, options localcluster.Options, args []string) error {
	if len(args) == 0 {
		say(strings.Join(localcluster.Faults(), "\n"))
		return nil
	}
	cluster, err := localcluster.Find(options)
	if err != nil {
		return err
	}
	return cluster.Inject(ctx, args[0], args[1:]...)
}

func say(line string) { fmt.Println(line) }
