"""Cuts reach the brokers in their order, with what binds them to the billing chain, and only what agrees is stored."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from billing import cut_delivery, period_actions, queries
from billing.models import Cut
from control_plane.brokers import client as brokers
from control_plane.outbox import delivery
from control_plane.outbox.models import Delivery
from penstock.contract.errors import InvalidRequest
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant
from tests.control_plane.billing.answering import Answering, answering
from tests.control_plane.billing.world import TESTER, Part, World, hash_of, vector_of

pytestmark = pytest.mark.django_db(transaction=True)

PARTS = [Part(first=0, end=100, size=5_000), Part(partition=1, first=0, end=50, size=1_000)]


@pytest.fixture
def broker(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    with answering() as (broker, client):
        monkeypatch.setattr(brokers, "client", lambda: client)
        broker.entries = vector_of(PARTS)
        yield broker


@pytest.fixture
def acme(broker: Answering, world: World) -> Tenant:
    return world.tenant("acme")


def close(tenant: Tenant, hours_ago: int) -> Cut:
    return period_actions.close_period(
        TESTER, tenant.public_id, end=datetime.now(UTC) - timedelta(hours=hours_ago)
    )


def deliver(cut: Cut) -> bool:
    Delivery.objects.update(next_attempt_at=datetime.now(UTC))
    done = delivery.deliver("cut", cut.public_id)
    cut.refresh_from_db()
    return done


def test_the_brokers_hear_where_the_period_begins_and_how_the_billing_chain_ends(
    broker: Answering, acme: Tenant
) -> None:
    first, second = close(acme, 2), close(acme, 1)
    assert deliver(first) and deliver(second)
    assert [
        (one.cut_id, one.tenant, one.end_ms, one.previous_end_ms, one.billing_sequence, one.billing_hash)
        for one in broker.asked
    ] == [
        (first.public_id, acme.public_id, time_ms(first.period_end), 0, 1, first.chain_hash),
        (second.public_id, acme.public_id, time_ms(second.period_end), time_ms(first.period_end), 1,
         second.chain_hash),
    ]  # fmt: skip
    assert first.sha256 == hash_of(first, vector_of(PARTS)) != second.sha256


def test_what_the_brokers_read_is_stored_with_its_totals(broker: Answering, acme: Tenant) -> None:
    broker.entries = [replace(entry, last=entry.where.partition == 1) for entry in vector_of(PARTS)]
    cut = close(acme, 1)
    assert deliver(cut)
    assert [
        (r.partition, r.end_offset, r.accepted_ms, r.messages, r.bytes, r.last) for r in queries.readings(cut)
    ] == [(0, 100, 1_700_000_000_000, 100, 5_000, False), (1, 50, 1_700_000_000_000, 50, 1_000, True)]


def test_a_cut_waits_for_the_one_before_and_names_it(broker: Answering, acme: Tenant) -> None:
    first, second = close(acme, 2), close(acme, 1)
    assert not deliver(second)
    assert first.public_id in second.error and broker.asked == []
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    Delivery.objects.filter(object_id=second.public_id).update(next_attempt_at=tomorrow)
    Delivery.objects.filter(object_id=first.public_id).update(next_attempt_at=datetime.now(UTC))
    assert delivery.deliver("cut", first.public_id)
    # It is due at once, whatever its last attempt said.
    assert delivery.deliver("cut", second.public_id)
    second.refresh_from_db()
    assert (second.error, second.delivered_at is None) == ("", False)


def test_a_partition_without_a_reading_is_named_and_nothing_is_stored(
    broker: Answering, acme: Tenant
) -> None:
    broker.failed = [(PARTS[1].topic_id, 1)]
    cut = close(acme, 1)
    assert not deliver(cut)
    assert f"{PARTS[1].topic_id}-1: it has no leader" in cut.error
    assert (cut.delivered_at, cut.readings.count()) == (None, 0)


@pytest.mark.parametrize("sha256", ["", "f" * 64])
def test_a_hash_that_is_not_that_of_the_readings_keeps_the_cut_undelivered(
    broker: Answering, acme: Tenant, sha256: str
) -> None:
    broker.sha256 = sha256
    cut = close(acme, 1)
    assert not deliver(cut)
    assert "their readings give" in cut.error
    assert (cut.delivered_at, cut.readings.count()) == (None, 0)


def test_asking_again_compares_and_changes_nothing(broker: Answering, acme: Tenant) -> None:
    cut = close(acme, 1)
    assert deliver(cut)
    before = (cut.delivered_at, cut.sha256)
    cut_delivery.ask(cut)
    broker.entries = [replace(entry, messages=entry.messages + 1) for entry in vector_of(PARTS)]
    with pytest.raises(InvalidRequest, match="other offsets"):
        cut_delivery.ask(cut)
    cut.refresh_from_db()
    assert (cut.delivered_at, cut.sha256) == before
