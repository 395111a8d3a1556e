"""An invoice is proven against real brokers by the tenant's key alone, and the proof fails where it must."""

import copy
import json
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import crc32c
import pytest

from penstock.client.settings import ConnectionSettings
from penstock.contract.ids import SYSTEM_TENANT, TopicId, TopicPartition
from penstock.records.stamp import STAMP_BYTES, stamp_seed
from penstock.verification.findings import Kind, Report
from penstock.verification.proving import prove
from penstock.verification.stamped_reads import StampedReads
from tests.integration.brokers import Tenant, brokers
from tests.integration.installed import Installation, build_wheel, install
from tests.integration.metering.usage import TIMINGS, Metered
from tests.integration.proof.evidence import Billing, served
from tests.unit.verification.honest import sha256_of
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

MESSAGES = 1_200
_SIDECAR_HEADER_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """A tenant whose period has ended, and what is said of it."""

    usage: Metered
    tenant: Tenant
    orders: TopicId
    empty: TopicId
    billing: Billing

    def settings(self) -> ConnectionSettings:
        return ConnectionSettings(bootstrap=tuple(self.usage.cluster.bootstrap), api_key=self.tenant.api_key)

    def end_period(self) -> None:
        self.billing.end_period({self.orders: "orders", self.empty: "empty"})

    def verify(self, invoice: str = "inv_1") -> Report:
        with StampedReads(self.settings(), patience_s=PATIENCE_S) as reads:
            return prove(invoice, self.billing, reads)

    def altered(self) -> "Billed":
        """The same with documents of its own."""
        billing = copy.copy(self.billing)
        billing.documents = copy.deepcopy(self.billing.documents)
        billing.shown = copy.deepcopy(self.billing.shown)
        billing.chain_items = copy.deepcopy(self.billing.chain_items)
        return replace(self, billing=billing)

    def file(self, suffix: str) -> Path:
        """Of the first segment of orders-0 on its leader's disk."""
        cluster = self.usage.cluster
        folder = cluster.partition_directory(cluster.leader(self.orders), TopicPartition(self.orders, 0))
        return folder / f"{0:020d}{suffix}"


@pytest.fixture(scope="module")
def usage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    # Little is kept in memory, so that what is read is what rests on the disk.
    settings = {"metering": True, "timings": TIMINGS, "limits": {"tail_bytes": 4096}}
    with brokers(tmp_path_factory.mktemp("cluster"), settings=settings, internal_topics=True) as cluster:
        yield Metered(cluster=cluster, system=cluster.another_key(SYSTEM_TENANT))


def produce(usage: Metered, tenant: Tenant, messages: int = MESSAGES) -> None:
    """In small batches over two partitions."""
    with usage.cluster.client(tenant) as client, client.producer(linger_ms=2, compression="none") as producer:
        for number in range(messages):
            producer.send("orders", b"%032d" % number, partition=number % 2)
            if number % 100 == 0:
                producer.flush()
        producer.flush()


def billed(usage: Metered, name: str) -> Billed:
    """Two topics; the first has sealed segments."""
    cluster = usage.cluster
    tenant = cluster.tenant(name)
    billing = Billing(usage, tenant)
    orders = cluster.create_topic(tenant, "orders", partitions=2, segment_bytes=8192)
    bill = Billed(
        usage=usage,
        tenant=tenant,
        orders=orders,
        empty=cluster.create_topic(tenant, "empty"),
        billing=billing,
    )
    produce(usage, tenant)
    cluster.wait_until("seals are in the usage log", lambda: len(usage.seals(orders)) >= 2)
    bill.end_period()
    assert billing.documents["inv_1"]["lines"][0]["quantity"] == MESSAGES
    return bill


@pytest.fixture(scope="module")
def honest(usage: Metered) -> Billed:
    return billed(usage, "tn_honest")


