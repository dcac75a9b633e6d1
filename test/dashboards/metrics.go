package dashboards

import (
	"regexp"
	"slices"
	"strings"
)

var metricName = regexp.MustCompile(`\b(sharding|redis_operator|controller_runtime|workqueue|rest_client|process|go)_[a-z0-9_]+\b`)

// MetricNames returns the metrics that an expression reads, sorted, each once, without the suffixes
// of a histogram.
func MetricNames(expression string) []string {
	var names []string
	for _, name := range metricName.FindAllString(expression, -1) {
		for _, suffix := range []string{"_bucket", "_sum"} {
			name = strings.TrimSuffix(name, suffix)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p Panel) metrics() []string {
	var names []string
	for _, query := range p.Queries {
		for _, name := range MetricNames(query.Expr) {
			names = append(names, "`"+name+"`")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
