package placement

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// format is the version of the serialised form. Another one is refused, since a process that does
// not know a field would lose it with its next write.
const format = 1

// ErrOtherFormat is wrapped by the error of a placement that another release has written, in a format
// that this one does not know.
var ErrOtherFormat = errors.New("written by another release")

// FieldError says what is wrong with which field.
type FieldError struct {
	Field   string // path in the serialised form, such as processes[2].state
	Problem string
}

// Error names the field first.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// document is P as it is stored. Homes and deputies are listed by member, since that is short and
// what a person who looks at the object wants to know.
type document struct {
	Format             int                `json:"format"`
	Shards             int                `json:"shards"`
	Hash               string             `json:"hash"`
	Timings            *timingsDocument   `json:"timings,omitempty"`
	StatefulSetVersion string             `json:"statefulSetVersion,omitempty"`
	Expected           []Member           `json:"expected,omitempty"`
	Processes          []processDocument  `json:"processes,omitempty"`
	Homes              map[Member][]Shard `json:"homes,omitempty"`
	Deputies           map[Member][]Shard `json:"deputies,omitempty"`
	Weights            map[Shard]int64    `json:"weights,omitempty"`
}

type timingsDocument struct {
	LeaseDuration string `json:"leaseDuration"`
	RenewDeadline string `json:"renewDeadline"`
	RetryPeriod   string `json:"retryPeriod"`
}

type processDocument struct {
	Identity Identity   `json:"identity"`
	State    State      `json:"state"`
	Cause    DeathCause `json:"cause,omitempty"`
	Joined   int        `json:"joined"`
}

// Encode serialises p, its Version excepted. Equal placements give equal bytes. It returns the
// error of Validate.
func Encode(p Placement) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("encoding placement: %w", err)
	}
	doc := document{
		Format:             format,
		Shards:             p.Shards,
		Hash:               p.Hash,
		StatefulSetVersion: p.StatefulSetVersion,
		Expected:           p.Expected,
		Homes:              make(map[Member][]Shard),
		Deputies:           make(map[Member][]Shard),
		Weights:            p.Weights,
	}
	if p.Timings != (Timings{}) {
		doc.Timings = &timingsDocument{
			LeaseDuration: p.Timings.LeaseDuration.String(),
			RenewDeadline: p.Timings.RenewDeadline.String(),
			RetryPeriod:   p.Timings.RetryPeriod.String(),
		}
	}
	for _, e := range p.Processes {
		doc.Processes = append(doc.Processes,
			processDocument{Identity: e.Identity, State: e.State, Cause: e.Cause, Joined: e.Joined})
	}
	for shard, home := range p.Homes {
		if home != "" {
			doc.Homes[home] = append(doc.Homes[home], Shard(shard))
		}
	}
	for _, shard := range slices.Sorted(maps.Keys(p.Deputies)) {
		doc.Deputies[p.Deputies[shard]] = append(doc.Deputies[p.Deputies[shard]], shard)
	}
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encoding placement: %w", err)
	}
	return data, nil
}

// Decode reads what Encode wrote. Anything else is refused with an error that names the field,
// mostly a *FieldError: a placement that is half understood must not be acted on.
func Decode(data []byte) (Placement, error) {
	doc, err := decodeDocument(data)
	if err != nil {
		return Placement{}, fmt.Errorf("decoding placement: %w", err)
	}
	p, err := doc.placement()
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return Placement{}, fmt.Errorf("decoding placement: %w", err)
	}
	return p, nil
}

// decodeSettings reads the settings alone: they are to be compared before anything else is judged.
func decodeSettings(data []byte) (Settings, error) {
	doc, err := decodeDocument(data)
	if err != nil {
		return Settings{}, fmt.Errorf("decoding placement: %w", err)
	}
	return Settings{Shards: doc.Shards, Hash: doc.Hash}, nil
}

