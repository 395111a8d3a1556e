"""An object of a round that fails rests, longer each time, and keeps no other from its turn."""

from datetime import UTC, datetime, timedelta

import pytest

from control_plane.api import metrics
from control_plane.processes import setbacks
from control_plane.processes.models import Setback
from tenants.models import Tenant

pytestmark = pytest.mark.django_db


def tenants(count: int) -> list[str]:
    return [Tenant.objects.create(name=f"tenant-{number}").public_id for number in range(count)]


def round_of(bad: set[str], most: int = 2) -> list[str]:
    """One round; whose turn it was."""
    turns: list[str] = []

    def step(tenant: Tenant) -> None:
        turns.append(tenant.public_id)
        if tenant.public_id in bad:
            raise RuntimeError("broken")

    setbacks.each(
        "testing", Tenant.objects.filter(name__startswith="tenant-").order_by("pk"), step, most=most
    )
    return turns


def test_what_fails_gives_its_turn_to_the_next() -> None:
    names = tenants(3)
    assert round_of(set(names[:2])) == names[:2]
    assert round_of(set(names[:2])) == names[2:]
    rows = Tenant.objects.filter(public_id__in=names)
    assert [row.public_id for row in setbacks.unhindered("testing", rows)] == names[2:]
    assert [row.public_id for row in setbacks.unhindered("another", rows).order_by("pk")] == names


def test_each_pause_is_twice_the_one_before_up_to_an_hour() -> None:
    now = datetime.now(UTC)
    pauses = []
    for _ in range(9):
        setbacks.note("testing", "tn_1", RuntimeError("broken"), now)
        pauses.append((Setback.objects.get().retry_at - now) / timedelta(minutes=1))
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert Setback.objects.get().error == "RuntimeError: broken"


def test_what_went_well_or_went_another_way_is_forgotten_and_the_metric_counts_the_rest() -> None:
    names = tenants(2)
    round_of(set(names))
    metrics.database.look()
    assert setbacks.counts() == {"testing": 2}
    Setback.objects.update(retry_at=datetime.now(UTC) - timedelta(seconds=1))
    round_of({names[1]})
    assert setbacks.counts() == {"testing": 1}
    Setback.objects.update(retry_at=datetime.now(UTC) - setbacks.FORGOTTEN_AFTER - timedelta(seconds=1))
    Tenant.objects.filter(public_id=names[1]).update(name="gone")
    round_of(set())
    assert not Setback.objects.exists()
