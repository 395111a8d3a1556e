"""From real messages to a proven invoice: brokers meter, Spark folds, billing issues, the log proves; and what is lost
on the way is named.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from billing import import_actions, invoice_actions, period_actions, queries
from billing.models import Cut, Invoice
from control_plane.brokers import client as control
from control_plane.outbox import delivery
from control_plane.outbox.models import Delivery
from daemon.data_set_store import FolderStore
from data_plane.contract import usage_pb2
from data_plane.contract.admin_client import AdminClient
from data_plane.contract.admin_pb2 import Binding
from local.provisioning import new_key, put_key
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT, TopicId
from penstock.verification.findings import Report, Verdict
from penstock.verification.proving import prove
from penstock.verification.stamped_reads import StampedReads
from tests.control_plane.billing.world import TESTER, World
from tests.integration.brokers import Tenant as BrokerTenant
from tests.integration.brokers import brokers
from tests.integration.metering.usage import TIMINGS, USAGE, Metered
from tests.reconcile.folding import Folds, job
from tests.spark_usage.records import Stored
from web.proofs import GatheredDocuments

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.drawn(shares=2, family="from brokers to bills"),
]

PRICED = 3_600
Record = tuple[int, int, bytes]


@pytest.fixture(scope="module")
def usage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    settings = {"metering": True, "timings": TIMINGS}
    with brokers(tmp_path_factory.mktemp("cluster"), settings=settings, internal_topics=True) as cluster:
        yield Metered(cluster=cluster, system=cluster.another_key(SYSTEM_TENANT))


def usage_records(usage: Metered) -> list[Record]:
    """All of `__usage` now: partition, offset, value."""
    found: dict[tuple[int, int], bytes] = {}
    with usage.cluster.client(usage.system) as client, client.consumer([USAGE]) as consumer:
        ends = consumer.end_offsets()
        while any(consumer.position(*place) < end for place, end in ends.items()):
            for message in consumer.poll(timeout=5):
                found[message.partition, message.offset] = message.value or b""
    return [(*place, found[place]) for place in sorted(found)]


@pytest.fixture(scope="module")
def folds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folds]:
    made = Folds(tmp_path_factory.mktemp("folds"))
    yield made
    made.end()


def fold(folds: Folds, folder: Path, records: list[Record], without: dict[str, list[Record]]) -> None:
    """Spark's data sets of the records without some, each in a folder of its name."""
    ends: dict[str, int] = {}
    for partition, offset, _ in records:
        ends[str(partition)] = max(ends.get(str(partition), 0), offset + 1)
    jobs = []
    for name, lost in without.items():
        (folder / name).mkdir()
        stored = [
            Stored(partition=partition, offset=offset, value=value)
            for partition, offset, value in records
            if (partition, offset, value) not in lost
        ]
        jobs.append(job(folder / name, stored, ends))
    folds.do(folder / "jobs.json", jobs)


def bill(datasets: Path, cut: Cut) -> Invoice:
    told = import_actions.import_data_sets(FolderStore(datasets))
    assert set(told.values()) <= {"imported"}, told
    return invoice_actions.finalize(cut.public_id)


def holds_cut(value: bytes, cut: Cut, topic_id: bytes) -> bool:
    return any(
        reading.kind == usage_pb2.ReadingKind.CUT
        and reading.cut_id == cut.public_id
        and reading.topic_id == topic_id
        for reading in usage_pb2.UsageRecord.FromString(value).readings
    )


def is_periodic(value: bytes, topic_id: bytes) -> bool:
    record = usage_pb2.UsageRecord.FromString(value)
    kinds = {reading.kind for reading in record.readings}
    here = [reading for reading in record.readings if reading.topic_id == topic_id]
    return bool(here) and kinds <= {usage_pb2.ReadingKind.PERIODIC} and not record.seals


def prove_again(usage: Metered, tenant: BrokerTenant, invoice: Invoice) -> Report:
    """By the tenant's key."""
    row = queries.invoice(invoice.tenant, invoice.public_id)
    settings = ConnectionSettings(bootstrap=tuple(usage.cluster.bootstrap), api_key=tenant.api_key)
    with StampedReads(settings) as reads:
        return prove(invoice.public_id, GatheredDocuments(invoice.tenant, row), reads)


def deliver(usage: Metered, cut: Cut) -> Cut:
    """Until the brokers have answered it."""

    def delivered() -> bool:
        Delivery.objects.update(next_attempt_at=datetime.now(UTC))
        return delivery.deliver("cut", cut.public_id)

    usage.cluster.wait_until(f"the brokers have answered {cut.public_id}", delivered)
    return queries.cut_for_delivery(cut.public_id)


