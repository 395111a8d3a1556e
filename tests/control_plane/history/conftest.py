"""A house whose topic has a history, and whose log holds whatever a test did."""

from collections.abc import Iterator
from copy import deepcopy

import pytest
from pytest_django.plugin import DjangoDbBlocker

from control_plane.audit.queries import first_break
from control_plane.outbox import in_request
from control_plane.topics import actions
from control_plane.topics import queries as topics
from tenants.models import Tenant
from tests.control_plane.rows_of_a_module import rows_of_a_module
from tests.control_plane.world import ACTOR, House, everything_delivered, make_house

HOUR = 3_600_000


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker and no broker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    monkeypatch.setattr(topics, "ASK_S", 0.05)


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[House]:
    with rows_of_a_module(django_db_blocker):
        house = make_house("acme")
        actions.create_topic(
            ACTOR, house.tenant, name="orders", partitions=1, settings={"retention_ms": 24 * HOUR}
        )
        everything_delivered()
        yield house


@pytest.fixture
def house(made: House) -> Iterator[House]:
    yield deepcopy(made)
    # Whatever a test did, the log still holds.
    assert first_break(made.tenant.public_id) is None


@pytest.fixture
def tenant(house: House) -> Tenant:
    return house.tenant
