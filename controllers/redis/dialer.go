package redis

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"example.com/redis-operator/controllers/topology"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say how to talk to nodes. The zero value is usable.
type Options struct {
	// Check is asked before each command that changes something; its error stops the command. Nil means
	// that everything is allowed.
	Check func(ctx context.Context) error
	// Begin, if there is one, is asked instead of Check, and its done is called when the command's answer
	// is there: so long the command is in flight, and whoever hands the namespace over waits for it. Done
	// is not nil, also with an error.
	Begin func(ctx context.Context) (done func(), err error)
	// Name gives the name that a connection takes (CLIENT SETNAME), without spaces. A node whose pooled
	// connections bear another name than the present one gets new ones. Nil or "" means no name.
	Name func(ctx context.Context) string
	// Dial opens connections. Nil means the net package's dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DialTimeout bounds the opening of a connection; 0 means 1 s.
	DialTimeout time.Duration
	// ReadTimeout bounds each answer; 0 means 2 s.
	ReadTimeout time.Duration
	// IdleTimeout is how long a connection that nobody uses stays open; 0 means 5 min.
	IdleTimeout time.Duration
}

// Target names a node to talk to. Connections are pooled by PodUID and password, so that a Pod that was
// replaced, or a password that changed, never gets a connection of its predecessor.
type Target struct {
	// Namespace and Cluster are only for DropNamespace and DropCluster.
	Namespace, Cluster string
	PodUID             string
	Address            topology.Address
	// Password is that of the default user; empty means that none is needed. Any bytes.
	Password string
}

// Dialer hands out Nodes and pools their connections.
type Dialer struct {
	options Options

	mu      sync.Mutex         // guards the fields below; no I/O while it is held
	clients map[string]*pooled // by PodUID
	swept   time.Time
	closed  bool
}

// identity tells apart what must not share connections. The password is kept only as a digest.
type identity struct {
	address topology.Address
	secret  [sha256.Size]byte
	name    string
}

// pooled are the connections to one Pod.
type pooled struct {
	identity           identity
	client             *goredis.Client
	namespace, cluster string
	used               time.Time
	// failed is set once a connection could not be opened. The client library answers the next calls with
	// that same error and tries again only once a second: such a client is not used again.
	failed atomic.Bool
}

// ErrClosed is returned by nodes of a Dialer that was closed.
var ErrClosed = errors.New("connections are closed")

// silence turns off the client library's own log, which is one for the whole process: what it would say of a connection
// that failed is in the error too.
var silence = sync.OnceFunc(func() { goredis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// NewDialer returns a Dialer. The caller must Close it.
func NewDialer(options Options) *Dialer {
	silence()
	options.DialTimeout = orDefault(options.DialTimeout, time.Second)
	options.ReadTimeout = orDefault(options.ReadTimeout, 2*time.Second)
	options.IdleTimeout = orDefault(options.IdleTimeout, 5*time.Minute)
	if options.Check == nil {
		options.Check = func(context.Context) error { return nil }
	}
	if options.Begin == nil {
		options.Begin = func(ctx context.Context) (func(), error) { return func() {}, options.Check(ctx) }
	}
	if options.Name == nil {
		options.Name = func(context.Context) string { return "" }
	}
	if options.Dial == nil {
		dialer := &net.Dialer{Timeout: options.DialTimeout}
		options.Dial = dialer.DialContext
	}
	return &Dialer{options: options, clients: map[string]*pooled{}, swept: time.Now()}
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// Node is the node at the target. It does no I/O, and the Node needs no closing.
func (d *Dialer) Node(target Target) Node { return &node{dialer: d, target: target} }

// DropNamespace closes all connections of a namespace, as when its shard is lost.
func (d *Dialer) DropNamespace(namespace string) {
	d.drop(func(p *pooled) bool { return p.namespace == namespace })
}

// DropCluster closes all connections of one cluster.
func (d *Dialer) DropCluster(namespace, cluster string) {
	d.drop(func(p *pooled) bool { return p.namespace == namespace && p.cluster == cluster })
}

// Close closes all connections. Nodes handed out before answer ErrClosed from then on.
func (d *Dialer) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.drop(func(*pooled) bool { return true })
}

// drop closes the pools for which the function says so.
func (d *Dialer) drop(isGone func(p *pooled) bool) {
	d.mu.Lock()
	gone := d.take(isGone)
	d.mu.Unlock()
	closeAll(gone)
}

// take removes the pools for which the function says so. The caller holds mu and closes what is returned
// after it let go.
func (d *Dialer) take(isGone func(p *pooled) bool) []*goredis.Client {
	var gone []*goredis.Client
	for podUID, p := range d.clients {
		if isGone(p) {
			gone = append(gone, p.client)
			delete(d.clients, podUID)
		}
	}
	return gone
}

// closeAll closes clients that are out of the pool. What closing a connection that is given up says is of no use.
func closeAll(clients []*goredis.Client) {
	for _, c := range clients {
		_ = c.Close()
	}
}

// client is the pooled client for a target under the present name. It takes the place of one of the same Pod
// that differs in address, password or name, or that could not connect.
func (d *Dialer) client(ctx context.Context, target Target) (*goredis.Client, error) {
	wanted := identity{
		address: target.Address, secret: sha256.Sum256([]byte(target.Password)), name: d.options.Name(ctx),
	}
	now := time.Now()
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, ErrClosed
	}
	var gone []*goredis.Client
	p, found := d.clients[target.PodUID]
	if !found || p.identity != wanted || p.failed.Load() {
		if found {
			gone = append(gone, p.client)
		}
		p = &pooled{identity: wanted, namespace: target.Namespace, cluster: target.Cluster}
		p.client = d.newClient(target, p)
		d.clients[target.PodUID] = p
	}
	p.used = now
	if now.Sub(d.swept) > d.options.IdleTimeout {
		d.swept = now
		gone = append(gone, d.take(func(p *pooled) bool { return now.Sub(p.used) > d.options.IdleTimeout })...)
	}
	d.mu.Unlock()
	closeAll(gone)
	return p.client, nil
}

// newClient makes a client without opening a connection: no retries, since what failed may have been done; RESP2 and
// no extras in the handshake; two small connections at most.
func (d *Dialer) newClient(target Target, p *pooled) *goredis.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := d.options.Dial(ctx, network, address)
		if err != nil {
			p.failed.Store(true)
		}
		return connection, err
	}
	return goredis.NewClient(&goredis.Options{
		Addr:                  target.Address.String(),
		Dialer:                dial,
		Password:              target.Password,
		ClientName:            p.identity.name,
		Protocol:              2,
		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           d.options.DialTimeout,
		ReadTimeout:           d.options.ReadTimeout,
		WriteTimeout:          d.options.ReadTimeout,
		ContextTimeoutEnabled: true,
		PoolSize:              2,
		MinIdleConns:          0,
		ConnMaxIdleTime:       d.options.IdleTimeout,
		ReadBufferSize:        8 << 10,
		WriteBufferSize:       4 << 10,
		DisableIdentity:       true,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	})
}
