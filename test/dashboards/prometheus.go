package dashboards

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheusv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"
)

// rateInterval stands for Grafana's $__rate_interval, at a scrape interval of one second.
const rateInterval = "30s"

// ErrEmpty is returned by Query for a result without a series, or with none whose value is a number.
var ErrEmpty = errors.New("no value")

// Target says what a Prometheus scrapes: the metrics port of Pods, through the API server's proxy, so
// that it works from outside of any cluster.
type Target struct {
	Config    *rest.Config
	Namespace string
	Pods      []string
	Port      int
}

// Prometheus is a running Prometheus of the host's. Stop ends it.
type Prometheus struct {
	api     prometheusv1.API
	process *exec.Cmd
	output  *bytes.Buffer
	exited  chan struct{} // closed when process has been waited for
	proxy   *http.Server
}

// StartPrometheus starts the `prometheus` of the PATH with its data in dir, and returns when it
// answers. It ends with Stop, or with ctx.
func StartPrometheus(ctx context.Context, dir string, target Target) (*Prometheus, error) {
	proxy, proxyAddress, err := startProxy(target.Config)
	if err != nil {
		return nil, err
	}
	p := &Prometheus{proxy: proxy, output: &bytes.Buffer{}, exited: make(chan struct{})}
	if err := p.start(ctx, dir, scrapeConfig(target, proxyAddress)); err != nil {
		return nil, errors.Join(err, proxy.Close())
	}
	if err := p.awaitReady(ctx); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// startProxy serves the API server on a loopback address, with the rights of config: Prometheus then
// needs no credentials, of whatever kind they are.
func startProxy(config *rest.Config) (*http.Server, string, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, "", fmt.Errorf("building the transport to the API server: %w", err)
	}
	host := config.Host
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	server, err := url.Parse(host)
	if err != nil {
		return nil, "", fmt.Errorf("parsing the API server's address: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("listening for Prometheus: %w", err)
	}
	handler := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(server) },
	}
	proxy := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = proxy.Serve(listener) }() // ends with proxy.Close in Stop
	return proxy, listener.Addr().String(), nil
}

func scrapeConfig(target Target, proxy string) string {
	var config strings.Builder
	config.WriteString("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n")
	for _, pod := range target.Pods {
		fmt.Fprintf(&config, "- job_name: %s\n  honor_labels: true\n  metrics_path: /api/v1/namespaces/%s/pods/%s:%d/proxy/metrics\n",
			pod, target.Namespace, pod, target.Port)
		fmt.Fprintf(&config, "  static_configs: [{targets: ['%s'], labels: {namespace: %s, pod: %s}}]\n", proxy, target.Namespace, pod)
	}
	return config.String()
}

func (p *Prometheus) start(ctx context.Context, dir, config string) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	p.process = exec.CommandContext(ctx, "prometheus", "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	p.process.Stdout, p.process.Stderr = p.output, p.output
	p.process.Cancel = func() error { return p.process.Process.Signal(syscall.SIGTERM) }
	p.process.WaitDelay = 10 * time.Second
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	if err != nil {
		return fmt.Errorf("building the Prometheus client: %w", err)
	}
	p.api = prometheusv1.NewAPI(client)
	if err := p.process.Start(); err != nil {
		return fmt.Errorf("starting Prometheus: %w", err)
	}
	go func() {
		defer close(p.exited)
		_ = p.process.Wait() // told to end, or its output says why
	}()
	return nil
}

// freeAddress returns a loopback address that nobody listened on a moment ago.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

func (p *Prometheus) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := p.api.Buildinfo(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for Prometheus: %w", err)
		case <-p.exited:
			return fmt.Errorf("waiting for Prometheus: it ended: %s", p.output.String())
		case <-tick.C:
		}
	}
}

// Query runs one expression of a dashboard now. It returns ErrEmpty, wrapped, when there is nothing
// to draw.
func (p *Prometheus) Query(ctx context.Context, expression string) error {
	asked := strings.ReplaceAll(expression, "$__rate_interval", rateInterval)
	value, _, _, err := p.api.Query(ctx, asked, time.Now())
	if err != nil {
		return fmt.Errorf("querying %s: %w", expression, err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return fmt.Errorf("querying %s: the result is a %s, not a vector", expression, value.Type())
	}
	for _, sample := range vector {
		if !math.IsNaN(float64(sample.Value)) {
			return nil
		}
	}
	return fmt.Errorf("querying %s: %w in %d series", expression, ErrEmpty, len(vector))
}

// Stop ends Prometheus and waits for it.
func (p *Prometheus) Stop() {
	_ = p.process.Process.Signal(syscall.SIGTERM) // it may have ended already
	<-p.exited
	_ = p.proxy.Close() // nothing is in flight any more
}
