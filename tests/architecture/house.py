"""Where things live: the packages of the house by layer, and their modules as syntax trees."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PURE = ("penstock.contract", "penstock.records", "penstock.rules")
CORES = (
    "data_plane.authz",
    "data_plane.controller",
    "data_plane.groups",
    "data_plane.leases",
    "data_plane.log",
    "data_plane.metering",
    "data_plane.placement",
    "data_plane.queues",
    "data_plane.replication",
    "data_plane.storage_limits",
    "data_plane.throttling",
    "data_plane.transactions",
)
"""Every core of the design. Those that are not written yet have no folder."""
PORTS = ("data_plane.disk", "data_plane.metadata")
SHELLS = ("data_plane.broker", "data_plane.kafka", "data_plane.testkit")
OTHERS = ("data_plane.contract", "data_plane.etcd", "data_plane.node")

TOP = (
    "penstock",
    "data_plane",
    "control_plane",
    "tenants",
    "quotas",
    "billing",
    "payments",
    "spark_usage",
    "web",
    "daemon",
    "local",
    "benchmarks",
    "chaos",
    "demo",
    "hosts",
)


def folder(package: str) -> Path:
    return ROOT / package.replace(".", "/")


def existing(packages: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(package for package in packages if folder(package).is_dir())


def modules(*packages: str) -> Iterator[Path]:
    """Every written module of the packages, in order. Generated stubs are left out."""
    for package in packages:
        for path in sorted(folder(package).rglob("*.py")):
            if not path.name.endswith("_pb2.py"):
                yield path


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def site(path: Path, node: ast.AST) -> str:
    """`file:line` for a message."""
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
