"""A period ends at the same offsets however often it is ended, and every leader says where."""

import time
from collections.abc import Iterable, Iterator

import pytest

from chaos.replica_files import stored_batches
from control_plane.prober import READ_AGAIN_S, Probe
from data_plane.contract import admin_pb2, usage_pb2
from penstock import Client, InvalidRequest, NotFound
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.cut import CutEnd, cut_sha256
from penstock.records.stamp import stamp_seed, unpack_stamp
from penstock.rules.service_levels import FETCH, PRODUCE
from penstock.verification.commitments import ChainPoint, Commitments
from penstock.verification.stamped_reads import StampedReads
from tests.integration.brokers import Tenant
from tests.integration.metering.usage import Metered, metered, totals_of
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def usage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    with metered(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def produce(client: Client, count: int, partitions: int) -> None:
    with client.producer(linger_ms=1) as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number, partition=number % partitions)
        producer.flush()


def vector(readings: Iterable[admin_pb2.CutReading]) -> dict[tuple[bytes, int], int]:
    found = list(readings)
    assert [reading for reading in found if reading.error] == []
    return {(reading.topic_id, reading.partition): reading.end_offset for reading in found}


def answered(
    usage: Metered, cut_id: str, tenant: str, end_ms: int, *, previous_end_ms: int = 0
) -> list[admin_pb2.CutReading]:
    """A cut that is asked for until every leader, maybe a new one, has answered."""
    found: list[admin_pb2.CutReading] = []

    def told() -> bool:
        found[:] = usage.cluster.admin.cut(cut_id, tenant, end_ms, previous_end_ms=previous_end_ms).readings
        return not any(reading.error for reading in found)

    usage.cluster.wait_until(f"{cut_id} is answered", told)
    return found


def cut_readings(usage: Metered, cut_id: str) -> list[usage_pb2.Reading]:
    return [
        reading
        for record in usage.records()
        for reading in record.readings
        if reading.kind == usage_pb2.ReadingKind.CUT and reading.cut_id == cut_id
    ]


