package provider_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
)

// The terms of what no state may hold: texts of keys, and secrets of webhooks.
var secretTexts = regexp.MustCompile(`penstock_[a-z]+_[A-Za-z0-9]{12}_[A-Za-z0-9]{20,}|whsec_[A-Za-z0-9+/=]{20,}`)

func pair(t *testing.T) (private, public string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	private = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	return private, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: shown}))
}

const secretsMade = head + `
resource "penstock_api_key" "it" {
  name       = "tf-sealed"
  encrypt_to = %[1]s
}
resource "penstock_webhook" "it" {
  name       = "tf-sealed"
  url        = "https://hooks.example.com/in"
  events     = ["audit.*"]
  encrypt_to = %[1]s
}
`

// The key of the run, and the one that only its reader can open, are shown to the service in the same run.
const secretsUsed = `
variable "private_key" {
  type      = string
  ephemeral = true
}
ephemeral "penstock_api_key" "run" {
  name       = "tf-run"
  lifetime_s = 600
}
provider "penstock" {
  alias = "run"
  token = ephemeral.penstock_api_key.run.key
}
provider "penstock" {
  alias = "reader"
  token = provider::penstock::decrypted(penstock_api_key.it.encrypted_key, var.private_key)
}
data "penstock_topics" "run" { provider = penstock.run }
data "penstock_topics" "reader" { provider = penstock.reader }
`

func TestAccSecretsAreInNoStateWhenTheUserWantsThat(t *testing.T) {
	it := install(t)
	private, public := pair(t)
	it.write("public.pem", public)
	main := fmt.Sprintf(secretsMade, `file("public.pem")`)
	it.write("main.tf", main)
	inFiles := func() []string {
		var found []string
		files, err := filepath.Glob(filepath.Join(it.folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err == nil {
				found = append(found, secretTexts.FindAllString(string(text), -1)...)
			}
		}
		return found
	}
	t.Cleanup(func() {
		it.write("main.tf", main)
		it.must("destroy", "-auto-approve", "-no-color")
	})
	it.must("apply", "-auto-approve", "-no-color")
	it.secondPlanIsEmpty()
	t.Setenv("TF_VAR_private_key", private)
	it.write("main.tf", main+secretsUsed)
	it.must("plan", "-out=planned", "-no-color")
	it.must("apply", "-auto-approve", "-no-color")
	if found := inFiles(); len(found) != 0 {
		t.Errorf("%d secrets are in files", len(found))
	}

	var keys struct {
		Items []struct {
			Name      string  `json:"name"`
			RevokedAt *string `json:"revoked_at"`
		} `json:"items"`
	}
	elsewhere(t, http.MethodGet, "/keys", nil, &keys)
	made := 0
	for _, key := range keys.Items {
		if key.Name == "tf-run" {
			made++
			if key.RevokedAt == nil {
				t.Error("a key of a run goes on after it")
			}
		}
	}
	if made == 0 {
		t.Error("no run made a key")
	}

	// Without the public key the text is in the state, and the search finds it.
	main = strings.ReplaceAll(main, `  encrypt_to = file("public.pem")`, "")
	it.write("main.tf", main)
	said := it.must("apply", "-auto-approve", "-no-color")
	if !strings.Contains(said, "The key is rotated") || !strings.Contains(said, "The secret is rotated") {
		t.Errorf("the plan does not warn:\n%s", said)
	}
	if found := inFiles(); len(found) < 2 {
		t.Errorf("the search found %d of two secrets", len(found))
	}
}

func TestAccWebhookIsMadeImportedAndSetRight(t *testing.T) {
	webhook := func(more string) string {
		return head + fmt.Sprintf(`
resource "penstock_webhook" "it" {
  name   = "tf-hook"
  events = ["audit.topic.create", "audit.key.*"]
%s
}
`, more)
	}
	const one = `  url = "https://hooks.example.com/one"`
	const other = `  url = "https://hooks.example.com/other"`
	is := func(name, value string) resource.TestCheckFunc {
		return resource.TestCheckResourceAttr("penstock_webhook.it", name, value)
	}
	its := func(method, tail string, body any) func() {
		return func() {
			var listed struct {
				Items []struct {
					ID   string `json:"id"`
					Name string `json:"name"`
				} `json:"items"`
			}
			elsewhere(t, http.MethodGet, "/webhooks", nil, &listed)
			for _, found := range listed.Items {
				if found.Name == "tf-hook" {
					elsewhere(t, method, "/webhooks/"+found.ID+tail, body, nil)
				}
			}
		}
	}
	update := action("penstock_webhook.it", plancheck.ResourceActionUpdate)
	tested(t,
		resource.TestStep{
			Config: webhook(one),
			Check:  resource.ComposeTestCheckFunc(is("enabled", "true"), resource.TestCheckResourceAttrSet("penstock_webhook.it", "secret")),
		},
		resource.TestStep{
			ResourceName: "penstock_webhook.it", ImportState: true, ImportStateVerify: true, ImportStateVerifyIgnore: []string{"secret"},
		},
		resource.TestStep{Config: webhook(other + "\n  rotation_trigger = \"2026\""), ConfigPlanChecks: update, Check: is("url", "https://hooks.example.com/other")},
		// What is changed and switched off elsewhere is drift.
		resource.TestStep{
			PreConfig:    its(http.MethodPatch, "", map[string]any{"state": "off", "name": "tf-hook", "events": []string{"*"}}),
			RefreshState: true, ExpectNonEmptyPlan: true, Check: resource.ComposeTestCheckFunc(is("enabled", "false"), is("events.#", "1")),
		},
		resource.TestStep{
			Config: webhook(other + "\n  rotation_trigger = \"2026\""), ConfigPlanChecks: update,
			Check: resource.ComposeTestCheckFunc(is("enabled", "true"), is("events.#", "2")),
		},
		resource.TestStep{Config: webhook(other + "\n  rotation_trigger = \"2026\"\n  enabled = false"), ConfigPlanChecks: update},
		resource.TestStep{
			PreConfig: its(http.MethodDelete, "", nil), Config: webhook(one + "\n  enabled = false"),
			ConfigPlanChecks: action("penstock_webhook.it", plancheck.ResourceActionCreate), Check: is("enabled", "false"),
		},
		resource.TestStep{Config: webhook(`  url = "http://hooks.example.com/"`), ExpectError: regexp.MustCompile(`(?s)url.*https`)},
		resource.TestStep{Config: webhook(one + "\n  encrypt_to = \"no key\""), ExpectError: regexp.MustCompile(`No public key`)},
		resource.TestStep{Config: webhook(one + "\n  enabled = false")},
	)
}
