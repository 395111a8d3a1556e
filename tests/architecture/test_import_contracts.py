"""Each import contract breaks by an import that it is there to stop, and names every package that it speaks of.

The imports are planted in the graph alone. A contract that holds whatever is imported guards nothing.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import grimp
import pytest
from importlinter import configuration
from importlinter.api import read_configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

from .house import ROOT, TOP

configuration.configure()
_CONFIGURATION: Mapping[str, Any] = read_configuration(str(ROOT / "pyproject.toml"))
CONTRACTS: dict[str, dict[str, Any]] = {
    options["id"]: options for options in _CONFIGURATION["contracts_options"]
}
_KINDS = {"forbidden": ForbiddenContract, "layers": LayersContract}

PLANTED: dict[str, list[tuple[str, str]]] = {
    "layers": [
        ("penstock.records.batch", "penstock.rules.rating"),
        ("data_plane.log.recovery", "data_plane.groups.group"),
        ("data_plane.storage_limits.books", "data_plane.node.config"),
    ],
    "cores-decide": [("data_plane.log.recovery", "time"), ("penstock.rules.rating", "random")],
    "etcd-client-stands-alone": [
        ("data_plane.etcd.client", "penstock.contract.ids"),
        ("data_plane.etcd.client", "data_plane.throttling.line"),
    ],
    "rooms-of-the-sdk": [("penstock.client.producing.producer", "penstock.client.consuming.consumer")],
    "verification-decides": [
        ("penstock.verification.granted_check", "time"),
        ("penstock.verification.service_level_check", "penstock.verification.stamped_reads"),
        ("penstock.verification.charges_check", "penstock.client.settings"),
    ],
    "node-composes": [("data_plane.node.replicas.replica", "threading")],
    "node-wings": [("data_plane.node.replicas.replica", "data_plane.node.metering.metering")],
    "control-plane-meets-contracts": [("quotas.actions", "data_plane.throttling.pacing")],
    "floors-of-django": [
        ("tenants.actions", "quotas.actions"),
        ("control_plane.processes.actions", "control_plane.audit.actions"),
    ],
    "ground-floor-apps": [("control_plane.outbox.actions", "control_plane.topics.models")],
    "actions-know-no-web": [
        ("billing.granted_credits", "rest_framework"),
        ("payments.sending", "control_plane.rest.views"),
        ("control_plane.processes.actions", "control_plane.api.etags"),
        ("control_plane.looks", "web.views"),
        ("tenants.password_line", "control_plane.http_server"),
    ],
    "data-plane-stands-alone": [("local.keeper", "tenants.models")],
    "console-asks": [("web.views", "control_plane.outbox.actions")],
    "planner-is-pure": [("data_plane.placement.planner", "random")],
    "sdk-is-alone": [
        ("penstock.client.settings", "data_plane.disk.port"),
        ("penstock.rest.client", "local.layout"),
    ],
    "django-stays-home": [("penstock.rest.client", "django")],
    "spark-stays-home": [("billing.pipeline", "pyspark")],
    "spark-meets-contracts": [
        ("spark_usage.stream_repair", "data_plane.groups.group"),
        ("spark_usage.gold", "penstock.verification.findings"),
    ],
    "chaos-stands-outside": [("daemon.watchdog", "chaos.faults")],
    "daemons-are-alike": [("daemon.watchdog", "hosts.ground")],
    "local-stands-outside": [("daemon.watchdog", "local.layout")],
    "chaos-judges": [("chaos.judgement", "time")],
}
"""By contract, the importing module and what it imports."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> grimp.ImportGraph:
    packages = _CONFIGURATION["session_options"]["root_packages"]
    cache = str(tmp_path_factory.mktemp("imports"))
    return grimp.build_graph(*packages, include_external_packages=True, cache_dir=cache)


def _is_kept(contract_id: str, graph: grimp.ImportGraph) -> bool:
    options = CONTRACTS[contract_id]
    contract = _KINDS[options["type"]](
        name=options["name"], session_options=_CONFIGURATION["session_options"], contract_options=options
    )
    # A check takes the imports that it is to ignore out of the graph.
    return contract.check(deepcopy(graph), verbose=False).kept


def test_every_contract_has_planted_imports() -> None:
    assert sorted(PLANTED) == sorted(CONTRACTS)


def test_every_contract_breaks_by_each_import_that_is_planted(graph: grimp.ImportGraph) -> None:
    for contract_id, imports in PLANTED.items():
        assert _is_kept(contract_id, graph), f"{contract_id} is broken without a planted import"
        for importer, imported in imports:
            assert {importer, imported} - {"django"} <= graph.modules, (
                f"{contract_id}: {importer}, {imported}"
            )
            graph.add_import(importer=importer, imported=imported)
            kept = _is_kept(contract_id, graph)
            graph.remove_import(importer=importer, imported=imported)
            assert not kept, f"{contract_id} allows {importer} to import {imported}"


def test_a_contract_that_keeps_something_outside_names_every_package_of_the_service() -> None:
    """A package that is new joins each of these lists, or is named here as one that may import what they forbid."""
    may_import = {
        "chaos-stands-outside": {"benchmarks", "chaos", "demo", "hosts"},
        "local-stands-outside": {"benchmarks", "chaos", "demo", "hosts", "local"},
        "spark-stays-home": {"benchmarks", "chaos", "demo", "hosts", "spark_usage"},
    }
    for contract_id, excepted in may_import.items():
        assert sorted(CONTRACTS[contract_id]["source_modules"]) == sorted(set(TOP) - excepted), contract_id
