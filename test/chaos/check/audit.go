package check

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// event is what matters of an audit.k8s.io/v1 Event.
type event struct {
	id, stage, verb string
	operator        bool // made by the operator's service account
	podUID          string
	claim           claim

	resource, subresource string // resource with its group, as in "leases.coordination.k8s.io"
	namespace, name       string
	dryRun                bool
	code                  int
	received, at          time.Time
	base                  uint64 // the version that an update named; 0 for none
	object                object
}

// object is what matters of an object in an answer. Its version is 0 where the answer was none, as
// after most deletions.
type object struct {
	version         uint64
	generation      int64
	labels          map[string]string
	annotations     map[string]string
	holder          string
	observed        int64
	placement       string
	deleting, known bool
}

// claim is what a User-Agent says of the claim that a write was made under.
type claim struct {
	shard int
	epoch uint64
	known bool
}

var claimInAgent = regexp.MustCompile(`shard/(\d+) epoch/(\d+)$`)

func parseClaim(agent string) claim {
	found := claimInAgent.FindStringSubmatch(agent)
	if found == nil {
		return claim{}
	}
	shard, errShard := strconv.Atoi(found[1])
	epoch, errEpoch := strconv.ParseUint(found[2], 10, 64)
	return claim{shard, epoch, errShard == nil && errEpoch == nil}
}

type auditLine struct {
	AuditID, Stage, Verb, RequestURI, UserAgent string

	User struct {
		Username string
		Extra    map[string][]string
	}
	ObjectRef      struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	ResponseStatus struct{ Code int }

	RequestReceivedTimestamp, StageTimestamp time.Time
	RequestObject, ResponseObject            json.RawMessage
}

type rawObject struct {
	Kind     string
	Metadata struct {
		Name, ResourceVersion string
		Generation            int64
		Labels, Annotations   map[string]string
		DeletionTimestamp     *time.Time
	}
	Spec   struct{ HolderIdentity *string }
	Status json.RawMessage
	Data   map[string]json.RawMessage
}

// eachEvent reads an audit log, and calls use for each event. A last line that is half written is left
// out; any other that cannot be read is an error.
func eachEvent(log io.Reader, account string, use func(event)) error {
	lines := bufio.NewReaderSize(log, 1<<20)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the audit log: %w", err)
		}
		var raw auditLine
		if err := json.Unmarshal(line, &raw); err != nil {
			return fmt.Errorf("reading line %d of the audit log: %w", number, err)
		}
		if raw.isOfInterest(account) {
			use(raw.event(account))
		}
	}
}

// isOfInterest leaves out reads, which are most of a log.
func (l auditLine) isOfInterest(account string) bool {
	switch l.Verb {
	case "get", "list":
		return false
	case "watch":
		return l.User.Username == account
	}
	return l.Stage == "ResponseComplete" || l.Stage == "Panic"
}

func (l auditLine) event(account string) event {
	e := event{
		id: l.AuditID, stage: l.Stage, verb: l.Verb,
		operator: l.User.Username == account,
		claim:    parseClaim(l.UserAgent),
		resource: l.ObjectRef.Resource, subresource: l.ObjectRef.Subresource,
		namespace: l.ObjectRef.Namespace, name: l.ObjectRef.Name,
		dryRun: strings.Contains(l.RequestURI, "dryRun=All"), code: l.ResponseStatus.Code,
		received: l.RequestReceivedTimestamp, at: l.StageTimestamp,
	}
	if uid := l.User.Extra["authentication.kubernetes.io/pod-uid"]; len(uid) == 1 {
		e.podUID = uid[0]
	}
	if l.ObjectRef.APIGroup != "" {
		e.resource += "." + l.ObjectRef.APIGroup
	}
	if l.Verb == "watch" {
		return e
	}
	e.base = parseObject(l.RequestObject).version
	e.object = parseObject(l.ResponseObject)
	return e
}

// parseObject takes an answer that is no object, a Status say, for an empty one.
func parseObject(content json.RawMessage) object {
	var raw rawObject
	if len(content) == 0 || json.Unmarshal(content, &raw) != nil || raw.Kind == "Status" {
		return object{}
	}
	o := object{
		known: true, generation: raw.Metadata.Generation, deleting: raw.Metadata.DeletionTimestamp != nil,
		labels: raw.Metadata.Labels, annotations: raw.Metadata.Annotations,
	}
	if version, err := strconv.ParseUint(raw.Metadata.ResourceVersion, 10, 64); err == nil {
		o.version = version
	}
	if raw.Spec.HolderIdentity != nil {
		o.holder = *raw.Spec.HolderIdentity
	}
	var status struct{ ObservedGeneration int64 }
	if json.Unmarshal(raw.Status, &status) == nil {
		o.observed = status.ObservedGeneration
	}
	var placement string
	if json.Unmarshal(raw.Data["placement.json"], &placement) == nil {
		o.placement = placement
	}
	return o
}

func (e event) isAccepted() bool { return e.code >= 200 && e.code < 300 && !e.dryRun }
