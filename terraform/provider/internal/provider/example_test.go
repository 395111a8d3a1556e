package provider_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The built provider, as a user installs it, in Terraform itself.
func TestAccExampleOfATeamIsAppliedAndItsSecondPlanIsEmpty(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("TF_ACC is not set: there is no service")
	}
	folder := t.TempDir()
	run := func(name string, arguments ...string) (string, int) {
		t.Helper()
		command := exec.Command(name, arguments...)
		command.Dir = folder
		command.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(folder, "terraform.rc"), "TF_IN_AUTOMATION=1")
		said, err := command.CombinedOutput()
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		return string(said), command.ProcessState.ExitCode()
	}
	must := func(name string, arguments ...string) string {
		t.Helper()
		said, status := run(name, arguments...)
		if status != 0 {
			t.Fatalf("%s %s ended with %d:\n%s", name, strings.Join(arguments, " "), status, said)
		}
		return said
	}
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	must("go", "build", "-C", source, "-o", filepath.Join(folder, "terraform-provider-penstock"), ".")
	example, err := os.ReadFile(filepath.Join(source, "../examples/team/main.tf"))
	if err != nil {
		t.Fatal(err)
	}
	rc := "provider_installation {\n  dev_overrides { \"penstock.example/penstock/penstock\" = " + `"` + folder + `"` + " }\n  direct {}\n}\n"
	for name, text := range map[string]string{"main.tf": string(example), "terraform.rc": rc} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must("terraform", "validate")
	t.Cleanup(func() { must("terraform", "destroy", "-auto-approve", "-no-color") })
	must("terraform", "apply", "-auto-approve", "-no-color")
	if said, status := run("terraform", "plan", "-detailed-exitcode", "-no-color"); status != 0 {
		t.Fatalf("the second plan ended with %d, 2 = it would change something:\n%s", status, said)
	}
	listed := strings.Fields(must("terraform", "state", "list"))
	for _, wanted := range []string{`penstock_topic.of_team["placed"]`, "penstock_api_key.writer", "penstock_acl.writer_produces"} {
		if !slices.Contains(listed, wanted) {
			t.Errorf("%s is not in the state: %q", wanted, listed)
		}
	}
	if said := must("terraform", "plan", "-no-color", `-var=topics={placed={partitions=2},shipped={partitions=4}}`); !strings.Contains(said, "The topic is replaced") ||
		!strings.Contains(said, "Keys move") {
		t.Errorf("the plan does not warn:\n%s", said)
	}
}
