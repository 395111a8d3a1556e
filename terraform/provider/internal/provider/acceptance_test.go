package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"penstock.example/terraform/provider/internal/api"
	"penstock.example/terraform/provider/internal/provider"
)

const head = `
terraform {
  required_providers {
    penstock = { source = "penstock.example/penstock/penstock" }
  }
}
`

var factories = map[string]func() (tfprotov6.ProviderServer, error){
	"penstock": providerserver.NewProtocol6WithError(provider.New("test")()),
}

// elsewhere changes the service past Terraform, with the same token.
func elsewhere(t *testing.T, method, path string, body, out any) {
	t.Helper()
	client, err := api.New(os.Getenv("PENSTOCK_API_URL"), os.Getenv("PENSTOCK_API_KEY"), os.Getenv("PENSTOCK_TENANT"), "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Do(context.Background(), api.Call{Method: method, Path: path, Body: body}, out); err != nil {
		t.Fatal(err)
	}
}

// tested runs the steps. After each, the second plan must be empty: the library looks.
func tested(t *testing.T, steps ...resource.TestStep) {
	t.Helper()
	resource.Test(t, resource.TestCase{ProtoV6ProviderFactories: factories, Steps: steps})
}

func action(address string, what plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, what)}}
}

func topic(name string, more string) string {
	return fmt.Sprintf("%s\nresource \"penstock_topic\" \"it\" {\n  name = %q\n%s\n}\n", head, name, more)
}

func has(name, value string) resource.TestCheckFunc {
	return resource.TestCheckResourceAttr("penstock_topic.it", name, value)
}

func TestAccTopicIsMadeImportedAndGrows(t *testing.T) {
	tested(t,
		resource.TestStep{
			Config: topic("tf-grows", `settings = { retention_ms = "86400000" }`),
			Check: resource.ComposeTestCheckFunc(
				has("partitions", "1"), has("settings.retention_ms", "86400000"), has("effective_settings.durability", "fsync")),
		},
		resource.TestStep{
			ResourceName: "penstock_topic.it", ImportState: true, ImportStateId: "tf-grows", ImportStateVerify: true,
			// What is managed is the configuration's to say.
			ImportStateVerifyIgnore: []string{"settings"},
		},
		resource.TestStep{
			Config:           topic("tf-grows", "partitions = 3\nsettings = { retention_ms = \"86400000\" }"),
			ConfigPlanChecks: action("penstock_topic.it", plancheck.ResourceActionUpdate),
			Check:            has("partitions", "3"),
		},
		resource.TestStep{
			Config:           topic("tf-grows", "partitions = 2"),
			ConfigPlanChecks: action("penstock_topic.it", plancheck.ResourceActionDestroyBeforeCreate),
			Check:            has("partitions", "2"),
		},
		resource.TestStep{
			Config:           topic("tf-grows", "partitions = 2\nsettings = { durability = \"replicated\" }"),
			ConfigPlanChecks: action("penstock_topic.it", plancheck.ResourceActionDestroyBeforeCreate),
			Check:            has("effective_settings.durability", "replicated"),
		},
		resource.TestStep{
			Config:           topic("tf-grows", "partitions = 2"),
			ConfigPlanChecks: action("penstock_topic.it", plancheck.ResourceActionDestroyBeforeCreate),
			Check:            has("effective_settings.durability", "fsync"),
		},
	)
}

func TestAccTopicsDriftIsShownAndSetRight(t *testing.T) {
	settings := topic("tf-drifts", `settings = { retention_ms = "86400000" }`)
	tested(t,
		resource.TestStep{Config: settings},
		resource.TestStep{
			PreConfig: func() {
				elsewhere(t, http.MethodPatch, "/topics/tf-drifts", map[string]any{"settings": map[string]any{"retention_ms": 7200000}}, nil)
			},
			RefreshState: true, ExpectNonEmptyPlan: true, Check: has("settings.retention_ms", "7200000"),
		},
		resource.TestStep{
			Config: settings, ConfigPlanChecks: action("penstock_topic.it", plancheck.ResourceActionUpdate),
			Check: has("settings.retention_ms", "86400000"),
		},
		resource.TestStep{
			PreConfig: func() { elsewhere(t, http.MethodDelete, "/topics/tf-drifts", nil, nil) },
			Config:    settings, ConfigPlanChecks: action("penstock_topic.it", plancheck.ResourceActionCreate),
		},
	)
}