def kinds(report: Report) -> set[Kind]:
    return {problem.kind for problem in report.problems}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel as a tenant has it: nothing of the server is within reach."""
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    return install(wheel, tmp_path_factory.mktemp("tenant") / "venv")


def command(
    installed: Installation, bill: Billed, cwd: Path, api_url: str, *arguments: str
) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PENSTOCK_BOOTSTRAP": ",".join(bill.usage.cluster.bootstrap),
        "PENSTOCK_API_KEY": bill.tenant.api_key,
        "PENSTOCK_API_URL": api_url,
    }
    return installed.run("penstock", "verify-invoice", *arguments, cwd=cwd, environment=environment)


def test_every_batch_that_an_invoice_counts_is_read_and_agrees(honest: Billed) -> None:
    report = honest.verify()
    assert report.problems == ()
    assert sum(finding.messages for finding in report.partitions) == MESSAGES
    assert all(finding.segments_sealed >= 2 for finding in report.partitions if finding.topic == "orders")
    assert report.due_total_micro == report.billed_total_micro > 0


def test_the_command_proves_it_from_the_wheel_and_says_so(
    honest: Billed, installed: Installation, tmp_path: Path
) -> None:
    with served(honest.billing) as api_url:
        told = command(installed, honest, tmp_path, api_url, "inv_1")
        assert told.returncode == 0, told.stderr
        assert "inv_1: proven" in told.stdout
        assert "orders" in told.stdout
        as_json = command(installed, honest, tmp_path, api_url, "inv_1", "--json")
    report = json.loads(as_json.stdout)
    assert (as_json.returncode, report["proven"], report["problems"]) == (0, True, [])
    assert report["lines"][0]["counted_quantity"] == MESSAGES


def test_the_command_fails_and_names_what_is_wrong(
    honest: Billed, installed: Installation, tmp_path: Path
) -> None:
    altered = honest.altered().billing
    altered.documents["inv_1"]["lines"][0]["quantity"] += 1
    with served(altered) as api_url:
        told = command(installed, honest, tmp_path, api_url, "inv_1")
        missing = command(installed, honest, tmp_path, api_url, "inv_9")
    assert told.returncode == 5
    assert (
        "line-differs: line messages_in: 1201 on the line, 1200 is the sum of what it counts" in told.stdout
    )
    assert "inv_1: WRONG" in told.stdout
    assert missing.returncode == 3
    assert "no such invoice" in missing.stderr


def test_an_altered_quantity_of_one_partition_is_named(honest: Billed) -> None:
    bill = honest.altered()
    parts = bill.billing.documents["inv_1"]["partitions"]
    next(part for part in parts if part["topic"] == "orders")["days"][0]["messages"] -= 1
    report = bill.verify()
    assert Kind.QUANTITY_DIFFERS in kinds(report)
    assert any(
        "599 messages on the invoice, 600 in the log" in problem.message for problem in report.problems
    )


def test_an_altered_price_is_named(honest: Billed) -> None:
    bill = honest.altered()
    prices = bill.billing.chain_items[0]["document"]["price_book"]
    prices["meters"][1]["tiers"][0]["unit_price"] = "0.900000000000"
    assert {Kind.DOCUMENT_ALTERED, Kind.PRICE_DIFFERS} <= kinds(bill.verify())


def test_a_second_period_continues_where_the_first_ended(usage: Metered) -> None:
    bill = billed(usage, "tn_periods")
    produce(usage, bill.tenant, 50)
    bill.end_period()
    report = bill.verify("inv_2")
    assert report.problems == ()
    assert sum(finding.messages for finding in report.partitions) == 50
    altered = bill.altered()
    altered.billing.documents["inv_2"]["partitions"][1]["start_offset"] -= 1
    assert Kind.OFFSETS_NOT_CONTIGUOUS in kinds(altered.verify("inv_2"))


def test_another_tenants_key_proves_nothing(honest: Billed) -> None:
    other = honest.usage.cluster.tenant("tn_curious")
    report = replace(honest, tenant=other).verify()
    assert not report.proven
    assert Kind.DOCUMENT_ALTERED in kinds(report)
    assert sum(finding.batches for finding in report.partitions) == 0


def test_a_leader_that_is_killed_while_it_proves_changes_nothing(honest: Billed) -> None:
    cluster = honest.usage.cluster
    killed = cluster.leader(honest.orders)
    cluster.kill(killed)
    try:
        assert honest.verify().problems == ()
    finally:
        cluster.start(killed)
    cluster.wait_until("all replicas are in sync again", lambda: cluster.whole(honest.orders))


def test_one_altered_byte_of_a_stored_batch_on_the_leaders_disk_is_named(usage: Metered) -> None:
    bill = billed(usage, "tn_byte")
    file = bill.file(".log")
    with file.open("r+b") as log:
        log.seek(80)
        (byte,) = log.read(1)
        log.seek(80)
        log.write(bytes([byte ^ 1]))  # in the first batch, behind its header
    report = bill.verify()
    assert Kind.BATCH_ALTERED in kinds(report)
    (problem, *_) = [problem for problem in report.problems if problem.kind is Kind.BATCH_ALTERED]
    assert (problem.where, problem.offset) == ("orders-0", 0)


def test_one_altered_stamp_with_a_good_checksum_in_a_sealed_segment_is_named(usage: Metered) -> None:
    bill = billed(usage, "tn_stamp")
    file = bill.file(".stamps")
    body = struct.Struct(">qiiiiqIqhHIi4x")
    with file.open("r+b") as stamps:
        stamps.seek(_SIDECAR_HEADER_BYTES)
        fields = list(body.unpack_from(stamps.read(STAMP_BYTES)))
        fields[6] += 1  # the principal: who sent it
        altered = body.pack(*fields)
        stamps.seek(_SIDECAR_HEADER_BYTES)
        seed = stamp_seed(TopicPartition(bill.orders, 0))
        stamps.write(altered + struct.pack(">I", crc32c.crc32c(altered, seed)))
    report = bill.verify()
    assert kinds(report) == {Kind.SEAL_MISMATCH}
    assert report.problems[0].where == "orders-0"
    assert "not those that were sealed" in report.problems[0].message


def test_what_retention_deleted_is_told_by_the_seals_that_brokers_keep(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_deleted")
    billing = Billing(usage, tenant)
    orders = usage.cluster.create_topic(tenant, "orders", segment_bytes=8192, retention_bytes=20_000)
    with usage.cluster.client(tenant) as client, client.producer(linger_ms=2, compression="none") as producer:
        for number in range(MESSAGES):
            producer.send("orders", b"%032d" % number)
            if number % 50 == 0:
                producer.flush()
        producer.flush()
        billing.end_period({orders: "orders"})

    def deleted() -> bool:
        with usage.cluster.client(tenant) as client, client.consumer(["orders"]) as consumer:
            return consumer.beginning_offsets()["orders", 0] > 0

    usage.cluster.wait_until("retention deleted segments", deleted)
    report = Billed(usage=usage, tenant=tenant, orders=orders, empty=orders, billing=billing).verify()
    assert report.problems == ()
    (finding,) = report.partitions
    assert finding.by_seals is not None
    assert finding.by_seals[0] == 0
    assert finding.messages == MESSAGES


def test_records_deleted_on_a_tenants_word_leave_the_bill_proven(usage: Metered) -> None:
    bill = billed(usage, "tn_word")
    with usage.cluster.client(bill.tenant) as client:
        client.delete_records({("orders", 0): 599, ("orders", 1): 7})
    report = bill.verify()
    assert report.problems == ()
    assert sum(finding.messages for finding in report.partitions) == MESSAGES


def test_a_deleted_topic_is_billed_once_and_proven_by_what_brokers_keep(
    usage: Metered, installed: Installation, tmp_path: Path
) -> None:
    bill = billed(usage, "tn_gone")
    cluster = usage.cluster
    produce(usage, bill.tenant, 30)
    cluster.admin.delete_topic("tn_gone", "orders")

    def closed() -> bool:
        try:
            bill.end_period()
        except AssertionError:
            return False  # the last reading is still to be made
        return True

    cluster.wait_until("the cut has counted the deleted topic", closed)
    bill.end_period()
    for invoice, messages in (("inv_1", MESSAGES), ("inv_2", 30), ("inv_3", 0)):
        report = bill.verify(invoice)
        assert report.problems == ()
        assert sum(finding.messages for finding in report.partitions) == messages
    assert [part["topic"] for part in bill.billing.documents["inv_3"]["partitions"]] == ["empty"]
    forged = bill.altered()
    part = next(p for p in forged.billing.documents["inv_2"]["partitions"] if p["topic"] == "orders")
    part["days"][0]["messages"] += 1
    assert Kind.QUANTITY_DIFFERS in kinds(forged.verify("inv_2"))
    with served(bill.billing) as api_url:
        told = command(installed, bill, tmp_path, api_url, "inv_2")
    assert told.returncode == 0, told.stderr
    assert "the brokers' readings at the period's end stand in" in told.stdout


def test_what_was_noted_on_this_machine_is_compared(
    honest: Billed, installed: Installation, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.json"
    with served(honest.billing) as api_url:
        assert command(installed, honest, tmp_path, api_url, "inv_1", "--notes", str(notes)).returncode == 0
        noted = json.loads(notes.read_text(encoding="utf-8"))["tn_honest"]
        assert noted["invoices"] == {"1": sha256_of(honest.billing.documents["inv_1"])}
        other = noted | {"billing": {"sequence": 2, "hash": "0" * 64}}
        notes.write_text(json.dumps({"tn_honest": other}), encoding="utf-8")
        told = command(installed, honest, tmp_path, api_url, "inv_1", "--notes", str(notes))
    assert told.returncode == 5
    assert "history-altered: billing chain: this machine noted another entry 2" in told.stdout
    assert json.loads(notes.read_text(encoding="utf-8"))["tn_honest"] == other
