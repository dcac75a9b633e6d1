package bench

import (
	"fmt"
	"io"
	"slices"
	"strconv"
)

// report prints figures of one scenario.
type report struct {
	out      io.Writer
	scenario string
}

// figure prints one figure with at most three digits after the point.
func (r report) figure(metric string, value float64, unit string) {
	fmt.Fprintf(r.out, "bench %s %s %s %s\n", r.scenario, metric, strconv.FormatFloat(round(value), 'f', -1, 64), unit)
}

// note prints a line that is no figure: progress, or what a reader must know about the run.
func (r report) note(format string, args ...any) {
	fmt.Fprintf(r.out, "# %s\n", fmt.Sprintf(format, args...))
}

func round(value float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(value, 'f', 3, 64), 64)
	if err != nil {
		return value
	}
	return rounded
}

// median returns the middle value, the mean of the two middle ones where there are two; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