func TestAccProtectedTopicIsNotDeletedOrReplaced(t *testing.T) {
	protected := regexp.MustCompile(`The topic is protected`)
	tested(t,
		resource.TestStep{Config: topic("tf-protected", "partitions = 2\ndeletion_protection = true")},
		resource.TestStep{Config: head, ExpectError: protected},
		resource.TestStep{Config: topic("tf-protected", "partitions = 1\ndeletion_protection = true"), ExpectError: protected},
		resource.TestStep{Config: topic("tf-protected", "partitions = 2")},
	)
}

func TestAccRefusalNamesTheAttribute(t *testing.T) {
	tested(t,
		resource.TestStep{
			Config:      topic("tf-wrong", `settings = { retention_ms = "5" }`),
			ExpectError: regexp.MustCompile(`(?s)settings = \{.*retention_ms.*answered 400`),
		},
		resource.TestStep{
			Config:      topic("tf-wrong", `settings = { no_such_setting = "5" }`),
			ExpectError: regexp.MustCompile(`no_such_setting`),
		},
	)
}

const access = head + `
resource "penstock_service_account" "it" { name = "tf-robot" }
resource "penstock_principal_group" "it" {
  name    = "tf-robots"
  members = [%s]
}
resource "penstock_acl" "it" {
  effect     = "allow"
  principal  = penstock_principal_group.it.principal
  resource   = "topic"
  name       = "tf-robot-"
  pattern    = "prefix"
  operations = ["produce", "describe"]
  addresses  = ["10.0.0.0/8", "2001:db8::/32"]
}
resource "penstock_acl" "of_tenant" {
  effect    = "allow"
  principal = penstock_service_account.it.principal
  resource  = "tenant"
}
resource "penstock_api_key" "it" {
  name             = "tf-robot"
  service_account  = penstock_service_account.it.id
  expires_at       = "2090-01-31T00:00:00Z"
  rotation_trigger = %q
  overlap_s        = 600
  scopes = [
    { resource = "topic", name = "tf-robot-", pattern = "prefix", operations = ["produce"] },
    { resource = "tenant", operations = ["describe"] },
  ]
}
data "penstock_access_check" "it" {
  principal  = penstock_service_account.it.principal
  operation  = "produce"
  resource   = "topic"
  name       = "tf-robot-1"
  address    = "10.1.2.3"
  depends_on = [penstock_acl.it]
}
data "penstock_access_who" "it" {
  operation  = "produce"
  resource   = "topic"
  name       = "tf-robot-1"
  address    = "10.1.2.3"
  depends_on = [penstock_acl.it]
}
data "penstock_service_account" "it" {
  name       = "tf-robot"
  depends_on = [penstock_service_account.it]
}
`

func TestAccAccessOfARobot(t *testing.T) {
	one := "penstock_service_account.it.principal"
	imported := func(what string, ignored ...string) resource.TestStep {
		return resource.TestStep{ResourceName: what, ImportState: true, ImportStateVerify: true, ImportStateVerifyIgnore: ignored}
	}
	var first, second string
	keep := func(kept *string) resource.TestCheckFunc {
		return func(state *terraform.State) error {
			*kept = state.RootModule().Resources["penstock_api_key.it"].Primary.ID
			return nil
		}
	}
	tested(t,
		resource.TestStep{
			Config: fmt.Sprintf(access, one, "first"),
			Check: resource.ComposeTestCheckFunc(
				keep(&first),
				resource.TestCheckResourceAttrSet("penstock_api_key.it", "key"),
				resource.TestCheckResourceAttr("data.penstock_access_check.it", "allowed", "true"),
				resource.TestCheckResourceAttrPair("data.penstock_service_account.it", "id", "penstock_service_account.it", "id"),
				resource.TestCheckTypeSetElemAttrPair("data.penstock_access_who.it", "allowed.*", "penstock_service_account.it", "principal"),
			),
		},
		imported("penstock_service_account.it"),
		imported("penstock_principal_group.it"),
		imported("penstock_acl.it"),
		imported("penstock_acl.of_tenant"),
		imported("penstock_api_key.it", "key", "rotation_trigger", "overlap_s", "expires_at"),
		resource.TestStep{
			Config:           fmt.Sprintf(access, one, "second"),
			ConfigPlanChecks: action("penstock_api_key.it", plancheck.ResourceActionUpdate),
			Check: resource.ComposeTestCheckFunc(keep(&second), func(*terraform.State) error {
				var old struct {
					RevokedAt *string `json:"revoked_at"`
				}
				elsewhere(t, http.MethodGet, "/keys/"+first, nil, &old)
				if first == second || old.RevokedAt != nil {
					return fmt.Errorf("%s was to go on beside %s: %v", first, second, old)
				}
				return nil
			}),
		},
		resource.TestStep{
			Config:           fmt.Sprintf(access, "", "second"),
			ConfigPlanChecks: action("penstock_principal_group.it", plancheck.ResourceActionUpdate),
		},
		resource.TestStep{
			PreConfig: func() { elsewhere(t, http.MethodDelete, "/keys/"+second, nil, nil) },
			Config:    fmt.Sprintf(access, "", "second"), ConfigPlanChecks: action("penstock_api_key.it", plancheck.ResourceActionCreate),
		},
	)
}

