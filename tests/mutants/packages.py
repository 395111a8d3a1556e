"""Which code is mutated, and which tests stand closest to it."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """Code that is scored together. Paths are relative to the root of the project."""

    name: str
    code: tuple[str, ...]
    """Folders, or single modules."""
    tests: tuple[str, ...]
    """Folders or files of tests; those marked `processes` are left out."""
    slow: bool = False
    """Whether tests marked `slow` are among them."""

    def modules(self) -> list[str]:
        """Every module of the package, in order. Generated stubs are left out."""
        found: list[str] = []
        for place in self.code:
            path = ROOT / place
            paths = [path] if path.is_file() else sorted(path.rglob("*.py"))
            found += [str(one.relative_to(ROOT)) for one in paths if not one.name.endswith("_pb2.py")]
        return found


PACKAGES = (
    Package(
        name="records",
        code=("penstock/records",),
        tests=("tests/unit/records", "tests/golden/records", "tests/properties/records"),
    ),
    Package(
        name="rules",
        code=("penstock/rules",),
        tests=("tests/unit/rules", "tests/unit/authz", "tests/properties/records", "tests/golden/api_keys"),
    ),
    Package(
        name="client",
        code=("penstock/client",),
        tests=("tests/unit/client", "tests/unit/client/groups/test_member.py", "tests/properties/client"),
    ),
    Package(
        name="log",
        code=("data_plane/log",),
        tests=("tests/unit/log", "tests/golden/log", "tests/properties/log"),
    ),
    Package(
        name="replication",
        code=("data_plane/replication",),
        tests=("tests/unit/replication", "tests/properties/replication"),
    ),
    Package(
        name="node",
        code=("data_plane/node",),
        tests=(
            "tests/unit/node",
            "tests/unit/storage_limits/test_office.py",
            "tests/unit/broker/test_config.py",
            "tests/simulation/groups",
            "tests/simulation/test_clean_stops.py",
            "tests/simulation/test_client_calls.py",
            "tests/simulation/test_client_streams.py",
            "tests/simulation/test_cuts.py",
            "tests/simulation/test_damage_met.py",
            "tests/simulation/test_declared_losses.py",
            "tests/simulation/test_group_calls.py",
            "tests/simulation/test_handing_over.py",
            "tests/simulation/test_placement_calls.py",
            "tests/simulation/test_proving_reads.py",
            "tests/simulation/test_short_seeds.py",
            "tests/simulation/test_stepping_aside.py",
        ),
    ),
    Package(name="controller", code=("data_plane/controller",), tests=("tests/unit/controller",)),
    Package(
        name="groups",
        code=("data_plane/groups",),
        tests=("tests/unit/groups", "tests/golden/groups", "tests/properties/groups"),
    ),
    Package(
        name="metering",
        code=("data_plane/metering",),
        tests=("tests/unit/metering", "tests/properties/metering"),
    ),
    Package(
        name="authz",
        code=("data_plane/authz",),
        tests=("tests/unit/authz", "tests/unit/node/admission/test_gate.py"),
    ),
    Package(
        name="leases",
        code=("data_plane/leases",),
        tests=("tests/unit/leases", "tests/properties/leases", "tests/unit/node/leasing"),
    ),
    Package(
        name="daemon",
        code=("daemon",),
        tests=(
            "tests/unit/daemon",
            "tests/unit/authz/test_peers.py",
            "tests/unit/broker/test_peer_certificates.py",
            "tests/unit/broker/test_peer_transport.py",
            "tests/unit/broker/test_internal_handshakes.py",
            "tests/integration/test_data_set_stores.py",
            "tests/control_plane/test_server_tls.py",
        ),
    ),
    Package(name="throttling", code=("data_plane/throttling",), tests=("tests/unit/throttling",)),
    Package(
        name="billing",
        code=(
            "billing/invoice_actions.py",
            "billing/period_actions.py",
            "billing/chain_actions.py",
            "billing/credit_actions.py",
            "billing/credits.py",
            "billing/cut_delivery.py",
            "billing/document_building.py",
            "billing/draft_actions.py",
            "billing/import_actions.py",
            "billing/price_actions.py",
            "billing/completeness.py",
        ),
        tests=(
            "tests/unit/billing",
            "tests/control_plane/billing",
            "tests/control_plane/payments/test_stripe_tax.py",
        ),
    ),
    Package(
        name="outbox",
        code=(
            "control_plane/outbox/actions.py",
            "control_plane/outbox/conditions.py",
            "control_plane/outbox/delivery.py",
            "control_plane/outbox/queries.py",
            "control_plane/outbox/registry.py",
            "control_plane/outbox/tasks.py",
        ),
        tests=("tests/control_plane/test_outbox.py", "tests/control_plane/test_conditions.py"),
    ),
    Package(
        name="folds",
        code=(
            "spark_usage/canonical_readings.py",
            "spark_usage/checks.py",
            "spark_usage/cuts.py",
            "spark_usage/decode.py",
            "spark_usage/decoded_readings.py",
            "spark_usage/gold.py",
            "spark_usage/minutes.py",
            "spark_usage/readings.py",
            "spark_usage/silver.py",
        ),
        tests=(
            "tests/spark_usage/test_canonical_readings.py",
            "tests/spark_usage/test_decode.py",
            "tests/spark_usage/test_minutes.py",
            "tests/spark_usage/test_runs.py",
            "tests/spark_usage/test_scenarios.py",
            "tests/spark_usage/test_views.py",
        ),
        slow=True,  # each starts Spark
    ),
)