def test_a_cut_counts_what_was_accepted_before_its_end_and_repeats_itself(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_cut")
    topic_id = usage.cluster.create_topic(tenant, "orders", partitions=3)
    usage.cluster.create_topic(tenant, "empty")
    with usage.cluster.client(tenant) as client:
        produce(client, 900, 3)
        time.sleep(0.005)
        end_ms = now_ms()
        time.sleep(0.005)
        produce(client, 300, 3)
        first = vector(answered(usage, "cut_one", "tn_cut", end_ms))
        produce(client, 300, 3)
        again = vector(answered(usage, "cut_one", "tn_cut", end_ms))
    assert first == again
    assert {first[topic_id, partition] for partition in range(3)} == {300}
    assert sorted(first.values()) == [0, 300, 300, 300]
    found = cut_readings(usage, "cut_one")
    assert {(reading.topic_id, reading.partition): reading.end_offset for reading in found} == first
    for reading in found:
        assert reading.cut_end_ms == end_ms
        assert reading.accepted_ms < end_ms
        if reading.topic_id == topic_id:
            leader = usage.cluster.leader(topic_id, reading.partition)
            counted = usage.counted(leader, topic_id, reading.end_offset, reading.partition)
            totals = totals_of(reading)
            assert (totals.committed_messages, totals.committed_bytes) == counted


def test_a_cut_stays_where_it_is_when_a_leader_is_killed_after_it(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_moved")
    topic_id = usage.cluster.create_topic(tenant, "orders")
    with usage.cluster.client(tenant) as client:
        produce(client, 100, 1)
        time.sleep(0.005)
        end_ms = now_ms()
        before = vector(answered(usage, "cut_moved", "tn_moved", end_ms))
        killed = usage.cluster.leader(topic_id)
        usage.cluster.kill(killed)
        produce(client, 100, 1)
        after = vector(answered(usage, "cut_moved", "tn_moved", end_ms))
    usage.cluster.start(killed)
    assert before == after == {(topic_id, 0): 100}


def test_a_cut_tells_the_last_reading_of_a_topic_that_was_deleted(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_deleted")
    topic_id = usage.cluster.create_topic(tenant, "orders")
    with usage.cluster.client(tenant) as client:
        produce(client, 25, 1)
    usage.cluster.admin.delete_topic("tn_deleted", "orders")
    assert vector(answered(usage, "cut_deleted", "tn_deleted", now_ms())) == {(topic_id, 0): 25}


def test_a_topic_in_the_recycle_bin_is_in_every_cut_and_ends_with_its_last_reading(usage: Metered) -> None:
    tenant, admin = usage.cluster.tenant("tn_binned"), usage.cluster.admin
    topic_id = usage.cluster.create_topic(tenant, "orders")
    with usage.cluster.client(tenant) as client:
        produce(client, 25, 1)
    admin.wait_until_seen(admin.bin_topic("tn_binned", topic_id))
    other_id = usage.cluster.create_topic(tenant, "orders")
    with usage.cluster.client(tenant) as client:
        produce(client, 5, 1)
    first, second = now_ms(), now_ms() + 1
    both = {(topic_id, 0): 25, (other_id, 0): 5}
    assert vector(answered(usage, "cut_binned_1", "tn_binned", first)) == both
    admin.delete_topic("tn_binned", "orders", topic_id=topic_id)
    assert vector(answered(usage, "cut_binned_2", "tn_binned", second, previous_end_ms=first)) == both


def test_a_cut_under_traffic_parts_what_was_accepted_before_from_what_came_after(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_busy")
    topic_id = usage.cluster.create_topic(tenant, "orders")
    with usage.cluster.client(tenant) as client, client.producer(linger_ms=0) as producer:
        sent = [producer.send("orders", b"%d" % number) for number in range(1_000)]
        first = vector(answered(usage, "cut_busy", "tn_busy", end_ms := now_ms()))
        sent += [producer.send("orders", b"%d" % number) for number in range(1_000)]
        producer.flush()
    assert vector(answered(usage, "cut_busy", "tn_busy", end_ms)) == first
    assert sorted(delivery.result(PATIENCE_S).offset for delivery in sent) == list(range(2_000))
    where = TopicPartition(topic_id, 0)
    directory = usage.cluster.directory.log_directory(usage.cluster.leader(topic_id))
    for stored in stored_batches(directory, where, 2_000):
        stamp = unpack_stamp(stored.stamp, stamp_seed(where))
        assert (stamp.end_offset <= first[topic_id, 0]) == (stamp.accepted_ms < end_ms)


def test_a_period_that_has_not_ended_and_an_unknown_tenant_are_refused(usage: Metered) -> None:
    usage.cluster.tenant("tn_early")
    with pytest.raises(InvalidRequest, match="not in the past"):
        usage.cluster.admin.cut("cut_early", "tn_early", now_ms() + 60_000)
    with pytest.raises(InvalidRequest, match="cut_id"):
        usage.cluster.admin.cut("", "tn_early", now_ms())
    with pytest.raises(NotFound):
        usage.cluster.admin.cut("cut_nobody", "tn_nobody", now_ms())


def test_a_partition_without_a_leader_is_told_as_an_error_of_its_own(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_alone")
    alone = usage.cluster.create_topic(
        tenant, "alone", assignments=[[1]], replication=1, min_insync_replicas=1
    )
    usage.cluster.create_topic(tenant, "orders")
    probed: list[tuple[str, bool]] = []

    def probe(within_s: float) -> None:
        with usage.cluster.client(tenant) as client:
            Probe(
                client,
                "alone",
                lambda *found: probed.append(found),
                within_s=within_s,
                report=lambda *_: None,
            ).round()

    probe(PATIENCE_S)
    assert probed == [(PRODUCE, True), (FETCH, True)]
    forgets_what_is_gone(usage, tenant)
    usage.cluster.kill(1)
    usage.cluster.wait_until("the partition has no leader", lambda: usage.cluster.leader(alone) < 0)
    began_s = time.monotonic()
    probe(1.0)
    assert probed[2:] == [(PRODUCE, False)]
    end_ms = now_ms()
    readings: list[admin_pb2.CutReading] = []

    def told() -> bool:
        readings[:] = usage.cluster.admin.cut("cut_alone", "tn_alone", end_ms).readings
        return sum(bool(reading.error) for reading in readings) == 1

    # The other topic may have a new leader first.
    usage.cluster.wait_until("all others have answered", told)
    usage.cluster.wait_until("time without a leader is counted", lambda: len(failed_seconds(usage)) >= 5)
    usage.cluster.start(1)
    failed = [reading for reading in readings if reading.error]
    assert [(reading.topic_id, reading.error) for reading in failed] == [(alone, ErrorCode.NO_LEADER)]
    assert len(readings) == 2
    usage.cluster.wait_until("the partition has a leader again", lambda: usage.cluster.whole(alone))
    with pytest.raises(InvalidRequest, match="cut cut_alone is under way"):
        usage.cluster.admin.cut("cut_other", "tn_alone", end_ms)
    lasted_s = time.monotonic() - began_s
    assert len(answered(usage, "cut_alone", "tn_alone", end_ms)) == 2
    # The controller counts full seconds, from when it saw the partition without a leader.
    assert lasted_s - 5 <= len(failed_seconds(usage)) <= lasted_s + 2


def forgets_what_is_gone(usage: Metered, tenant: Tenant) -> None:
    """A probe asks once for what was lost, and not for what is old."""
    found: list[tuple[str, bool]] = []
    with usage.cluster.client(tenant) as client:
        probe = Probe(
            client, "alone", lambda *one: found.append(one), within_s=PATIENCE_S, report=lambda *_: None
        )
        probe.round()
        probe._within_s = 1.0
        del found[:]

        def forgotten() -> bool:
            probe._read_last()
            return not probe._last

        probe._last[0] = (10**6, time.monotonic())
        usage.cluster.wait_until("the probe forgets what is lost", forgotten)
        assert found and set(found) == {(FETCH, False)}
        failed = len(found)
        probe._last[0] = (0, time.monotonic() - READ_AGAIN_S)
        assert forgotten() and len(found) == failed


def failed_seconds(usage: Metered) -> set[int]:
    """Seconds in which produce requests of tn_alone failed, since 1970."""
    return {
        row.minute * 60 + second
        for record in usage.records()
        for row in record.requests
        if (row.tenant, row.operation) == ("tn_alone", PRODUCE)
        for second in range(60)
        if row.failed_seconds >> second & 1
    }


def kept(usage: Metered, tenant: Tenant) -> Commitments:
    settings = ConnectionSettings(bootstrap=tuple(usage.cluster.bootstrap), api_key=tenant.api_key)
    with StampedReads(settings, patience_s=PATIENCE_S) as reads:
        return reads.commitments()


def test_a_kept_cut_is_told_to_its_tenant_alone_and_stays_whatever_is_asked_later(usage: Metered) -> None:
    admin = usage.cluster.admin
    tenant, other = usage.cluster.tenant("tn_kept"), usage.cluster.tenant("tn_kept-2")
    usage.cluster.create_topic(tenant, "orders")
    with usage.cluster.client(tenant) as client:
        produce(client, 10, 1)
    time.sleep(0.005)
    end_ms = now_ms()
    readings = admin.cut("cut_1", "tn_kept", end_ms, billing=(4, "a" * 64)).readings
    ends = [
        CutEnd(
            where=TopicPartition(TopicId(one.topic_id), one.partition),
            log_generation=one.log_generation,
            end_offset=one.end_offset,
            accepted_ms=one.accepted_ms,
            messages=one.messages,
            bytes=one.stored_bytes,
        )
        for one in readings
    ]
    (cut,) = kept(usage, tenant).cuts
    assert (cut.cut_id, cut.start_ms, cut.end_ms) == ("cut_1", 0, end_ms)
    assert cut.sha256 == cut_sha256("tn_kept", "cut_1", end_ms, ends)
    assert cut.billing == ChainPoint(sequence=4, hash="a" * 64)
    assert kept(usage, other) == Commitments(tenant="tn_kept-2", cuts=())
    admin.cut("cut_1", "tn_kept", end_ms, billing=(9, "b" * 64))
    later_ms = now_ms()
    for cut_id, wrong_end_ms, previous_end_ms in (
        ("cut_1", later_ms, 0),
        ("cut_x", end_ms, 0),
        ("cut_2", later_ms, 0),
        ("cut_2", later_ms, end_ms - 1),
        ("cut_2", later_ms, later_ms),
    ):
        with pytest.raises(InvalidRequest):
            admin.cut(cut_id, "tn_kept", wrong_end_ms, previous_end_ms=previous_end_ms)
    with pytest.raises(InvalidRequest, match="billing_hash"):
        admin.cut("cut_2", "tn_kept", later_ms, previous_end_ms=end_ms, billing=(5, "no hash"))
    assert kept(usage, tenant).cuts == (cut,)
    usage.cluster.create_topic(tenant, "later")
    assert vector(admin.cut("cut_1", "tn_kept", end_ms).readings) == vector(readings)
    admin.delete_topic("tn_kept", "orders")
    assert vector(admin.cut("cut_1", "tn_kept", end_ms).readings) == vector(readings)
    answered(usage, "cut_2", "tn_kept", later_ms, previous_end_ms=end_ms)
    assert [one.cut_id for one in kept(usage, tenant).cuts] == ["cut_1", "cut_2"]
    assert vector(admin.cut("cut_1", "tn_kept", end_ms).readings) == vector(readings)


def test_a_deleted_topic_is_in_one_cut_over_restarts_and_repetitions(usage: Metered) -> None:
    admin, cluster = usage.cluster.admin, usage.cluster
    tenant = cluster.tenant("tn_once")
    gone = cluster.create_topic(tenant, "orders", partitions=2)
    with cluster.client(tenant) as client:
        produce(client, 30, 2)
    admin.delete_topic("tn_once", "orders")
    places = [
        cluster.partition_directory(broker, TopicPartition(gone, number))
        for broker in (1, 2, 3)
        for number in (0, 1)
    ]
    # A replica goes only when its last reading is kept.
    cluster.wait_until("all replicas are gone", lambda: not any(place.exists() for place in places))
    cluster.kill(1, 2, 3)
    cluster.start(1, 2, 3)
    first_ms = now_ms()
    first = answered(usage, "cut_once_1", "tn_once", first_ms)
    assert [(reading.topic_id, reading.end_offset, reading.last) for reading in first] == [
        (gone, 15, True),
        (gone, 15, True),
    ]
    assert list(admin.cut("cut_once_1", "tn_once", first_ms).readings) == first
    second_ms = now_ms()
    assert admin.cut("cut_once_2", "tn_once", second_ms, previous_end_ms=first_ms).readings == []
    assert list(admin.cut("cut_once_1", "tn_once", first_ms).readings) == first
    found = cut_readings(usage, "cut_once_1")
    assert {(reading.partition, reading.end_offset, reading.last) for reading in found} == {
        (0, 15, True),
        (1, 15, True),
    }
    assert cut_readings(usage, "cut_once_2") == []


def test_seals_and_batches_of_another_tenant_do_not_exist(usage: Metered) -> None:
    owner, stranger = usage.cluster.tenant("tn_owner"), usage.cluster.tenant("tn_stranger")
    topic_id = usage.cluster.create_topic(owner, "orders", segment_bytes=8192)
    with usage.cluster.client(owner) as client, client.producer(linger_ms=1, compression="none") as producer:
        for number in range(900):
            producer.send("orders", b"%032d" % number)
            if number % 50 == 0:
                producer.flush()
        producer.flush()
    usage.cluster.wait_until("a segment is sealed", lambda: len(usage.seals(topic_id)) >= 2)
    where = TopicPartition(topic_id, 0)

    def reads(tenant: Tenant) -> StampedReads:
        settings = ConnectionSettings(bootstrap=tuple(usage.cluster.bootstrap), api_key=tenant.api_key)
        return StampedReads(settings, patience_s=PATIENCE_S)

    empty = usage.cluster.create_topic(owner, "empty")
    with reads(owner) as own:
        # Each may know of one more for a moment.
        usage.cluster.wait_until("both tell the same", lambda: own.seals(where) == usage.seals(topic_id))
        assert own.seals(TopicPartition(empty, 0)) == []
    with reads(stranger) as foreign, pytest.raises(NotFound):
        foreign.seals(where)


def test_topics_deleted_as_soon_as_they_are_made_hold_up_no_cut(usage: Metered) -> None:
    admin, cluster = usage.cluster.admin, usage.cluster
    tenant = cluster.tenant("tn_brief")
    for number in range(15):
        cluster.create_topic(tenant, f"brief-{number}", partitions=3)
        admin.delete_topic("tn_brief", f"brief-{number}")
    found = answered(usage, "cut_brief", "tn_brief", now_ms())
    assert len(found) == 45
    assert {(reading.end_offset, reading.last) for reading in found} == {(0, True)}


def test_a_last_reading_that_forgot_what_a_cut_has_counted_adds_nothing(usage: Metered) -> None:
    admin, cluster = usage.cluster.admin, usage.cluster
    tenant = cluster.tenant("tn_forgot")
    cluster.create_topic(tenant, "orders")
    with cluster.client(tenant) as client:
        produce(client, 10, 1)
        produce(client, 400, 1)
    time.sleep(0.005)
    first_ms = now_ms()
    assert list(vector(answered(usage, "cut_f1", "tn_forgot", first_ms)).values()) == [410]
    admin.delete_topic("tn_forgot", "orders")
    cluster.kill(1, 2, 3)
    cluster.start(1, 2, 3)
    found = answered(usage, "cut_f2", "tn_forgot", now_ms(), previous_end_ms=first_ms)
    assert [(reading.end_offset, reading.messages, reading.last) for reading in found] == [(410, 410, True)]