func TestAccInvitation(t *testing.T) {
	invited := head + `resource "penstock_invitation" "it" {
  email = "tf@penstock.example"
  role  = "developer"
}`
	tested(t,
		resource.TestStep{Config: invited, Check: resource.TestCheckResourceAttr("penstock_invitation.it", "accepted", "false")},
		resource.TestStep{
			ResourceName: "penstock_invitation.it", ImportState: true, ImportStateVerify: true, ImportStateVerifyIgnore: []string{"link"},
		},
	)
}

func TestAccTenantIsProtectedThenClosed(t *testing.T) {
	tenant := func(protected bool) string {
		return head + fmt.Sprintf(`
resource "penstock_tenant" "it" {
  name                = "tf-tenant"
  deletion_protection = %t
}
resource "penstock_topic" "it" {
  tenant = penstock_tenant.it.id
  name   = "tf-in-another"
}
data "penstock_tenant" "it" { id = penstock_tenant.it.id }
`, protected)
	}
	tested(t,
		resource.TestStep{
			Config: tenant(true),
			Check:  resource.TestCheckResourceAttr("data.penstock_tenant.it", "name", "tf-tenant"),
		},
		resource.TestStep{ResourceName: "penstock_tenant.it", ImportState: true, ImportStateVerify: true},
		resource.TestStep{
			ResourceName: "penstock_topic.it", ImportState: true, ImportStateVerify: true,
			ImportStateIdFunc: func(state *terraform.State) (string, error) {
				return state.RootModule().Resources["penstock_tenant.it"].Primary.ID + "/tf-in-another", nil
			},
		},
		resource.TestStep{Config: head, ExpectError: regexp.MustCompile(`The tenant is protected`)},
		// The person of the test has no second factor, so may not require one.
		resource.TestStep{
			Config:      strings.Replace(tenant(true), "deletion_protection", "second_factor_required = true\n  deletion_protection", 1),
			ExpectError: regexp.MustCompile(`(?s)Tenant not changed.*second factor`),
		},
		resource.TestStep{Config: tenant(false)},
	)
}

