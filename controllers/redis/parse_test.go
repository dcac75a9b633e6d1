package redis

import (
	"testing"
	"time"

	"example.com/redis-operator/controllers/topology"
	"github.com/google/go-cmp/cmp"
)

const (
	idA = "07c37dfeb235213a872192d90877d0cd55635b91"
	idB = "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1"
	idC = "e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca"
)

func TestParseClusterNodes(t *testing.T) {
	t.Parallel()
	text := idB + " 10.0.0.2:6379@16379,host-2 slave,fail? " + idA + " 0 1426238316232 4 disconnected\r\n" +
		idC + " fd00::3:6379@16379,,shard-id=abc handshake - 0 0 0 connected\n" +
		idA + " :0@0 myself,master - 0 0 18446744073709551615 connected 0-5460 7000 [7001->-" + idB + "]\n" +
		"f000 10.0.0.9:6379@16379 master,noaddr,fail - 0 0 2 disconnected\n\n"
	myself, peers, err := ParseClusterNodes(text)
	if err != nil {
		t.Fatal(err)
	}
	wantMyself := topology.Peer{
		ID: idA, Role: topology.RolePrimary, LinkUp: true, ConfigEpoch: 18446744073709551615, OpenSlots: true,
		Slots: topology.Slots(topology.SlotRange{First: 0, Last: 5460}, topology.SlotRange{First: 7000, Last: 7000}),
	}
	wantPeers := []topology.Peer{
		{
			ID: idB, Address: topology.Address{IP: "10.0.0.2", Port: 6379, BusPort: 16379}, Role: topology.RoleReplica,
			PrimaryID: idA, MaybeFail: true, ConfigEpoch: 4,
		},
		{ID: idC, Address: topology.Address{IP: "fd00::3", Port: 6379, BusPort: 16379}, Handshake: true, LinkUp: true},
		{
			ID: "f000", Address: topology.Address{IP: "10.0.0.9", Port: 6379, BusPort: 16379}, Role: topology.RolePrimary,
			NoAddress: true, Fail: true, ConfigEpoch: 2,
		},
	}
	equal := cmp.Comparer(func(a, b topology.SlotSet) bool { return a.Equal(b) })
	if diff := cmp.Diff(wantMyself, myself, equal); diff != "" {
		t.Errorf("myself (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantPeers, peers, equal); diff != "" {
		t.Errorf("peers (-want +got):\n%s", diff)
	}
}

func TestParseClusterNodesRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"nothing":     "",
		"no myself":   idA + " 10.0.0.1:1@2 master - 0 0 1 connected\n",
		"few fields":  idA + " 10.0.0.1:1@2 myself,master -\n",
		"no port":     idA + " nowhere myself,master - 0 0 1 connected\n",
		"epoch":       idA + " 10.0.0.1:1@2 myself,master - 0 0 x connected\n",
		"slot":        idA + " 10.0.0.1:1@2 myself,master - 0 0 1 connected 16384\n",
		"a huge port": idA + " 10.0.0.1:70000@2 myself,master - 0 0 1 connected\n",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := ParseClusterNodes(text); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestParseInfo(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		text string
		want Info
	}{
		"primary": {
			"# Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:7\r\nconfig_file:/run/redis/x.conf\r\n# Replication\r\n" +
				"role:master\r\nmaster_repl_offset:140\r\n# Keyspace\r\ndb0:keys=12,expires=0,avg_ttl=0\r\n",
			Info{
				Version: "7.0.15", ConfigFile: "/run/redis/x.conf", Uptime: 7 * time.Second, Role: topology.RolePrimary,
				Offset: 140, Keys: 12,
			},
		},
		"replica without a link": {
			"valkey_version:8.1.1\nredis_version:7.2.4\nloading:1\naof_enabled:1\nrole:slave\nmaster_host:10.0.0.1\nmaster_port:6379\n" +
				"master_link_status:down\nmaster_link_down_since_seconds:-1\nmaster_sync_in_progress:1\nslave_repl_offset:99\n",
			Info{
				Version: "8.1.1", Loading: true, AOFEnabled: true, Role: topology.RoleReplica, Syncing: true, Offset: 99,
				PrimaryAddress: topology.Address{IP: "10.0.0.1", Port: 6379}, LinkDownFor: -time.Second,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseInfo(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := ParseInfo("uptime_in_seconds:long\n"); err == nil {
		t.Error("no error for a number that is none")
	}
}

func TestParseClientList(t *testing.T) {
	t.Parallel()
	got, err := ParseClientList("id=3 addr=10.0.0.1:50000 laddr=x name=op_1 age=2\nid=4 addr=[fd00::1]:1 name= age=0\n")
	want := []Client{{ID: 3, Name: "op_1", Addr: "10.0.0.1:50000"}, {ID: 4, Addr: "[fd00::1]:1"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := ParseClientList("addr=1\n"); err == nil {
		t.Error("no error without an id")
	}
}

// FuzzParse wants no panic whatever a server says, and of CLUSTER NODES slots that exist.
func FuzzParse(f *testing.F) {
	f.Add(idA + " 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-5460 [1-<-" + idB + "]\n")
	f.Add("cluster_state:ok\r\ncluster_current_epoch:6\r\n")
	f.Add("role:slave\nmaster_port:x\ndb0:keys=,\n")
	f.Add("id=1 name=\n")
	f.Fuzz(func(t *testing.T, text string) {
		myself, peers, err := ParseClusterNodes(text)
		for _, p := range append(peers, myself) {
			if err == nil && (p.ID == "" || p.Slots.Len() > topology.SlotCount || p.Address.Port > 65535) {
				t.Errorf("accepted %+v", p)
			}
		}
		if info, err := ParseClusterInfo(text); err != nil && info != (ClusterInfo{}) {
			t.Errorf("an error and %+v", info)
		}
		if info, err := ParseInfo(text); err != nil && info != (Info{}) {
			t.Errorf("an error and %+v", info)
		}
		if clients, err := ParseClientList(text); err != nil && clients != nil {
			t.Errorf("an error and %v", clients)
		}
	})
}
