package provider_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

func TestAccASettingThatIsNamedNoMoreGoesBackToTheDefault(t *testing.T) {
	const it = "penstock_topic.it"
	var usual struct {
		Settings map[string]any `json:"settings"`
	}
	all := func(want bool) resource.TestCheckFunc {
		return func(state *terraform.State) error {
			var seen struct {
				Settings map[string]any `json:"settings"`
			}
			elsewhere(t, http.MethodGet, "/topics/tf-removed", nil, &seen)
			if len(usual.Settings) == 0 {
				usual = seen
			}
			if same := fmt.Sprint(seen.Settings) == fmt.Sprint(usual.Settings); same != want {
				return fmt.Errorf("the topic has %v, a new one %v", seen.Settings, usual.Settings)
			}
			return nil
		}
	}
	// What a module passes on from a variable: null where its user says nothing.
	passed := func(retention string) string {
		return topic("tf-removed", "settings = { retention_ms = var.retention_ms, flush_ms = \"500\" }") +
			fmt.Sprintf("variable \"retention_ms\" {\n  type    = string\n  default = %s\n}\n", retention)
	}
	update := action(it, plancheck.ResourceActionUpdate)
	tested(t,
		resource.TestStep{Config: topic("tf-removed", ""), Check: all(true)},
		resource.TestStep{Config: topic("tf-removed", `settings = { retention_ms = "7200000" }`), ConfigPlanChecks: update, Check: all(false)},
		resource.TestStep{Config: topic("tf-removed", ""), ConfigPlanChecks: update, Check: all(true)},
		resource.TestStep{Config: passed(`"7200000"`), Check: has("settings.retention_ms", "7200000")},
		resource.TestStep{
			Config: passed("null"), ConfigPlanChecks: update,
			Check: resource.ComposeTestCheckFunc(has("settings.flush_ms", "500"), has("effective_settings.retention_ms", "604800000")),
		},
		// Removing the topic and making it with null is the same.
		resource.TestStep{
			PreConfig: func() { elsewhere(t, http.MethodDelete, "/topics/tf-removed?purge=true", nil, nil) },
			Config:    passed("null"), ConfigPlanChecks: action(it, plancheck.ResourceActionCreate), Check: has("settings.flush_ms", "500"),
		},
		// A value that only the apply knows, and that is null then.
		resource.TestStep{
			Config: topic("tf-removed", "settings = { flush_ms = terraform_data.it.id == \"\" ? \"500\" : null }") +
				"resource \"terraform_data\" \"it\" {}\n",
			ConfigPlanChecks: update, Check: all(true),
		},
	)
}

func TestAccValuesThatAreNullCountAsLeftOut(t *testing.T) {
	config := func(operations, trigger string) string {
		return head + fmt.Sprintf(`
resource "terraform_data" "it" { triggers_replace = %[2]q }
resource "penstock_service_account" "it" { name = "tf-null" }
resource "penstock_principal_group" "it" {
  name    = "tf-null"
  members = [null, penstock_service_account.it.principal]
}
resource "penstock_acl" "it" {
  effect     = "allow"
  principal  = penstock_principal_group.it.principal
  resource   = "topic"
  name       = "tf-null"
  operations = [%[1]s]
  addresses  = ["10.0.0.0/8", null]
}
resource "penstock_api_key" "it" {
  name             = "tf-null"
  expires_at       = null
  rotation_trigger = terraform_data.it.id == "" ? "first" : "second"
  scopes           = [{ resource = "topic", name = "tf-null", operations = [%[1]s] }]
}
resource "penstock_webhook" "it" {
  name             = "tf-null"
  url              = "https://hooks.example.com/in"
  events           = ["audit.key.*", null]
  rotation_trigger = terraform_data.it.id == "" ? "first" : "second"
}
resource "penstock_budget" "it" {
  name       = "tf-null"
  period     = "month"
  measure    = "bytes"
  amount     = 9000000000
  policy     = "notify"
  thresholds = [90, null]
}
`, operations, trigger)
	}
	const some = `null, "produce"`
	none := "terraform_data.it.id == \"\" ? \"produce\" : null"
	refused := regexp.MustCompile(`No value`)
	if os.Getenv("TF_ACC") == "" {
		t.Skip("TF_ACC is not set: there is no service")
	}
	before := keysNamed(t, "tf-null")
	tested(t,
		resource.TestStep{Config: config("null", "first"), ExpectError: refused},
		// Null is known to the apply alone: nothing that may do everything is made.
		resource.TestStep{Config: config(none, "first"), ExpectError: refused},
		resource.TestStep{Config: config(some, "first"), Check: resource.TestCheckResourceAttr("penstock_budget.it", "thresholds.#", "2")},
		// A trigger that was not known to the plan and is the same: nothing is rotated, and nothing fails.
		resource.TestStep{Config: config(some, "second")},
	)
	if made := keysNamed(t, "tf-null") - before; made != 1 {
		t.Errorf("%d keys were made", made)
	}
}