func TestAccLimitsOfAPlanAndATenantsOwn(t *testing.T) {
	limits := func(plan, own string) string {
		return head + fmt.Sprintf(`
provider "penstock" { token = %q }
resource "penstock_plan_assignment" "it" { plan = %q }
resource "penstock_quota" "it" {
  limits     = { %s }
  depends_on = [penstock_plan_assignment.it]
}
data "penstock_quotas" "it" { depends_on = [penstock_quota.it] }
data "penstock_plans" "all" {}
`, os.Getenv("PENSTOCK_OPERATOR_TOKEN"), plan, own)
	}
	const own = "topics_max = 900, partitions_max = 2000, consume_bytes_per_s = 1048576, " +
		"rest_calls_per_s = 900, connections_max = 700, groups_max = 90"
	first := limits("pay-as-you-go", own)
	tested(t,
		resource.TestStep{
			Config: first,
			Check: resource.ComposeTestCheckFunc(
				resource.TestCheckResourceAttr("data.penstock_quotas.it", "limits.topics_max", "900"),
				resource.TestCheckResourceAttr("data.penstock_quotas.it", "limits.consume_bytes_per_s", "1048576"),
				resource.TestCheckResourceAttr("data.penstock_quotas.it", "limits.rest_calls_per_s", "900"),
				resource.TestCheckResourceAttr("data.penstock_quotas.it", "limits.connections_max", "700"),
				resource.TestCheckResourceAttr("data.penstock_quotas.it", "limits.groups_max", "90"),
				resource.TestCheckResourceAttr("data.penstock_quotas.it", "plan", "pay-as-you-go"),
				resource.TestCheckResourceAttrSet("data.penstock_plans.all", "plans.0.name"),
			),
		},
		resource.TestStep{
			ResourceName: "penstock_quota.it", ImportState: true, ImportStateVerify: true, ImportStateId: os.Getenv("PENSTOCK_TENANT"),
			ImportStateVerifyIgnore: []string{"tenant"},
		},
		resource.TestStep{
			ResourceName: "penstock_plan_assignment.it", ImportState: true, ImportStateVerify: true, ImportStateId: os.Getenv("PENSTOCK_TENANT"),
			ImportStateVerifyIgnore: []string{"tenant"},
		},
		// Another plan keeps the tenant's own limits.
		resource.TestStep{
			Config: limits("committed", own),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction("penstock_plan_assignment.it", plancheck.ResourceActionUpdate),
				plancheck.ExpectResourceAction("penstock_quota.it", plancheck.ResourceActionNoop),
			}},
			Check: resource.TestCheckResourceAttr("data.penstock_quotas.it", "limits.topics_max", "900"),
		},
		// One that is named no more, or as null, is the plan's again.
		resource.TestStep{
			Config: limits("committed", "partitions_max = 2000, consume_bytes_per_s = null"),
			Check: resource.ComposeTestCheckFunc(
				resource.TestCheckNoResourceAttr("data.penstock_quotas.it", "own.topics_max"),
				resource.TestCheckNoResourceAttr("data.penstock_quotas.it", "own.consume_bytes_per_s")),
		},
		resource.TestStep{
			Config:      limits("committed", "no_such_limit = 1"),
			ExpectError: regexp.MustCompile(`no_such_limit`),
		},
	)
}

func TestAccLimitsOfServiceAccounts(t *testing.T) {
	limits := func(own, each string) string {
		return head + fmt.Sprintf(`
resource "penstock_service_account" "it" { name = "tf-bounded" }
resource "penstock_account_limits" "it" {
  service_account = penstock_service_account.it.id
  %s
}
resource "penstock_account_limits" "each" { %s }
`, own, each)
	}
	const it, each = "penstock_account_limits.it", "penstock_account_limits.each"
	first := limits("produce_bytes_per_s = 1000000\n  requests_per_s = 200", "requests_per_s = 500")
	var path string
	var seen struct {
		Produce   *int64 `json:"produce_bytes_per_s"`
		Requests  *int64 `json:"requests_per_s"`
		Effective struct {
			Requests int64 `json:"requests_per_s"`
		} `json:"effective"`
	}
	tested(t,
		resource.TestStep{Config: limits("", "requests_per_s = 500"), ExpectError: regexp.MustCompile(`(?i)at least one`)},
		resource.TestStep{Config: limits("requests_per_s = 1", ""), ExpectError: regexp.MustCompile(`(?i)at least one`)},
		resource.TestStep{
			Config: first,
			Check: resource.ComposeTestCheckFunc(
				resource.TestCheckResourceAttrPair(it, "id", "penstock_service_account.it", "id"),
				resource.TestCheckResourceAttr(each, "id", "default"),
				resource.TestCheckNoResourceAttr(it, "consume_bytes_per_s"),
				func(state *terraform.State) error {
					path = "/service-accounts/" + state.RootModule().Resources[it].Primary.ID + "/limits"
					return nil
				},
			),
		},
		resource.TestStep{ResourceName: it, ImportState: true, ImportStateVerify: true},
		resource.TestStep{ResourceName: each, ImportState: true, ImportStateVerify: true},
		resource.TestStep{
			PreConfig: func() {
				elsewhere(t, http.MethodPut, path, map[string]any{"produce_bytes_per_s": 5, "consume_bytes_per_s": 7}, nil)
			},
			RefreshState: true, ExpectNonEmptyPlan: true, Check: resource.TestCheckResourceAttr(it, "consume_bytes_per_s", "7"),
		},
		resource.TestStep{Config: first, ConfigPlanChecks: action(it, plancheck.ResourceActionUpdate)},
		// What is named no more is what each has; 0 is a limit, and not the same as none.
		resource.TestStep{
			Config: limits("produce_bytes_per_s = 0", "requests_per_s = 500"),
			Check: func(*terraform.State) error {
				elsewhere(t, http.MethodGet, path, nil, &seen)
				if seen.Produce == nil || *seen.Produce != 0 || seen.Requests != nil || seen.Effective.Requests != 500 {
					return fmt.Errorf("the account has %+v", seen)
				}
				return nil
			},
		},
		resource.TestStep{
			PreConfig: func() { elsewhere(t, http.MethodDelete, path, nil, nil) },
			Config:    limits("produce_bytes_per_s = 0", "requests_per_s = 500"), ConfigPlanChecks: action(it, plancheck.ResourceActionCreate),
		},
	)
}

