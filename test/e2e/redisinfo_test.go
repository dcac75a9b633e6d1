package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// infoFields splits what INFO and CLUSTER INFO answer into fields.
func infoFields(info string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = value
		}
	}
	return fields
}

// replicasBehind is an error unless that many replicas have acknowledged all of the primary's
// replication stream, as INFO replication of the primary tells.
func replicasBehind(info string, replicas int) error {
	fields := infoFields(info)
	written, err := strconv.ParseInt(fields["master_repl_offset"], 10, 64)
	if err != nil {
		return fmt.Errorf("reading master_repl_offset: %w", err)
	}
	for i := range replicas {
		acknowledged := int64(-1)
		for part := range strings.SplitSeq(fields[fmt.Sprintf("slave%d", i)], ",") {
			if text, ok := strings.CutPrefix(part, "offset="); ok {
				if acknowledged, err = strconv.ParseInt(text, 10, 64); err != nil {
					return fmt.Errorf("reading the offset of replica %d: %w", i, err)
				}
			}
		}
		if acknowledged < written {
			return fmt.Errorf("replica %d has acknowledged %d of %d bytes", i, acknowledged, written)
		}
	}
	return nil
}

func TestReplicasBehind(t *testing.T) {
	const info = "role:master\r\nconnected_slaves:1\r\nslave0:ip=1.2.3.4,port=6379,state=online,offset=140,lag=0\r\nmaster_repl_offset:%d\r\n"
	cases := map[string]struct {
		written, replicas int
		wantError         bool
	}{
		"caught up":       {written: 140, replicas: 1},
		"behind":          {written: 141, replicas: 1, wantError: true},
		"replica missing": {written: 140, replicas: 2, wantError: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := replicasBehind(fmt.Sprintf(info, tc.written), tc.replicas)
			if (err != nil) != tc.wantError {
				t.Errorf("replicasBehind = %v, want an error: %t", err, tc.wantError)
			}
		})
	}
}