// keysNamed is how many keys of the name there are, revoked ones too.
func keysNamed(t *testing.T, name string) (number int) {
	t.Helper()
	var keys struct {
		Items []struct {
			Name string `json:"name"`
		} `json:"items"`
	}
	elsewhere(t, http.MethodGet, "/keys", nil, &keys)
	for _, key := range keys.Items {
		if key.Name == name {
			number++
		}
	}
	return number
}

func TestAccLimitsThatAreAllNullAreRefusedAndSetNothing(t *testing.T) {
	const unknown = "resource \"terraform_data\" \"it\" {}\nresource \"penstock_account_limits\" \"it\" {\n" +
		"  requests_per_s = terraform_data.it.id == \"\" ? 1 : null\n}\n"
	tested(t,
		resource.TestStep{Config: head + unknown, ExpectError: regexp.MustCompile(`(?i)at least one`)},
		resource.TestStep{
			Config: head + "provider \"penstock\" { token = \"" + os.Getenv("PENSTOCK_OPERATOR_TOKEN") + "\" }\n" +
				"resource \"penstock_quota\" \"it\" { limits = { topics_max = null } }\n",
			Check: resource.TestCheckNoResourceAttr("penstock_quota.it", "limits.topics_max"),
		},
	)
}

func TestAccAKeyThatNamesNoEndHasThatOfItsMakerAndStays(t *testing.T) {
	var maker struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	}
	config := func() string {
		return head + fmt.Sprintf("provider \"penstock\" { token = %q }\nresource \"penstock_api_key\" \"it\" { name = \"tf-of-maker\" }\n", maker.Key)
	}
	if os.Getenv("TF_ACC") == "" {
		t.Skip("TF_ACC is not set: there is no service")
	}
	elsewhere(t, http.MethodPost, "/keys", map[string]any{"name": "tf-maker", "expires_at": "2090-01-31T00:00:00Z"}, &maker)
	t.Cleanup(func() { elsewhere(t, http.MethodDelete, "/keys/"+maker.ID, nil, nil) })
	tested(t, resource.TestStep{Config: config(), Check: resource.TestCheckNoResourceAttr("penstock_api_key.it", "expires_at")})
}

const lost = head + `
resource "penstock_topic" "it" { name = "tf-lost" }
resource "penstock_service_account" "it" { name = "tf-lost" }
resource "penstock_principal_group" "it" { name = "tf-lost" }
resource "penstock_webhook" "it" {
  name   = "tf-lost"
  url    = "https://hooks.example.com/in"
  events = ["audit.*"]
}
resource "penstock_budget" "it" {
  name    = "tf-lost"
  period  = "month"
  measure = "bytes"
  amount  = 9000000000
  policy  = "notify"
}
resource "penstock_tenant" "it" {
  name                = "tf-lost"
  deletion_protection = false
}
`

// Whatever a run made whose state is lost, as after a kill, the next one names with the block that takes it over.
func TestAccARunThatLostItsStateSaysHowToGoOn(t *testing.T) {
	it := install(t)
	it.write("main.tf", lost)
	it.must("apply", "-auto-approve", "-no-color")
	t.Cleanup(func() { it.must("destroy", "-auto-approve", "-no-color") })
	if err := os.Remove(filepath.Join(it.folder, "terraform.tfstate")); err != nil {
		t.Fatal(err)
	}
	said, status := it.run("apply", "-auto-approve", "-no-color")
	blocks := regexp.MustCompile(`import \{\s+│?\s+to = (penstock_[a-z_]+)\.…\s+│?\s+id = "([^"]+)"\s+│?\s+\}`).FindAllStringSubmatch(said, -1)
	if status == 0 || len(blocks) != strings.Count(lost, "resource \"") {
		t.Fatalf("%d blocks, status %d:\n%s", len(blocks), status, said)
	}
	var imports strings.Builder
	for _, block := range blocks {
		fmt.Fprintf(&imports, "import {\n  to = %s.it\n  id = %q\n}\n", block[1], block[2])
	}
	it.write("imports.tf", imports.String())
	it.must("apply", "-auto-approve", "-no-color")
	it.secondPlanIsEmpty()
}