func TestAccBudget(t *testing.T) {
	budget := func(more string) string {
		return head + fmt.Sprintf(`resource "penstock_budget" "it" {
  name   = "tf-month"
  period = "month"
%s
}`, more)
	}
	const it = "penstock_budget.it"
	reading := "\ndata \"penstock_budget\" \"it\" { id = penstock_budget.it.id }\n"
	plain := "measure = \"bytes\"\namount = 9000000000\npolicy = \"refuse_produce\""
	higher := "measure = \"bytes\"\namount = 9000000000000\npolicy = \"slow\"\nslow_bytes_per_s = 1000\nthresholds = [120, 90]"
	var first string
	same := func(state *terraform.State) error {
		if id := state.RootModule().Resources[it].Primary.ID; id != first {
			return fmt.Errorf("%s is another budget than %s", id, first)
		}
		return nil
	}
	tested(t,
		resource.TestStep{
			Config: budget(plain),
			Check: resource.ComposeTestCheckFunc(
				resource.TestCheckResourceAttr(it, "thresholds.#", "3"), resource.TestCheckResourceAttr(it, "slow_bytes_per_s", "0"),
				func(state *terraform.State) error {
					first = state.RootModule().Resources[it].Primary.ID
					return nil
				}),
		},
		resource.TestStep{ResourceName: it, ImportState: true, ImportStateVerify: true},
		resource.TestStep{
			Config: budget(higher), ConfigPlanChecks: action(it, plancheck.ResourceActionUpdate),
			Check: resource.ComposeTestCheckFunc(same, resource.TestCheckTypeSetElemAttr(it, "thresholds.*", "120")),
		},
		resource.TestStep{
			PreConfig: func() { elsewhere(t, http.MethodPatch, "/budgets/"+first, map[string]any{"amount": 1}, nil) },
			Config:    budget(higher), ConfigPlanChecks: action(it, plancheck.ResourceActionUpdate),
		},
		resource.TestStep{
			Config:      budget(strings.Replace(higher, "\"slow\"", "\"stop\"", 1)),
			ExpectError: regexp.MustCompile(`(?s)policy = "stop".*answered 400`),
		},
		// Another topic is counted from zero.
		resource.TestStep{
			Config:           budget(plain + "\ntopic = \"tf-counted\""),
			ConfigPlanChecks: action(it, plancheck.ResourceActionDestroyBeforeCreate),
		},
		resource.TestStep{ResourceName: it, ImportState: true, ImportStateVerify: true},
		// What is delivered counts as well, and the data source says so.
		resource.TestStep{
			Config:           budget("measure = \"bytes\"\namount = 9000000000\npolicy = \"refuse\"\ncounts_reads = true") + reading,
			ConfigPlanChecks: action(it, plancheck.ResourceActionDestroyBeforeCreate),
			Check: resource.ComposeTestCheckFunc(
				resource.TestCheckResourceAttr(it, "counts_reads", "true"),
				resource.TestCheckResourceAttr("data."+it, "counts_reads", "true"), resource.TestCheckResourceAttr("data."+it, "thresholds.#", "3")),
		},
		resource.TestStep{
			PreConfig: func() {
				var all struct {
					Items []struct {
						ID string `json:"id"`
					} `json:"items"`
				}
				elsewhere(t, http.MethodGet, "/budgets", nil, &all)
				for _, one := range all.Items {
					elsewhere(t, http.MethodDelete, "/budgets/"+one.ID, nil, nil)
				}
			},
			Config: budget(plain), ConfigPlanChecks: action(it, plancheck.ResourceActionCreate),
		},
	)
}