func decodeDocument(data []byte) (document, error) {
	var version struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return document{}, jsonError(err)
	}
	unknown := &FieldError{Field: "format", Problem: fmt.Sprintf("only %d is known", format)}
	if version.Format == nil {
		return document{}, unknown
	}
	if *version.Format != format {
		return document{}, fmt.Errorf("%w in format %d: %w", ErrOtherFormat, *version.Format, unknown)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var doc document
	if err := decoder.Decode(&doc); err != nil {
		return document{}, jsonError(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return document{}, &FieldError{Field: "placement", Problem: "something follows the object"}
	}
	return doc, nil
}

func jsonError(err error) error {
	var typeError *json.UnmarshalTypeError
	if errors.As(err, &typeError) && typeError.Field != "" {
		return &FieldError{Field: typeError.Field, Problem: fmt.Sprintf("%s is not a value for it", typeError.Value)}
	}
	return err
}

// placement turns the document into a Placement, checking what a Placement cannot express.
func (d document) placement() (Placement, error) {
	if d.Shards < 1 || d.Shards > MaxShards {
		return Placement{}, Settings{Shards: d.Shards, Hash: d.Hash}.Validate()
	}
	p := New(Settings{Shards: d.Shards, Hash: d.Hash}, Timings{})
	p.StatefulSetVersion, p.Expected, p.Weights = d.StatefulSetVersion, d.Expected, d.Weights
	var err error
	if p.Timings, err = d.Timings.timings(); err != nil {
		return Placement{}, err
	}
	for _, e := range d.Processes {
		p.Processes = append(p.Processes, Process{
			Identity: e.Identity, Member: e.Identity.Member(), State: e.State, Cause: e.Cause, Joined: e.Joined,
		})
	}
	homes, err := byShard("homes", d.Homes, d.Shards)
	if err != nil {
		return Placement{}, err
	}
	for shard, home := range homes {
		p.Homes[shard] = home
	}
	p.Deputies, err = byShard("deputies", d.Deputies, d.Shards)
	return p, err
}

// byShard turns lists by member round. Each shard may be in one list only.
func byShard(field string, lists map[Member][]Shard, shards int) (map[Shard]Member, error) {
	if len(lists) == 0 {
		return nil, nil
	}
	members := make(map[Shard]Member)
	for _, member := range slices.SortedFunc(maps.Keys(lists), compareMembers) {
		for _, shard := range lists[member] {
			path := fmt.Sprintf("%s[%q]", field, string(member))
			if shard < 0 || int(shard) >= shards {
				return nil, &FieldError{Field: path, Problem: fmt.Sprintf("shard %d is not below %d", shard, shards)}
			}
			if other, ok := members[shard]; ok {
				return nil, &FieldError{Field: path, Problem: fmt.Sprintf("shard %d is listed for %q too", shard, string(other))}
			}
			members[shard] = member
		}
	}
	return members, nil
}

func (d *timingsDocument) timings() (Timings, error) {
	var t Timings
	if d == nil {
		return t, nil
	}
	fields := []struct {
		name string
		text string
		into *time.Duration
	}{
		{"timings.leaseDuration", d.LeaseDuration, &t.LeaseDuration},
		{"timings.renewDeadline", d.RenewDeadline, &t.RenewDeadline},
		{"timings.retryPeriod", d.RetryPeriod, &t.RetryPeriod},
	}
	for _, f := range fields {
		duration, err := time.ParseDuration(f.text)
		if err != nil {
			return Timings{}, &FieldError{Field: f.name, Problem: fmt.Sprintf("%q is not a duration", f.text)}
		}
		*f.into = duration
	}
	return t, nil
}

// validateMember accepts what can be the name of a Pod and part of an identity.
func validateMember(field string, member Member) error {
	if member == "" || strings.ContainsAny(string(member), "_/ \t\n") {
		return &FieldError{Field: field, Problem: fmt.Sprintf("%q is not the name of a Pod", string(member))}
	}
	return nil
}
