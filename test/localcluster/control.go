package localcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"
)

// What can be asked of a cluster goes through one table, whether the supervisor is this process or
// another one: an attached Cluster sends the operation's name and arguments over the control socket.
const (
	opImport           = "import"
	opKillPod          = "kill-pod"
	opKillContainer    = "kill-container"
	opPausePod         = "pause-pod"
	opResumePod        = "resume-pod"
	opCutPod           = "cut-pod"
	opReconnectPod     = "reconnect-pod"
	opReconnectPods    = "reconnect-pods"
	opCutNode          = "cut-node"
	opReconnectNode    = "reconnect-node"
	opLoseNode         = "lose-node"
	opRestoreNode      = "restore-node"
	opStopAPIServer    = "stop-apiserver"
	opStartAPIServer   = "start-apiserver"
	opPauseAPIServer   = "pause-apiserver"
	opResumeAPIServer  = "resume-apiserver"
	opRestartAPIServer = "restart-apiserver"
	opRestartEtcd      = "restart-etcd"
)

// operation is one entry of the table: how many arguments, and what to do with them.
type operation struct {
	args int
	run  func(s *supervisor, ctx context.Context, args []string) error
}

var operations = map[string]operation{
	opImport:           {1, func(s *supervisor, ctx context.Context, args []string) error { return s.importImage(ctx, args[0]) }},
	opKillPod:          {2, onPod((*supervisor).killPod)},
	opPausePod:         {2, onPod((*supervisor).pausePod)},
	opResumePod:        {2, onPod((*supervisor).resumePod)},
	opCutPod:           {2, onPod((*supervisor).cutPod)},
	opReconnectPod:     {2, onPod((*supervisor).reconnectPod)},
	opReconnectPods:    {0, func(s *supervisor, ctx context.Context, _ []string) error { return s.reconnectPods(ctx) }},
	opKillContainer:    {3, killContainer},
	opCutNode:          {1, onNode((*supervisor).cutNode)},
	opReconnectNode:    {1, onNode((*supervisor).reconnectNode)},
	opLoseNode:         {1, onNode((*supervisor).loseNode)},
	opRestoreNode:      {1, onNode((*supervisor).restoreNode)},
	opStopAPIServer:    {0, onPlane((*supervisor).stopAPIServer)},
	opStartAPIServer:   {0, onPlane((*supervisor).startAPIServer)},
	opPauseAPIServer:   {0, onPlane((*supervisor).pauseAPIServer)},
	opResumeAPIServer:  {0, onPlane((*supervisor).resumeAPIServer)},
	opRestartAPIServer: {0, onPlane((*supervisor).restartAPIServer)},
	opRestartEtcd:      {0, onPlane((*supervisor).restartEtcd)},
}

// perform runs one operation of the table.
func (s *supervisor) perform(ctx context.Context, name string, args []string) error {
	found, known := operations[name]
	if !known {
		return fmt.Errorf("localcluster: no operation is called %q", name)
	}
	if len(args) != found.args {
		return fmt.Errorf("localcluster: %s takes %d arguments, not %d", name, found.args, len(args))
	}
	if err := s.ctx.Err(); err != nil {
		return fmt.Errorf("localcluster: the cluster is stopped: %w", err)
	}
	return found.run(s, ctx, args)
}

// Faults are the names that Inject takes, in alphabetical order, each with its number of arguments.
func Faults() []string {
	var names []string
	for name, found := range operations {
		if name != opImport {
			names = append(names, fmt.Sprintf("%s (arguments: %s)", name, argumentNames[found.args]))
		}
	}
	slices.Sort(names)
	return names
}

var argumentNames = [...]string{"none", "NODE", "NAMESPACE POD", "NAMESPACE POD CONTAINER"}

// Inject runs one of the Faults by its name; the methods of the same names do the same.
func (c *Cluster) Inject(ctx context.Context, fault string, args ...string) error {
	return c.perform(ctx, fault, args...)
}

// request and response are what goes over the control socket, as JSON.
type request struct {
	Operation string   `json:"operation"`
	Args      []string `json:"args"`
}

type response struct {
	Error string `json:"error,omitempty"`
}

// serveControl answers attached processes until the cluster stops. Only root can open the socket.
func (s *supervisor) serveControl() error {
	listener, err := net.Listen("unix", s.socket())
	if err != nil {
		return fmt.Errorf("listening for attached processes: %w", err)
	}
	if err := os.Chmod(s.socket(), 0o600); err != nil {
		listener.Close()
		return fmt.Errorf("protecting the control socket: %w", err)
	}
	server := &http.Server{Handler: http.HandlerFunc(s.answer), ReadHeaderTimeout: time.Minute}
	s.group.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.say(fmt.Sprintf("the control socket ended: %v", err))
		}
	})
	s.group.Go(func() {
		<-s.ctx.Done()
		server.Close() // the socket goes with the folder
	})
	return nil
}

func (s *supervisor) answer(writer http.ResponseWriter, received *http.Request) {
	var asked request
	err := json.NewDecoder(received.Body).Decode(&asked)
	if err == nil {
		err = s.perform(received.Context(), asked.Operation, asked.Args)
	}
	var answered response
	if err != nil {
		answered.Error = err.Error()
	}
	json.NewEncoder(writer).Encode(answered) //nolint:errcheck // the asking process may be gone
}

// ask sends an operation to the supervisor and returns its error.
func (l layout) ask(ctx context.Context, name string, args []string) error {
	body, err := json.Marshal(request{Operation: name, Args: args})
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", l.socket())
		},
	}}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localcluster/", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking for %s: %w", name, err)
	}
	received, err := client.Do(asked)
	if err != nil {
		return fmt.Errorf("asking for %s: %w", name, err)
	}
	defer received.Body.Close()
	var answered response
	content, err := io.ReadAll(received.Body)
	if err == nil {
		err = json.Unmarshal(content, &answered)
	}
	if err != nil {
		return fmt.Errorf("asking for %s: %w", name, err)
	}
	if answered.Error != "" {
		return errors.New(answered.Error)
	}
	return nil
}