def produce(usage: Metered, tenant: BrokerTenant, topic_id: TopicId, *, waves: int) -> None:
    """`PRICED` messages over three partitions; readings come between the waves."""
    with usage.cluster.client(tenant) as client, client.producer(linger_ms=2, compression="none") as producer:
        for wave in range(1, waves + 1):
            for number in range(PRICED // waves):
                producer.send("orders", b'{"wave": %d, "number": %d}' % (wave, number), partition=number % 3)
            producer.flush()
            for partition in range(3):
                usage.wait_until_read(topic_id, PRICED // 3 * wave // waves, partition)


def test_messages_become_a_proven_invoice_and_lost_readings_are_named(
    usage: Metered, world: World, folds: Folds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = usage.cluster
    internal = AdminClient([broker.internal_address for broker in cluster.spec.brokers], cluster.operator)
    monkeypatch.setattr(control, "client", lambda: internal)
    acme = world.tenant("acme")
    tenant = cluster.tenant(acme.public_id)
    topic_id = cluster.create_topic(tenant, "orders", partitions=3, segment_bytes=4_096)
    produce(usage, tenant, topic_id, waves=3)

    operator_cut = period_actions.close_period(TESTER, acme.public_id, end=datetime.now(UTC))
    cut = deliver(usage, operator_cut)
    assert cut.delivered_at is not None
    assert sorted(cut.readings.values_list("end_offset", flat=True)) == [1_200] * 3

    records = usage_records(usage)
    cut_records = [record for record in records if holds_cut(record[2], cut, topic_id)]
    middle = next(
        record
        for record in records
        if is_periodic(record[2], topic_id) and any(r[0] == record[0] and r[1] > record[1] for r in records)
    )
    folder = tmp_path / "folds"
    folder.mkdir()
    fold(folds, folder, records, {"without_a_cut": cut_records[:1], "without_a_middle": [middle]})

    # A cut reading that is lost keeps the invoice a draft, and is named.
    invoice = bill(folder / "without_a_cut", cut)
    assert invoice.status == "draft"
    named = f"__usage-{cut_records[0][0]}"
    assert any("orders-" in gap and "no cut reading" in gap and named in gap for gap in invoice.gaps), (
        invoice.gaps
    )
    with pytest.raises(InvalidRequest, match="is a draft"):
        prove_again(usage, tenant, invoice)

    # Another reading that is lost changes no total, and is named.
    invoice = bill(folder / "without_a_middle", cut)
    assert queries.missing_usage() == [{"partition": middle[0], "first_offset": middle[1], "offsets": 1}]
    assert invoice.status == "issued", invoice.gaps
    lines = {line.meter: line.quantity for line in invoice.lines.all()}
    assert lines["messages_in"] == PRICED

    # To the unit what stands on the leaders' disks, and what the proof counts.
    stored = [usage.counted(cluster.leader(topic_id, p), topic_id, 1_200, p) for p in range(3)]
    assert (sum(n for n, _ in stored), sum(size for _, size in stored)) == (PRICED, lines["bytes_in"])

    report = prove_again(usage, tenant, invoice)
    assert report.problems == ()
    assert report.due_total_micro == invoice.total_micro
    assert sum(finding.segments_sealed for finding in report.partitions) > 0

    # The same by a key that reads no message.
    verifying = new_key()
    scope = Binding(topic_prefix="", resource="topic", operations=("verify",))
    put_key(
        cluster.directory, cluster.admin, verifying, tenant=acme.public_id, name="verifying", bindings=[scope]
    )
    counted = prove_again(usage, BrokerTenant(name=acme.public_id, api_key=verifying.reveal()), invoice)
    assert (counted.problems, counted.lines) == ((), report.lines)
    assert all(finding.by_headers == finding.batches for finding in counted.partitions)
    internal.close()


def unserved(usage: Metered, tenant: BrokerTenant) -> dict[str, int]:
    """Failed requests in `__usage`, by operation."""
    found: dict[str, int] = {}
    for record in usage.records():
        for requests in record.requests:
            if requests.tenant == tenant.name:
                found[requests.operation] = found.get(requests.operation, 0) + requests.bad
    return found


def test_a_cut_waits_for_a_partition_without_a_leader_and_says_so(
    usage: Metered, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = usage.cluster
    internal = AdminClient([broker.internal_address for broker in cluster.spec.brokers], cluster.operator)
    monkeypatch.setattr(control, "client", lambda: internal)
    lone = world.tenant("lone")
    tenant = cluster.tenant(lone.public_id)
    topic_id = cluster.create_topic(tenant, "alone", assignments=[[1]], replication=1, min_insync_replicas=1)
    cluster.kill(1)
    cluster.wait_until("the partition has no leader", lambda: cluster.leader(topic_id) < 0)
    cut = period_actions.close_period(TESTER, lone.public_id, end=datetime.now(UTC))
    assert not delivery.deliver("cut", cut.public_id)
    cut.refresh_from_db()
    assert cut.delivered_at is None
    assert f"{topic_id.hex()}-0" in cut.error
    assert world.invoice(cut).gaps == ["the brokers have not answered the cut yet"]
    cluster.wait_until(
        "the time without a leader counts as requests that failed",
        lambda: min(unserved(usage, tenant).get(operation, 0) for operation in ("produce", "fetch")) >= 2,
    )
    cluster.start(1)
    cluster.wait_until("the partition has a leader", lambda: cluster.leader(topic_id) >= 0)
    # A leader that has just begun does not count at once.
    cut = deliver(usage, cut)
    assert cut.delivered_at is not None
    assert cut.error == ""
    internal.close()


def write(usage: Metered, tenant: BrokerTenant, topic: str, count: int) -> None:
    with usage.cluster.client(tenant) as client, client.producer(linger_ms=1) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)
        producer.flush()


def test_deleted_topics_are_billed_once_and_hold_up_no_invoice(
    usage: Metered, world: World, folds: Folds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each story is a tenant; all of them are folded by one Spark."""
    cluster = usage.cluster
    internal = AdminClient([broker.internal_address for broker in cluster.spec.brokers], cluster.operator)
    monkeypatch.setattr(control, "client", lambda: internal)
    names = ("between", "restarted", "within", "all-gone", "made-again", "amid", "suspended")
    rows = {name: world.tenant(name) for name in names}
    keys = {name: cluster.tenant(row.public_id) for name, row in rows.items()}
    cuts: dict[str, list[Cut]] = {name: [] for name in names}

    def make(name: str, topic: str = "orders", **options: Any) -> TopicId:
        return cluster.create_topic(keys[name], topic, **options)

    def delete(name: str, topic: str = "orders") -> None:
        cluster.admin.delete_topic(rows[name].public_id, topic)

    def end_period(*chosen: str) -> None:
        for name in chosen:
            cut = period_actions.close_period(TESTER, rows[name].public_id, end=datetime.now(UTC))
            cuts[name].append(deliver(usage, cut))

    for name in names:
        if name != "amid":
            make(name)
            write(usage, keys[name], "orders", 20)
    make("between", "stays")
    alone = make("amid", assignments=[[1]], replication=1, min_insync_replicas=1)
    write(usage, keys["amid"], "orders", 20)
    end_period("between", "made-again", "suspended")
    for name in ("between", "made-again", "suspended"):
        write(usage, keys[name], "orders", 5)
    for name in ("between", "restarted", "within", "all-gone", "made-again", "suspended"):
        delete(name)
    make("within", "unused")
    delete("within", "unused")
    make("within", "later")
    write(usage, keys["within"], "later", 7)
    make("made-again")
    write(usage, keys["made-again"], "orders", 3)
    internal.put_tenant(rows["suspended"].public_id, generation=10, produce_bytes_per_s=0, suspended=True)
    end_period("between")

    # The brokers forget what they had in memory.
    cluster.kill(1, 2, 3)
    cluster.start(1, 2, 3)
    end_period("restarted", "within", "all-gone", "made-again", "suspended")

    # A cut that could not be answered; the topic is deleted before it is asked for again.
    cluster.stop(1)
    cluster.wait_until("the partition has no leader", lambda: cluster.leader(alone) < 0)
    amid = period_actions.close_period(TESTER, rows["amid"].public_id, end=datetime.now(UTC))
    assert not delivery.deliver("cut", amid.public_id)
    delete("amid")
    assert not delivery.deliver("cut", amid.public_id)
    cluster.status(1)
    cluster.start(1)
    cuts["amid"].append(deliver(usage, amid))
    end_period(*names)

    folder = tmp_path / "folds"
    folder.mkdir()
    fold(folds, folder, usage_records(usage), {"all": []})
    billed = {name: [bill(folder / "all", cut) for cut in of_tenant] for name, of_tenant in cuts.items()}
    assert {invoice.status: invoice.gaps for of in billed.values() for invoice in of} == {"issued": []}
    messages = {
        name: [invoice.lines.get(meter="messages_in").quantity for invoice in of_tenant]
        for name, of_tenant in billed.items()
    }
    assert messages == {
        "between": [20, 5, 0],
        "restarted": [20, 0],
        "within": [27, 0],
        "all-gone": [20, 0],
        "made-again": [20, 8, 0],
        "amid": [20, 0],
        "suspended": [20, 5, 0],
    }
    internal.put_tenant(rows["suspended"].public_id, generation=11, produce_bytes_per_s=0, suspended=False)
    for name, of_tenant in billed.items():
        for invoice in of_tenant:
            report = prove_again(usage, keys[name], invoice)
            assert report.verdict is Verdict.PROVEN, (name, invoice.number, report.problems)
    internal.close()
