package bench

import (
	"fmt"
	"strings"
	"testing"

	"example.com/redis-operator/test/stage"
)

func TestCountWrites(t *testing.T) {
	line := func(stageName, verb, user, resource string) string {
		return fmt.Sprintf(`{"stage":%q,"verb":%q,"user":{"username":%q},"objectRef":{"resource":%q,"namespace":"n","name":"x"}}`,
			stageName, verb, user, resource)
	}
	operator := "system:serviceaccount:" + stage.OperatorNamespace + ":redis-operator"
	log := strings.Join([]string{
		`half a line"}`,
		line("ResponseComplete", "update", operator, "leases"),
		line("ResponseComplete", "patch", operator, "redisclusters"),
		line("ResponseComplete", "delete", operator, "pods"),
		line("RequestReceived", "delete", operator, "pods"),
		line("ResponseComplete", "create", operator, "selfsubjectreviews"),
		strings.Replace(line("ResponseComplete", "create", operator, "configmaps"), "{",
			`{"requestURI":"/api/v1/namespaces/n/configmaps?dryRun=All",`, 1),
		line("ResponseComplete", "watch", operator, "pods"),
		line("ResponseComplete", "update", "system:serviceaccount:kube-system:other", "pods"),
		`{"stage":"ResponseComp`,
	}, "\n")
	got, err := countWrites(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	if got.leases != 1 || len(got.others) != 2 {
		t.Errorf("countWrites = %+v, want 1 write of a Lease and 2 others", got)
	}
}
