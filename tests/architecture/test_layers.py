"""The import contracts cover the whole house, hold, and would be seen to break."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S

from . import house

CONTRACTS: list[dict[str, Any]] = tomllib.loads((house.ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "tool"
]["importlinter"]["contracts"]
BY_ID = {contract["id"]: contract for contract in CONTRACTS}

PLANTED = {
    "layers": ("data_plane/log/planted.py", "import data_plane.node"),
    "etcd-client-stands-alone": ("data_plane/etcd/planted.py", "import data_plane.metadata"),
    "cores-decide": ("data_plane/replication/planted.py", "import asyncio"),
    "rooms-of-the-sdk": ("penstock/client/producing/planted.py", "import penstock.client.consuming.consumer"),
    "verification-decides": ("penstock/verification/history.py", "import grpc"),
    "node-composes": ("data_plane/node/replicas/planted.py", "import grpc"),
    "node-wings": ("data_plane/node/membership/planted.py", "import data_plane.node.replicas.host"),
    "control-plane-meets-contracts": ("billing/planted.py", "import data_plane.log"),
    "floors-of-django": ("tenants/queries.py", "import control_plane.topics.models"),
    "ground-floor-apps": ("control_plane/outbox/planted.py", "import tenants.models"),
    "actions-know-no-web": ("tenants/queries.py", "import control_plane.rest.views"),
    "data-plane-stands-alone": ("data_plane/broker/planted.py", "import control_plane.placement.choice"),
    "planner-is-pure": ("data_plane/placement/planner.py", "import time"),
    "sdk-is-alone": ("penstock/planted.py", "import data_plane.contract"),
    "django-stays-home": ("spark_usage/planted.py", "import django"),
    "spark-meets-contracts": ("spark_usage/planted.py", "import data_plane.log"),
    "spark-stays-home": ("web/planted.py", "import pyspark"),
    "chaos-stands-outside": ("local/planted.py", "import chaos.faults"),
    "daemons-are-alike": ("daemon/planted.py", "import data_plane.contract"),
    "local-stands-outside": ("data_plane/broker/planted.py", "import local.layout"),
    "chaos-judges": ("chaos/judgement.py", "import time"),
    "console-asks": ("web/planted.py", "import control_plane.outbox.delivery"),
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the import contracts of the tree in `folder`."""
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", command, "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin", "COLUMNS": "400"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def verdicts(output: str) -> dict[str, str]:
    """KEPT or BROKEN by contract id."""
    found: dict[str, str] = {}
    for contract in CONTRACTS:
        for line in output.splitlines():
            if line.startswith(f"{contract['name']} "):
                found[contract["id"]] = line.removeprefix(contract["name"]).split()[0]
    return found


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources of the house and its contracts, without tests and tools."""
    shutil.copy(house.ROOT / "pyproject.toml", tmp_path)
    for package in house.existing(house.TOP):
        shutil.copytree(
            house.folder(package), tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "*.proto")
        )
    return tmp_path


def test_every_package_of_the_data_plane_has_its_layer() -> None:
    known = {*house.CORES, *house.PORTS, *house.SHELLS, *house.OTHERS}
    written = {f"data_plane.{path.parent.name}" for path in (house.ROOT / "data_plane").glob("*/__init__.py")}
    assert written <= known
    layers = " ".join(BY_ID["layers"]["layers"])
    names = {part.strip("()\\,") for part in layers.replace("|", " ").split()}
    assert written | {"penstock.records", "penstock.contract", "penstock.rules"} <= names


def test_every_core_and_pure_package_is_kept_from_the_world() -> None:
    assert {*house.existing(house.CORES), *house.existing(house.PURE)} == {
        *BY_ID["cores-decide"]["source_modules"]
    }


def test_the_control_plane_is_kept_from_the_data_plane_but_its_contract_and_the_planner() -> None:
    written = {f"data_plane.{path.parent.name}" for path in (house.ROOT / "data_plane").glob("*/__init__.py")}
    shared = {"data_plane.contract", "data_plane.placement"}
    assert written - shared == {*BY_ID["control-plane-meets-contracts"]["forbidden_modules"]}


def test_every_contract_is_broken_by_the_import_it_forbids(copy: Path) -> None:
    assert PLANTED.keys() == BY_ID.keys()
    clean = lint(copy)
    assert verdicts(clean.stdout) == dict.fromkeys(BY_ID, "KEPT"), clean.stdout + clean.stderr
    for path, line in PLANTED.values():
        with (copy / path).open("a", encoding="utf-8") as module:
            module.write(f"\n{line}\n")
    broken = lint(copy)
    assert verdicts(broken.stdout) == dict.fromkeys(BY_ID, "BROKEN"), broken.stdout + broken.stderr
    assert broken.returncode != 0
