"""A real loss becomes money: brokers meter, an election that an operator forced loses messages, and the credit note is
for exactly those; both invoices are proven from the log afterwards.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from rest_framework.test import APIClient

from billing import period_actions, queries
from billing.cut_delivery import cut_end
from billing.models import CreditNote, Cut, Invoice
from control_plane.audit import queries as audit
from control_plane.brokers import client as control
from control_plane.reconciliation import loss_actions
from data_plane.contract import usage_pb2 as pb
from data_plane.contract.admin_client import AdminClient
from penstock.client.settings import ConnectionSettings
from penstock.contract.ids import SYSTEM_TENANT, TopicId
from penstock.records.usage import Totals
from penstock.rules.timestamps import day_of, time_ms
from penstock.verification.findings import Report
from penstock.verification.proving import prove
from penstock.verification.stamped_reads import StampedReads
from tenants.actions import create_operator
from tests.control_plane.billing.world import TESTER, Part, World, hash_of
from tests.integration.brokers import Tenant
from tests.integration.metering.usage import Metered, metered, totals_of
from web.proofs import GatheredDocuments

pytestmark = [pytest.mark.processes, pytest.mark.slow]

KEPT, LOST, ANEW = 1_200, 300, 50
"""Messages; the first 1,000 are free."""


@pytest.fixture
def usage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    with metered(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def produce(usage: Metered, tenant: Tenant, count: int) -> None:
    with usage.cluster.client(tenant) as client, client.producer(linger_ms=2) as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number)
        producer.flush()


def cut_reading(usage: Metered, cut: Cut, tenant: Tenant, topic_id: TopicId) -> pb.Reading:
    """The leader's reading of a cut; its vector is stored."""
    end_ms = round(cut.period_end.timestamp() * 1_000)
    usage.cluster.wait_until("the period is over", lambda: time.time() * 1_000 > end_ms)
    answers: list[Any] = []

    def answered() -> bool:
        before = queries.cut_before(cut)
        answers[:] = usage.cluster.admin.cut(
            cut.public_id,
            tenant.name,
            end_ms,
            previous_end_ms=0 if before is None else time_ms(before.period_end),
            billing=(cut.chain_sequence, cut.chain_hash),
        ).readings
        return not any(one.error for one in answers)

    usage.cluster.wait_until("the brokers answered the cut", answered)
    entries = list(map(cut_end, answers))
    period_actions.store_vector(cut.public_id, entries, hash_of(cut, entries))
    return next(one for one in usage.readings(topic_id) if one.cut_id == cut.public_id)


def part(topic_id: TopicId, first: int, reading: pb.Reading, gained: Totals, generation: int) -> Part:
    assert gained.committed_messages == reading.end_offset - first
    return Part(
        id=topic_id.hex(),
        first=first,
        end=reading.end_offset,
        size=gained.committed_bytes,
        day=day_of(reading.accepted_ms),
        generation=generation,
    )


def proven(usage: Metered, tenant: Tenant, invoice: Invoice) -> Report:
    settings = ConnectionSettings(bootstrap=tuple(usage.cluster.bootstrap), api_key=tenant.api_key)
    with StampedReads(settings) as reads:
        row = queries.invoice(invoice.tenant, invoice.public_id)
        return prove(invoice.public_id, GatheredDocuments(invoice.tenant, row), reads)


def test_the_credit_is_for_exactly_the_messages_that_were_lost(
    usage: Metered, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = usage.cluster
    internal = AdminClient([broker.internal_address for broker in cluster.spec.brokers], cluster.operator)
    monkeypatch.setattr(control, "client", lambda: internal)
    acme = world.tenant("acme")
    tenant = cluster.tenant(acme.public_id)
    topic_id = cluster.create_topic(tenant, "orders", assignments=[[1, 2, 3]])
    produce(usage, tenant, KEPT)
    cluster.wait_until("all hold it", lambda: cluster.whole(topic_id))
    cluster.kill(3)
    cluster.wait_until("broker 3 is out", lambda: list(cluster.partitions(topic_id)[0].in_sync) == [1, 2])
    produce(usage, tenant, LOST)
    first = period_actions.close_period(TESTER, acme.public_id, end=datetime.now(UTC))
    counted = cut_reading(usage, first, tenant, topic_id)
    billed = part(topic_id, 0, counted, totals_of(counted), 1)
    world.covered(first, [billed])
    world.spark()
    world.bill()
    assert {line.meter: line.quantity for line in world.invoice(first).lines.all()}[
        "messages_in"
    ] == KEPT + LOST

    cluster.kill(1, 2)
    cluster.start(3)
    cluster.wait_until("nobody leads", lambda: cluster.leader(topic_id) == -1)
    demand = {"topic_id": topic_id.hex(), "partition": 0, "broker": 3}
    operator = APIClient(raise_request_exception=False)
    token = create_operator(TESTER, name="olga", tenant=SYSTEM_TENANT)
    operator.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    assumed = operator.post("/v1/cluster/losses", demand, format="json").json()
    assert (assumed["declared"], assumed["loss"]["offset"]) == (False, KEPT)
    assert [entry.action for entry in audit.entries(acme.public_id)].count("partition.declare_loss") == 0
    answer = operator.post("/v1/cluster/losses", {**demand, "accept_loss": True}, format="json")
    assert (answer.status_code, answer.json()["declared"]) == (200, True), answer.content
    cluster.start()
    cluster.wait_until("all follow what is left", lambda: cluster.whole(topic_id))
    produce(usage, tenant, ANEW)
    second = period_actions.close_period(TESTER, acme.public_id, end=datetime.now(UTC))
    recounted = cut_reading(usage, second, tenant, topic_id)
    assert recounted.log_generation == 2
    begun = next(one for one in usage.readings(topic_id) if one.kind == pb.ReadingKind.GENERATION_START)
    assert (begun.log_generation, begun.end_offset) == (2, KEPT)
    anew = part(topic_id, KEPT, recounted, totals_of(recounted).since(totals_of(begun)), 2)
    gone = part(topic_id, KEPT, counted, totals_of(counted).since(totals_of(begun)), 1)
    world.covered(second, [anew], start_offset=KEPT + LOST)
    world.lost(second, gone)
    world.spark()
    world.bill()

    told = {entry.action: entry for entry in audit.entries(acme.public_id)}
    assert told["partition.declare_loss"].actor_kind == "operator"
    assert told["partition.loss_declared"].after["offset"] == KEPT
    assert loss_actions.note(TESTER, control.describe(objects=True).losses) == []
    (note,) = CreditNote.objects.all()
    lines = {line.meter: (line.quantity, line.amount_micro) for line in note.lines.all()}
    assert note.invoice == world.invoice(first)
    assert lines["messages_in"] == (LOST, LOST * 2_000)  # 0.002 each
    assert lines["bytes_in"][0] == gone.size
    report = proven(usage, tenant, world.invoice(first))
    assert report.problems == ()
    assert [(one.messages, one.lost_messages, one.lost) for one in report.partitions] == [
        (KEPT, LOST, (KEPT, KEPT + LOST))
    ]
    later = proven(usage, tenant, world.invoice(second))
    assert later.problems == ()
    assert [one.messages for one in later.partitions] == [ANEW]
    internal.close()
