#!/usr/bin/env bash
# Build, lint and test the Terraform provider, hold its documentation to its code, and run it against a service of its own.
# With DOCS=1 the documentation is written instead. Go's modules and what it compiles stay in build/, for the next time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing=()
command -v go >/dev/null || missing+=("Go $(sed -nE 's/^go //p' terraform/provider/go.mod) or newer, as the command go")
command -v terraform >/dev/null || missing+=("Terraform 1.10 or newer, as the command terraform")
if ((${#missing[@]})); then
    echo "make terraform: install ${missing[*]/%/;} then run it again." >&2
    exit 69
fi

root=$PWD
tools=$root/build/terraform
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$tools"

# Kept under build/ so that a second run downloads and compiles nothing, in any home.
export GOMODCACHE=$tools/modules GOCACHE=$tools/compiled GOFLAGS=-modcacherw GOTOOLCHAIN=local

step() { printf '%s (after %d s)\n' "$1" "$SECONDS"; }

step "Build"
(cd terraform/provider/tools && go build -o "$tools/" \
    honnef.co/go/tools/cmd/staticcheck github.com/hashicorp/terraform-plugin-docs/cmd/tfplugindocs)
cd terraform/provider
go mod verify
go mod tidy -diff
go build -o "$tools/terraform-provider-penstock" .

step "Lint"
unformatted=$(gofmt -l .)
if [[ -n $unformatted ]]; then
    printf 'gofmt -w would change:\n%s\n' "$unformatted" >&2
    exit 1
fi
terraform fmt -check -recursive ../examples
go vet ./...
"$tools/staticcheck" ./...

step "Documentation"
cat >"$work/terraform.rc" <<RC
provider_installation {
  dev_overrides { "hashicorp/penstock" = "$tools" }
  direct {}
}
RC
mkdir "$work/schema" "$work/made"
cat >"$work/schema/main.tf" <<TF
terraform {
  required_providers {
    penstock = { source = "hashicorp/penstock" }
  }
}
TF
# The tool that writes the pages knows providers of this address alone.
TF_CLI_CONFIG_FILE=$work/terraform.rc CHECKPOINT_DISABLE=1 terraform -chdir="$work/schema" providers schema -json \
    >"$work/schema.json"
cp -r examples templates "$work/made/" 2>/dev/null || true
"$tools/tfplugindocs" generate --provider-dir "$work/made" --provider-name penstock --rendered-provider-name Penstock \
    --providers-schema "$work/schema.json" >"$work/docs.txt" 2>&1 || { cat "$work/docs.txt" >&2; exit 1; }
if [[ -n ${DOCS:-} ]]; then
    rm -rf docs
    cp -r "$work/made/docs" docs
elif ! diff -r docs "$work/made/docs"; then
    echo "terraform/provider/docs is not what the schema says: run 'make terraform DOCS=1' and commit it" >&2
    exit 1
fi

step "Tests"
# The linters above have looked at everything, so the tests' own vet is left out.
BUILT_PROVIDER=$tools "$root/.venv/bin/python" ../acceptance.py go test -vet=off -count=1 ./...
step "Done"
