package stage

import (
	"bytes"
	"context"
	"fmt"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// MetricsPort is the port on which the operator serves its metrics.
const MetricsPort = 8080

// Metrics scrapes one operator replica through the API server's proxy.
func (s *Stage) Metrics(ctx context.Context, pod string) (map[string]*dto.MetricFamily, error) {
	raw, err := s.Kubernetes.CoreV1().RESTClient().Get().Namespace(OperatorNamespace).Resource("pods").
		Name(fmt.Sprintf("%s:%d", pod, MetricsPort)).SubResource("proxy").Suffix("metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("scraping %s: %w", pod, err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("parsing the metrics of %s: %w", pod, err)
	}
	return families, nil
}

// Reconciles is how many reconciles of RedisClusters a replica has done since it started.
func (s *Stage) Reconciles(ctx context.Context, pod string) (int, error) {
	families, err := s.Metrics(ctx, pod)
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, metric := range families["controller_runtime_reconcile_total"].GetMetric() {
		total += metric.GetCounter().GetValue()
	}
	return int(total), nil
}