// Plans and price books are published by operators, and stay.
func TestAccPlansAndPricesArePublished(t *testing.T) {
	operator := fmt.Sprintf("%s\nprovider \"penstock\" { token = %q }\n", head, os.Getenv("PENSTOCK_OPERATOR_TOKEN"))
	plan := func(limits string) string {
		return operator + fmt.Sprintf("resource \"penstock_plan\" \"it\" {\n  name = \"tf-plan\"\n  limits = { %s }\n}\n", limits)
	}
	level := func(text string) string {
		return operator + fmt.Sprintf("resource \"penstock_plan\" \"it\" {\n  name = \"tf-plan\"\n  limits = { topics_max = 6 }\n  service_level = %s\n}\n", text)
	}
	const it = "penstock_plan.it"
	tested(t,
		resource.TestStep{Config: plan("no_such_limit = 1"), ExpectError: regexp.MustCompile(`no_such_limit`)},
		resource.TestStep{
			Config: plan("topics_max = 5, groups_max = 0"),
			Check:  resource.ComposeTestCheckFunc(resource.TestCheckResourceAttr(it, "version", "1"), resource.TestCheckResourceAttr(it, "limits.%", "2")),
		},
		resource.TestStep{ResourceName: it, ImportState: true, ImportStateVerify: true, ImportStateVerifyIgnore: []string{"limits.%", "limits.groups_max"}},
		resource.TestStep{
			Config: plan("topics_max = 6, groups_max = null"), ConfigPlanChecks: action(it, plancheck.ResourceActionUpdate),
			Check: resource.TestCheckResourceAttr(it, "version", "2"),
		},
		// Another level is another version, and an empty plan follows each step.
		resource.TestStep{
			Config: level(`"premium"`), ConfigPlanChecks: action(it, plancheck.ResourceActionUpdate),
			Check: resource.TestCheckResourceAttr(it, "version", "3"),
		},
		resource.TestStep{
			Config: level(`jsonencode({ target_parts = 999000000, tiers = [{ below_parts = 999000000, basis_points = 500 }] })`),
			Check:  resource.TestCheckResourceAttr(it, "version", "4"),
		},
		resource.TestStep{Config: level(`"no-such-level"`), ExpectError: regexp.MustCompile(`no-such-level`)},
	)
	var books struct {
		Items []struct {
			Document map[string]any `json:"document"`
		} `json:"items"`
	}
	elsewhere(t, http.MethodGet, "/price-books", nil, &books)
	document := books.Items[0].Document
	document["version"] = 1000
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	book := func(from string) string {
		return operator + fmt.Sprintf("resource \"penstock_price_book\" \"it\" {\n  document = %q\n  effective_from = %q\n}\n", text, from)
	}
	tested(t,
		resource.TestStep{Config: book("2001-01-01T00:00:00Z"), ExpectError: regexp.MustCompile(`(?s)effective_from = "2001.*in the past`)},
		resource.TestStep{Config: book("2090-01-01T00:00:00Z"), Check: resource.TestCheckResourceAttrSet("penstock_price_book.it", "sha256")},
		resource.TestStep{
			ResourceName: "penstock_price_book.it", ImportState: true, ImportStateVerify: true, ImportStateVerifyIgnore: []string{"document"},
		},
		// The same document does not begin to hold at another time.
		resource.TestStep{Config: book("2091-01-01T00:00:00Z"), ExpectError: regexp.MustCompile(`holds from 2090-01-01`)},
	)
}

func TestAccDataOfTopics(t *testing.T) {
	tested(t, resource.TestStep{
		Config: topic("tf-data", "partitions = 2") + `
data "penstock_topic" "it" { name = penstock_topic.it.name }
data "penstock_topics" "all" { depends_on = [penstock_topic.it] }
`,
		Check: resource.ComposeTestCheckFunc(
			resource.TestCheckResourceAttr("data.penstock_topic.it", "settings.durability", "fsync"),
			resource.TestCheckResourceAttr("data.penstock_topics.all", "partitions.tf-data", "2"),
		),
	})
}
