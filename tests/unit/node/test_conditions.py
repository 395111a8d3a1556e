"""Conditions of a broker: each is named while it holds, in words and as a number, and nothing is while all is well."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from data_plane.controller.clocks import FAR_OFF_MS
from data_plane.metadata import broker_records
from data_plane.node.conditions import Conditions
from data_plane.replication.health import Damaged, ReadOnly
from penstock.contract.ids import BrokerId
from tests.unit.controller.setup import Store
from tests.unit.node.storage import CONFIG

pytestmark = pytest.mark.pure  # stand-ins for what mypyc gives a type

GAUGES = {
    "strays": 0, "damaged_files": 0, "damaged_files_bytes": 0, "clock_off_ms": 0, "clock_trusted": 1,
    "disk_refuses_writes": 0, "disk_read_only": 0, "failure_domain_wrong": 0, "disk_slow": 0,
    "replicas_without_writes": 0,
}  # fmt: skip


@dataclass
class Parts:
    """The parts of a node that all are well, and that a test makes worse."""

    replicas: Any = field(default_factory=lambda: SimpleNamespace(unsound=[]))
    disk_space: Any = field(default_factory=lambda: SimpleNamespace(full="", refuses_writes="", read_only=""))
    strays: Any = field(default_factory=lambda: SimpleNamespace(count=0))
    quarantine: Any = field(default_factory=lambda: SimpleNamespace(count=0, size_bytes=0))
    seat: Any = field(default_factory=lambda: SimpleNamespace(clock_off_ms=None))
    retention: Any = field(default_factory=lambda: SimpleNamespace(clock_trusted=True))
    step_aside: Any = field(default_factory=lambda: SimpleNamespace(slow=False, reason=""))
    store: Store = field(default_factory=Store)

    @property
    def conditions(self) -> Conditions:
        log_directory: Any = SimpleNamespace(
            disk_space=self.disk_space, strays=self.strays, quarantine=self.quarantine
        )
        return Conditions(
            CONFIG,
            self.replicas,
            log_directory,
            self.seat,
            self.retention,
            self.step_aside,
            self.store.image,
        )

    def changed_gauges(self) -> dict[str, int]:
        """The gauges that differ from a node that is well."""
        gauges = self.conditions.gauges()
        assert gauges.keys() == GAUGES.keys()
        return {name: value for name, value in gauges.items() if value != GAUGES[name]}


def unsound(number: int, health: object) -> Any:
    return SimpleNamespace(name=f"orders-{number}", health=health)


def test_of_a_broker_that_is_well_nothing_is_said() -> None:
    parts = Parts()
    assert parts.conditions.by_kind() == {} and parts.changed_gauges() == {}
    parts.seat.clock_off_ms = -7
    assert parts.conditions.by_kind() == {}
    assert parts.changed_gauges() == {"clock_off_ms": -7}


@pytest.mark.parametrize(
    ("off_ms", "leads_nothing"),
    [
        (None, False),
        (FAR_OFF_MS, False),
        (-FAR_OFF_MS, False),
        (FAR_OFF_MS + 1, True),
        (-FAR_OFF_MS - 1, True),
    ],
)
def test_a_clock_that_is_far_off_costs_the_broker_its_leaders(
    off_ms: int | None, leads_nothing: bool
) -> None:
    parts = Parts()
    parts.retention.clock_trusted = False
    parts.seat.clock_off_ms = off_ms
    (kind, said), *others = parts.conditions.by_kind().items()
    assert kind == "clock" and not others
    assert f"is {off_ms} ms off" in said
    assert f"at most {CONFIG.timings.clock_off_ms_max} allowed" in said
    assert ("leads nothing" in said) is leads_nothing
    assert parts.changed_gauges()["clock_trusted"] == 0


@pytest.mark.parametrize(
    ("full", "refuses_writes", "said"),
    [("full", "", "full"), ("", "tight", "tight"), ("full", "tight", "full")],
)
def test_a_disk_says_why_it_takes_nothing_or_no_messages(full: str, refuses_writes: str, said: str) -> None:
    parts = Parts()
    parts.disk_space.full = parts.disk_space.read_only = full
    parts.disk_space.refuses_writes = refuses_writes
    assert parts.conditions.by_kind() == {"disk": said}
    gauges = {"disk_read_only": int(bool(full)), "disk_refuses_writes": int(bool(refuses_writes))}
    assert parts.changed_gauges() == {name: value for name, value in gauges.items() if value}


def test_a_slow_disk_and_what_is_set_aside_are_named() -> None:
    parts = Parts()
    parts.step_aside = SimpleNamespace(slow=True, reason="it takes 900 ms")
    parts.strays.count = 3
    parts.quarantine = SimpleNamespace(count=2, size_bytes=700)
    said = parts.conditions.by_kind()
    assert said.pop("slow disk") == "it takes 900 ms"
    assert said.pop("strays").startswith("3 directories") and said == {}
    assert parts.changed_gauges() == {
        "disk_slow": 1, "strays": 3, "damaged_files": 2, "damaged_files_bytes": 700
    }  # fmt: skip


@pytest.mark.parametrize(("count", "more"), [(1, ""), (5, ""), (6, " and 1 more"), (8, " and 3 more")])
def test_damaged_replicas_are_named_and_many_of_them_are_counted(count: int, more: str) -> None:
    parts = Parts()
    parts.replicas.unsound = [unsound(number, Damaged(reason="bad")) for number in range(count)]
    names = [f"orders-{number}: bad" for number in range(min(count, 5))]
    assert parts.conditions.by_kind() == {"damage": "; ".join(names) + more}
    assert parts.changed_gauges() == {}


def test_replicas_that_take_no_writes_are_counted() -> None:
    parts = Parts()
    parts.replicas.unsound = [
        unsound(1, ReadOnly(reason="bad")),
        unsound(2, Damaged(reason="bad")),
        unsound(3, ReadOnly(reason="bad")),
    ]
    assert parts.changed_gauges() == {"replicas_without_writes": 2}


def test_a_broker_whose_host_is_named_in_two_zones_has_it_as_a_condition() -> None:
    parts = Parts()
    assert "failure domain" not in parts.conditions.by_kind()
    for number, zone in ((0, "a"), (1, "b")):
        parts.store.put(
            broker_records.broker_key(number),
            broker_records.BrokerRecord(
                broker_id=BrokerId(number), directory_id="d", client_address="c", internal_address="i",
                zone=zone, host="shared",
            ).encode(),
        )  # fmt: skip
    assert "shared" in parts.conditions.by_kind()["failure domain"]
    assert parts.changed_gauges() == {"failure_domain_wrong": 1}
