# The one list of commands, used by people and CI alike. `make help` prints it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# Debian's is built with profile-guided optimisation. An interpreter that is not takes a sixth more processor time.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3.11) python3.11)
TARGET ?= test
# Tests wait for processes half of their time: one more than a small machine has cores.
JOBS ?= 3
export FULL SEARCH

BIN := .venv/bin
PROTOS := $(wildcard penstock/contract/v1/*.proto data_plane/contract/*.proto data_plane/etcd/*.proto)
FAST_TESTS := $(wildcard tests/unit tests/architecture tests/golden)
COMPILE := $(BIN)/python packaging/compile.py
AS_COMPILED := PYTHONPATH=$(CURDIR)/build/compiled PYTHONSAFEPATH=1
AS_TESTED := PYTHONPATH=$(CURDIR)/build/compiled-for-tests PYTHONSAFEPATH=1
# With COMPILED=1 a command compiles the cores first, if they have changed, and runs on them. dev and demo run on them
# where they have been compiled, unless COMPILED=0.
RUN := $(if $(filter 1,$(COMPILED)),$(COMPILE) && $(AS_COMPILED),$(if $(COMPILED),PENSTOCK_CORES=same))
# What runs needs less than what tests: no browser, no shells, no tools of developers.
RUNNING := .venv/.running-packages-ready .venv/.running-lock-ready .venv/.project-ready
# Tests run on compiled cores, as what people get does, and these files on pure Python as well: what is marked `pure`,
# which compiled cores leave out, and `both_cores`.
PURE_TESTS = $(sort $(shell grep -rlE --include='*.py' 'pytest\.mark\.(pure|both_cores)\b' tests))
READY := $(RUNNING) .venv/.packages-ready .venv/.lock-ready
# Tests start Spark many times: with an archive of its classes in half of the processor time.
CLASSES := .venv/.spark-classes-ready
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet

.PHONY: help setup dev demo check test compile wheel sim planted mutants reconcile bench load soak cluster chaos fresh proto docs terraform .lint

help:  ## List the commands
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 16

setup: $(READY) $(CLASSES)  ## Install Debian packages (as root) and the locked Python packages into .venv

dev: $(RUNNING)  ## Start the whole service on this machine, until Ctrl-C
	$(RUN) $(BIN)/penstock dev up

demo: $(RUNNING)  ## Sixteen tenants' messages, metered, billed and proven, and one paid; ONCE=1 stops everything at the end
	$(RUN) $(BIN)/python -m demo $(if $(ONCE),--once) $(if $(DATA),--data $(DATA))

check: $(READY) .lint  ## Formatting, lints, types, import contracts and the fast tests
	$(BIN)/pytest -q -m "not slow" $(FAST_TESTS)

test: $(READY) $(CLASSES) .venv/.docs-lock-ready .lint  ## Everything that must pass; FULL=1 runs the long forms, JOBS=1 one test after another
	$(COMPILE) compiled-for-tests
	$(AS_TESTED) $(BIN)/pytest --numprocesses $(JOBS) --durations 40 --durations-min 3
	$(BIN)/pytest --numprocesses $(JOBS) -m "pure or both_cores" $(PURE_TESTS)

compile: $(READY)  ## Compile the hot cores to native modules; COMPILED=1 runs sim, bench, cluster and chaos on them
	$(COMPILE)

wheel: $(RUNNING)  ## Build the SDK's wheel into dist; COMPILED=1 for this machine's kind alone, with native modules
	$(if $(COMPILED),HATCH_BUILD_HOOK_ENABLE_CUSTOM=1) $(BIN)/python -m pip wheel --disable-pip-version-check \
		--no-deps --no-build-isolation --wheel-dir dist .

sim: $(READY)  ## Run the simulator: SEED=7 repeats one seed, SEEDS=500 runs that many; SHRINK=1 makes a failure small
	$(RUN) $(BIN)/python -m data_plane.testkit.run $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),20)) $(if $(SHRINK),--shrink)

reconcile: $(READY)  ## Bill a made-up quarter with faults and compare with an oracle, to the micro-unit; SEED=1
	$(BIN)/python -m tests.reconcile $(if $(SEED),--seed $(SEED))

planted: $(READY)  ## Show that every planted bug is found; SEARCH=1 searches anew
	$(BIN)/python tests/simulation/planted.py

mutants: $(READY)  ## Plant COUNT=20 small bugs a package, chosen by SEED=1, before the closest tests; ONLY=node for one package
	nice -n 10 $(BIN)/python -m tests.mutants $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) \
		$(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json $(JSON))

bench: $(READY)  ## Measure beside the floor: the quick set, ONLY=name for one figure, ALL=1 for the rest
	$(RUN) $(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY)) $(if $(ALL),--all)

load: $(READY)  ## All kinds of users at once on a whole service for MINUTES=10 (Locust); JSON=path writes it down too
	$(RUN) $(BIN)/python -m benchmarks.load $(if $(MINUTES),--minutes $(MINUTES)) $(if $(JSON),--json $(JSON))

soak: $(READY)  ## The usage runner's rounds back to back for MINUTES=30, and what of it grows; JSON=path writes it down too
	$(RUN) $(BIN)/python -m benchmarks.soak $(if $(MINUTES),--minutes $(MINUTES)) $(if $(JSON),--json $(JSON))

cluster: $(READY)  ## A whole service over three zones of hosts, over TLS, with the demo's load and a table (as root); FLIGHTS=50000
	$(RUN) $(BIN)/python -m hosts $(if $(FLIGHTS),--flights $(FLIGHTS)) $(if $(DATA),--folder $(DATA))

chaos: $(READY)  ## Hurt a real cluster for MINUTES=10 and judge it; SEED=7 repeats the faults, HISTORY=path judges again
	$(RUN) $(BIN)/python -m chaos $(if $(HISTORY),--history $(HISTORY)) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(SEED),--seed $(SEED)) $(if $(METADATA),--metadata $(METADATA)) $(if $(PLAN),--plan $(PLAN))

fresh:  ## Run TARGET (test) in a newly built Debian root, from the committed tree (as root)
	packaging/fresh.sh $(TARGET)

proto: $(READY)  ## Make the committed protobuf stubs anew
	$(BIN)/python -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. $(PROTOS)

docs: .venv/.docs-lock-ready  ## Build the documentation as a site with search into build/docs, and check every link in it
	$(BIN)/mkdocs build

terraform: $(RUNNING)  ## Build, lint and test the Terraform provider against a service of its own (Go and Terraform); DOCS=1 writes its pages
	DOCS=$(DOCS) terraform/check.sh

.lint:
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

.venv/.running-packages-ready: packaging/debian-running.txt packaging/setup-debian.sh
	packaging/setup-debian.sh $<
	[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	touch $@

.venv/.packages-ready: packaging/debian-testing.txt packaging/setup-debian.sh | .venv/.running-packages-ready
	packaging/setup-debian.sh $<
	touch $@

.venv/.running-lock-ready: requirements-running.lock | .venv/.running-packages-ready
	$(PIP) --require-hashes -r $<
	touch $@

.venv/.lock-ready: requirements.lock | .venv/.running-lock-ready
	$(PIP) --require-hashes -r $<
	touch $@

.venv/.spark-classes-ready: .venv/.lock-ready | .venv/.project-ready
	$(BIN)/python -m spark_usage.class_archive
	touch $@

.venv/.docs-lock-ready: requirements-docs.lock | .venv/.running-packages-ready
	$(PIP) --require-hashes -r $<
	touch $@

.venv/.project-ready: pyproject.toml | .venv/.running-lock-ready
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@
