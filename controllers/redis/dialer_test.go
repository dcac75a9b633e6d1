package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/redis/redistest"
	"example.com/redis-operator/controllers/topology"
	goredis "github.com/redis/go-redis/v9"
)

// serve starts a server with a password of every byte that a Secret may hold, and waits for it.
func serve(t *testing.T, config ...string) (*redistest.Server, redis.Target) {
	t.Helper()
	var password, escaped strings.Builder
	for b := 1; b < 256; b++ {
		if b != '\n' {
			password.WriteByte(byte(b))
			fmt.Fprintf(&escaped, `\x%02x`, b)
		}
	}
	config = append(config, `requirepass "`+escaped.String()+`"`)
	s := redistest.StartServer(t, redistest.ServerOptions{Dir: t.TempDir(), Config: config})
	target := redis.Target{Namespace: "n", Cluster: "c", PodUID: "u", Address: s.Address, Password: password.String()}
	d := redis.NewDialer(redis.Options{})
	defer d.Close()
	for range 200 {
		if redis.Observe(t.Context(), d.Node(target)).Reachable {
			return s, target
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Fatal("the server never answered")
	return nil, redis.Target{}
}

func TestDialerNamesAndChecks(t *testing.T) {
	t.Parallel()
	_, target := serve(t)
	name, forbidden := "op_1", errors.New("not admitted")
	var verdict error
	d := redis.NewDialer(redis.Options{
		Name:  func(context.Context) string { return name },
		Check: func(context.Context) error { return verdict },
	})
	defer d.Close()
	node := d.Node(target)

	if err := node.ConfigSet(t.Context(), map[string]string{"maxmemory": "100mb", "hz": "20"}); err != nil {
		t.Fatal(err)
	}
	got, err := node.ConfigGet(t.Context(), "maxmemory", "hz", "nonsense")
	if err != nil || len(got) != 2 || got["maxmemory"] != "104857600" || got["hz"] != "20" {
		t.Errorf("read back %v, %v", got, err)
	}
	verdict = forbidden
	if err := node.ConfigSet(t.Context(), map[string]string{"hz": "30"}); !errors.Is(err, forbidden) {
		t.Errorf("a change that was not admitted: %v", err)
	}
	if got, err := node.ConfigGet(t.Context(), "hz"); err != nil || got["hz"] != "20" {
		t.Errorf("what was not admitted was done: %v, %v", got, err)
	}
	verdict = nil
	name = "op_2"
	clients, err := node.ClientList(t.Context())
	if err != nil || len(clients) == 0 {
		t.Fatal(clients, err)
	}
	if last := clients[len(clients)-1]; last.Name != "op_2" {
		t.Errorf("the connection is named %q after the name changed", last.Name)
	}
}

func TestClientKill(t *testing.T) {
	t.Parallel()
	_, target := serve(t)
	older := redis.NewDialer(redis.Options{Name: func(context.Context) string { return "older" }})
	defer older.Close()
	newer := redis.NewDialer(redis.Options{})
	defer newer.Close()
	if _, err := older.Node(target).Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	node := newer.Node(target)
	count := func() (n int) {
		clients, err := node.ClientList(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range clients {
			if c.Name == "older" {
				n++
				if err := node.ClientKill(t.Context(), c.ID); err != nil {
					t.Error(err)
				}
			}
		}
		return n
	}
	if got := count(); got != 1 {
		t.Errorf("%d connections of the older, want 1", got)
	}
	if got := count(); got != 0 {
		t.Errorf("%d connections of the older after they were killed", got)
	}
	if err := node.ClientKill(t.Context(), 1<<40); err != nil {
		t.Errorf("killing a client that is gone: %v", err)
	}
}

// TestDialerPools counts the connections that are opened and closed.
func TestDialerPools(t *testing.T) {
	t.Parallel()
	_, target := serve(t)
	var open, opened atomic.Int64
	d := redis.NewDialer(redis.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		open.Add(1)
		opened.Add(1)
		return &countedConn{Conn: conn, open: &open}, nil
	}})
	defer d.Close()
	ask := func(target redis.Target) {
		t.Helper()
		if _, err := d.Node(target).Info(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, wantOpened, wantOpen int64) {
		t.Helper()
		if opened.Load() != wantOpened || open.Load() != wantOpen {
			t.Errorf("%s: %d opened and %d open, want %d and %d", what, opened.Load(), open.Load(), wantOpened, wantOpen)
		}
	}
	ask(target)
	ask(target)
	want("asking twice", 1, 1)
	d.DropCluster("n", "other")
	d.DropNamespace("other")
	want("dropping others", 1, 1)
	d.DropNamespace("n")
	want("dropping the namespace", 1, 0)
	ask(target)
	d.DropCluster("n", "c")
	want("dropping the cluster", 2, 0)
	ask(target)
	wrong := target
	wrong.Password = "wrong"
	if s := redis.Observe(t.Context(), d.Node(wrong)); s.Reachable || !s.Alive || !strings.Contains(s.Err, "WRONGPASS") {
		t.Errorf("with a wrong password: %+v", s)
	}
	if strings.Contains(redis.Observe(t.Context(), d.Node(wrong)).Err, target.Password) {
		t.Error("an error tells the password")
	}
	d.Close()
	if open.Load() != 0 {
		t.Errorf("%d connections are open after Close", open.Load())
	}
	if _, err := d.Node(target).Info(t.Context()); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

type countedConn struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// TestObserveTellsWhyNot looks at servers that are gone, hung and busy.
// The client library by itself answers with an old error for up to a second after two refusals.
func TestDialerConnectsAnewAfterEachRefusal(t *testing.T) {
	t.Parallel()
	const refusals = 5
	_, target := serve(t)
	var dials atomic.Int32
	d := redis.NewDialer(redis.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) <= refusals {
			return nil, syscall.ECONNREFUSED
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	defer d.Close()
	for i := range refusals {
		if state := redis.Observe(t.Context(), d.Node(target)); !state.Refused {
			t.Fatalf("call %d was not refused: %+v", i, state)
		}
	}
	if state := redis.Observe(t.Context(), d.Node(target)); !state.Reachable {
		t.Errorf("the first call that could connect did not: %+v", state)
	}
	if n := dials.Load(); n != refusals+1 {
		t.Errorf("%d connections were tried, not one for each of %d calls", n, refusals+1)
	}
}

func TestObserveTellsWhyNot(t *testing.T) {
	t.Parallel()
	s, target := serve(t, "busy-reply-threshold 50")
	d := redis.NewDialer(redis.Options{ReadTimeout: 300 * time.Millisecond})
	defer d.Close()
	node := d.Node(target)

	s.Pause()
	if got := redis.Observe(t.Context(), node); got.Reachable || got.Alive || got.Refused || got.Err == "" {
		t.Errorf("hung: %+v", got)
	}
	s.Resume()
	eval := goredis.NewClient(&goredis.Options{Addr: target.Address.String(), Password: target.Password, MaxRetries: -1})
	defer func() { _ = eval.Close() }()
	ended := make(chan error, 1)
	go func() { ended <- eval.Eval(t.Context(), "while true do end", nil).Err() }()
	var busy topology.State
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if busy = redis.Observe(t.Context(), node); strings.Contains(busy.Err, "BUSY") {
			break
		}
	}
	if busy.Reachable || !busy.Alive {
		t.Errorf("busy: %+v", busy)
	}
	s.Kill()
	if err := <-ended; err == nil {
		t.Error("the endless script has ended by itself")
	}
	if got := redis.Observe(t.Context(), node); got.Reachable || got.Alive || !got.Refused {
		t.Errorf("gone: %+v", got)
	}
}

// TestObserveIsBounded must not outlast its context, whatever the server does.
func TestObserveIsBounded(t *testing.T) {
	t.Parallel()
	s, target := serve(t)
	d := redis.NewDialer(redis.Options{})
	defer d.Close()
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	started := time.Now()
	if got := redis.Observe(ctx, d.Node(target)); got.Reachable {
		t.Errorf("hung: %+v", got)
	}
	if took := time.Since(started); took > 1500*time.Millisecond {
		t.Errorf("took %s", took)
	}
}

// A changing command is in flight from Begin to done; a read is not, and a refused one is not sent.
func TestDialerBegins(t *testing.T) {
	t.Parallel()
	_, target := serve(t)
	begun, over, forbidden := 0, 0, errors.New("draining")
	var verdict error
	d := redis.NewDialer(redis.Options{Begin: func(context.Context) (func(), error) {
		if verdict != nil {
			return func() {}, verdict
		}
		begun++
		return func() { over++ }, nil
	}})
	defer d.Close()
	node := d.Node(target)
	if err := node.ConfigSet(t.Context(), map[string]string{"hz": "20"}); err != nil {
		t.Fatal(err)
	}
	if begun == 0 || over != begun {
		t.Errorf("%d begun, %d over", begun, over)
	}
	before := begun
	verdict = forbidden
	if err := node.ConfigSet(t.Context(), map[string]string{"hz": "30"}); !errors.Is(err, forbidden) {
		t.Errorf("a change while draining: %v", err)
	}
	if got, err := node.ConfigGet(t.Context(), "hz"); err != nil || got["hz"] != "20" || begun != before {
		t.Errorf("read %v, %v; %d begun, want %d", got, err, begun, before)
	}
}
