"""One distribution: what a tenant installs is declared, the lock is whole, and neither names a place."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import packages_distributions, requires
from itertools import chain

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from . import house

PROJECT = tomllib.loads((house.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = "requirements.lock"
RUNNING_LOCK = "requirements-running.lock"
"""What `make dev` and `make demo` install."""
DOCS_LOCK = "requirements-docs.lock"
"""What `make docs` installs."""
RUNNING = (
    *(
        "penstock",
        "daemon",
        "data_plane",
        "control_plane",
        "tenants",
        "quotas",
        "billing",
        "spark_usage",
        "web",
    ),
    *("local", "demo"),
)
ON_REQUEST = {"gevent", "pyarrow", "fastavro", "cryptography"}
"""Imported inside functions, and only when a user asks for what they do."""


def group(name: str) -> Iterator[Requirement]:
    """Requirements of a dependency group, with the groups it includes."""
    for entry in PROJECT["dependency-groups"][name]:
        if isinstance(entry, dict):
            yield from group(entry["include-group"])
        else:
            yield Requirement(entry)


def pins(lock: str) -> dict[str, Version]:
    text = (house.ROOT / lock).read_text(encoding="utf-8")
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", text, flags=re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in found}


def entries(lock: str) -> set[str]:
    """Every pin with its hashes, without the comments."""
    text = (house.ROOT / lock).read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.strip().startswith("#"))
    return set(re.split(r"\n(?=[A-Za-z0-9])", lines.strip()))


def imports(module: ast.Module) -> Iterator[tuple[ast.AST, str, bool]]:
    """Each imported top-level module, and whether it is imported at once rather than inside a function."""
    lazy = {
        child
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"})
        for child in ast.walk(node)
    }
    for node in ast.walk(module):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            yield node, name.split(".")[0], node not in lazy


def test_the_sdk_imports_only_what_the_wheel_requires() -> None:
    required = {canonicalize_name(Requirement(line).name) for line in PROJECT["project"]["dependencies"]}
    providers = packages_distributions()
    found = []
    for path in house.modules("penstock"):
        for node, name, at_once in imports(house.tree(path)):
            if name in sys.stdlib_module_names or name in {"penstock", "google"}:
                continue
            if {canonicalize_name(provider) for provider in providers.get(name, ())} & required:
                continue
            if (name in ON_REQUEST or path.is_relative_to(house.ROOT / "penstock/testing")) and not at_once:
                continue
            found.append(f"{house.site(path, node)}: {name}")
    assert not found


def test_the_servers_requirements_never_reach_the_wheel() -> None:
    declared = {canonicalize_name(Requirement(line).name) for line in requires("penstock") or ()}
    assert declared == {
        canonicalize_name(Requirement(line).name) for line in PROJECT["project"]["dependencies"]
    }
    assert declared.isdisjoint({requirement.name for requirement in group("server")})


def test_entry_points_lead_only_into_the_server() -> None:
    for target in PROJECT["project"]["entry-points"]["penstock.commands"].values():
        assert target.split(".")[0] in {"daemon", "data_plane", "control_plane", "spark_usage", "local"}
        module, name = target.split(":")
        assert hasattr(import_module(module), name), target


@pytest.mark.parametrize(("lock", "wanted"), [(LOCK, "dev"), (RUNNING_LOCK, "running")])
def test_a_lock_holds_every_requirement_at_a_version_it_allows(lock: str, wanted: str) -> None:
    locked = pins(lock)
    declared = chain((Requirement(line) for line in PROJECT["project"]["dependencies"]), group(wanted))
    for requirement in declared:
        name = canonicalize_name(requirement.name)
        assert name in locked, f"{name} is not locked"
        assert requirement.specifier.contains(locked[name]), f"{requirement} does not allow {locked[name]}"


@pytest.mark.parametrize("lock", [LOCK, DOCS_LOCK])
def test_every_pin_of_the_lock_has_hashes(lock: str) -> None:
    assert len(entries(lock)) == len(pins(lock))
    assert all("--hash=sha256:" in entry for entry in entries(lock))


def test_what_builds_the_site_is_locked_and_moves_no_other_package() -> None:
    locked, others = pins(DOCS_LOCK), pins(LOCK)
    for requirement in group("docs"):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)])
    assert {name: others[name] for name in locked.keys() & others.keys()}.items() <= locked.items()
    assert canonicalize_name("mkdocs") not in pins(RUNNING_LOCK)


def test_what_runs_is_locked_as_what_is_tested_and_is_less() -> None:
    assert entries(RUNNING_LOCK) < entries(LOCK)
    assert {"playwright", "pytest", "locust", "ruff"}.isdisjoint(pins(RUNNING_LOCK))


def test_what_runs_imports_only_what_is_installed_to_run_it() -> None:
    locked, providers = pins(RUNNING_LOCK), packages_distributions()
    found = []
    for path in house.modules(*RUNNING):
        for node, name, _ in imports(house.tree(path)):
            if name in sys.stdlib_module_names or name in {*house.TOP, "google"} | ON_REQUEST:
                continue
            if not {canonicalize_name(provider) for provider in providers.get(name, ())} & locked.keys():
                found.append(f"{house.site(path, node)}: {name}")
    assert not found


@pytest.mark.parametrize(
    "name", [LOCK, RUNNING_LOCK, DOCS_LOCK, "pyproject.toml", "Makefile", "packaging/fresh.sh", ".ci/run"]
)
def test_no_file_of_the_build_names_a_registry_or_a_folder_of_one_machine(name: str) -> None:
    text = (house.ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links|(?<!\$)/home/|/root/(?!\.p)", text)


def test_the_stubs_run_on_the_oldest_protobuf_that_the_wheel_allows() -> None:
    stub = (house.ROOT / "penstock/contract/v1/log_pb2.py").read_text(encoding="utf-8")
    version = re.search(r"^# Protobuf Python Version: (\S+)$", stub, flags=re.MULTILINE)
    assert version is not None
    made_with = Version(version.group(1))
    (requirement,) = [Requirement(x) for x in PROJECT["project"]["dependencies"] if x.startswith("protobuf")]
    assert requirement.specifier.contains(made_with)
    assert not requirement.specifier.contains(Version(f"{made_with.major}.{made_with.minor - 1}.0"))
