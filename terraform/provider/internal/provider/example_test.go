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

// installed are commands in a folder where Terraform takes the built provider, as a user installs it.
type installed struct {
	t      *testing.T
	folder string
}

func install(t *testing.T) *installed {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("TF_ACC is not set: there is no service")
	}
	built := os.Getenv("BUILT_PROVIDER")
	if built == "" {
		t.Fatal("BUILT_PROVIDER: the folder of the built provider required")
	}
	it := &installed{t, t.TempDir()}
	it.write("terraform.rc", "provider_installation {\n  dev_overrides { \"penstock.example/penstock/penstock\" = "+`"`+built+`"`+" }\n  direct {}\n}\n")
	return it
}

func (i *installed) write(name, text string) {
	i.t.Helper()
	if err := os.WriteFile(filepath.Join(i.folder, name), []byte(text), 0o600); err != nil {
		i.t.Fatal(err)
	}
}

func (i *installed) run(arguments ...string) (string, int) {
	i.t.Helper()
	command := exec.Command("terraform", arguments...)
	command.Dir = i.folder
	command.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(i.folder, "terraform.rc"), "TF_IN_AUTOMATION=1")
	said, err := command.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		i.t.Fatal(err)
	}
	return string(said), command.ProcessState.ExitCode()
}

func (i *installed) must(arguments ...string) string {
	i.t.Helper()
	said, status := i.run(arguments...)
	if status != 0 {
		i.t.Fatalf("terraform %s ended with %d:\n%s", strings.Join(arguments, " "), status, said)
	}
	return said
}

func (i *installed) secondPlanIsEmpty() {
	i.t.Helper()
	if said, status := i.run("plan", "-detailed-exitcode", "-no-color"); status != 0 {
		i.t.Fatalf("the second plan ended with %d, 2 = it would change something:\n%s", status, said)
	}
}

func TestAccExampleOfATeamIsAppliedAndItsSecondPlanIsEmpty(t *testing.T) {
	it := install(t)
	example, err := os.ReadFile("../../../examples/team/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	it.write("main.tf", string(example))
	it.must("validate")
	t.Cleanup(func() { it.must("destroy", "-auto-approve", "-no-color") })
	it.must("apply", "-auto-approve", "-no-color")
	it.secondPlanIsEmpty()
	listed := strings.Fields(it.must("state", "list"))
	for _, wanted := range []string{`penstock_topic.of_team["placed"]`, "penstock_api_key.writer", "penstock_acl.writer_produces"} {
		if !slices.Contains(listed, wanted) {
			t.Errorf("%s is not in the state: %q", wanted, listed)
		}
	}
	if said := it.must("plan", "-no-color", `-var=topics={placed={partitions=2},shipped={partitions=4}}`); !strings.Contains(said, "The topic is replaced") ||
		!strings.Contains(said, "Keys move") {
		t.Errorf("the plan does not warn:\n%s", said)
	}
}
