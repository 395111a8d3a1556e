package provider_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
)

// A topic that brokers do not take in time is made all the same, and is not replaced by the next apply.
func TestATopicThatBrokersDoNotHaveYetIsKept(t *testing.T) {
	var made, deleted atomic.Int32
	const shape = `{"id":"tp_1","name":"slow","topic_id":"00","partitions":1,"settings":{"retention_ms":86400000},"generation":1,
		"delivered_generation":0,"delivered":false,"token":{"object":"tp_1","generation":1},
		"conditions":[{"type":"copies","reason":"no_brokers","message":"two of three"}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost:
			made.Add(1)
			w.WriteHeader(http.StatusAccepted)
		case http.MethodDelete:
			deleted.Add(1)
		}
		fmt.Fprint(w, shape)
	}))
	defer server.Close()
	config := fmt.Sprintf(`%s
provider "penstock" {
  endpoint = %q
  token    = "t"
}
resource "penstock_topic" "it" {
  name     = "slow"
  timeouts = { create = "300ms" }
}
`, head, server.URL)
	t.Setenv("TF_ACC_PROVIDER_HOST", "penstock.example")
	t.Setenv("TF_ACC_PROVIDER_NAMESPACE", "penstock")
	resource.UnitTest(t, resource.TestCase{ProtoV6ProviderFactories: factories, Steps: []resource.TestStep{
		{Config: config},
		{Config: config, ConfigPlanChecks: action("penstock_topic.it", plancheck.ResourceActionNoop)},
	}})
	if made.Load() != 1 || deleted.Load() != 1 {
		t.Errorf("made %d times, deleted %d times", made.Load(), deleted.Load())
	}
}
