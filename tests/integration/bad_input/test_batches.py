"""Batches and messages that no log may take: too large, malformed, forged, or from the future."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from penstock import Client, MessageTooLarge, TimestampOutOfRange
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicId
from tests.integration.brokers import Brokers, Tenant
from tests.integration.raw_wire import ProduceWire, batch_of
from tests.unit.records.forging import forged, plain_block
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("unharmed")]

TOPIC = "checked"
BATCH_BYTES_MAX = 64 * limits.KIB
MESSAGE_BYTES_MAX = 16 * limits.KIB
TRANSACTIONAL, CONTROL, APPEND_TIME = 0x10, 0x20, 0x08
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The topic under test."""

    cluster: Brokers
    topic_id: TopicId

    @property
    def address(self) -> str:
        """Of its leader now: a broker that a busy machine held up has lost what it led."""
        return self.cluster.spec.broker(self.cluster.leader(self.topic_id)).client_address


@pytest.fixture(scope="module")
def checked(cluster: Brokers, tenant: Tenant) -> Checked:
    topic_id = cluster.create_topic(
        tenant, TOPIC, max_message_bytes=MESSAGE_BYTES_MAX, max_batch_bytes=BATCH_BYTES_MAX
    )
    return Checked(cluster=cluster, topic_id=topic_id)


@pytest.fixture
def client(cluster: Brokers, tenant: Tenant) -> Iterator[Client]:
    with cluster.client(tenant) as client:
        yield client


def end_of(client: Client, topic: str) -> int:
    with client.consumer([topic]) as consumer:
        return consumer.end_offsets()[topic, 0]


def now_ms() -> int:
    return int(time.time() * 1000)


def flipped(batch: bytes, at: int) -> bytes:
    return batch[:at] + bytes([batch[at] ^ 1]) + batch[at + 1 :]


def sound() -> bytes:
    return batch_of(b"one", b"two", b"three")


Case = tuple[Callable[[], bytes], ErrorCode, str]
CASES: dict[str, Case] = {
    "empty": (lambda: b"", ErrorCode.CORRUPT_BATCH, "0 bytes, 61 required for its header"),
    "header cut": (lambda: sound()[:60], ErrorCode.CORRUPT_BATCH, "60 bytes, 61 required for its header"),
    "last byte cut": (lambda: sound()[:-1], ErrorCode.CORRUPT_BATCH, "required by its length field"),
    "a byte too many": (lambda: sound() + b"\0", ErrorCode.CORRUPT_BATCH, "required by its length field"),
    "two in one": (lambda: sound() * 2, ErrorCode.CORRUPT_BATCH, "required by its length field"),
    "a bit of a record flipped": (lambda: flipped(sound(), -3 % len(sound())), ErrorCode.CORRUPT_BATCH, "CRC-32C"),
    "a bit of the checksum flipped": (lambda: flipped(sound(), 18), ErrorCode.CORRUPT_BATCH, "CRC-32C"),
    "a bit of the timestamp flipped": (lambda: flipped(sound(), 42), ErrorCode.CORRUPT_BATCH, "CRC-32C"),
    "old magic": (lambda: forged(plain_block(1), 1, magic=1), ErrorCode.CORRUPT_BATCH, "magic 1, 2 required"),
    "random": (lambda: bytes(range(256)) * 4, ErrorCode.CORRUPT_BATCH, "magic 16, 2 required"),
    "length below the header": (
        lambda: forged(plain_block(1), 1, batch_length=3), ErrorCode.CORRUPT_BATCH, "15 bytes by its length field"),
    "length negative": (
        lambda: forged(plain_block(1), 1, batch_length=-1), ErrorCode.CORRUPT_BATCH, "11 bytes by its length field"),
    "length of two GiB": (
        lambda: forged(plain_block(1), 1, batch_length=2**31 - 1), ErrorCode.CORRUPT_BATCH, "by its length field"),
    "no records": (
        lambda: forged(b"", 0, last_offset_delta=0), ErrorCode.CORRUPT_BATCH, "0 records over 1 offsets"),
    "more records than offsets": (
        lambda: forged(plain_block(3), 3, last_offset_delta=1), ErrorCode.CORRUPT_BATCH, "3 records over 2 offsets"),
    "fewer records than offsets": (
        lambda: forged(plain_block(3), 3, last_offset_delta=9), ErrorCode.CORRUPT_BATCH, "3 records over 10 offsets"),
    "negative count": (
        lambda: forged(plain_block(3), -1, last_offset_delta=2), ErrorCode.CORRUPT_BATCH, "-1 records over 3 offsets"),
    "offsets beyond all bounds": (
        lambda: forged(plain_block(3), 2**31 - 1), ErrorCode.CORRUPT_BATCH, "spans 2147483647 offsets"),
    "unknown codec": (
        lambda: forged(plain_block(1), 1, codec=5), ErrorCode.UNSUPPORTED_COMPRESSION, "codec 5"),
    "unknown attribute": (
        lambda: forged(plain_block(1), 1, attributes=0x40), ErrorCode.CORRUPT_BATCH, "attributes 0x0040"),
    "control": (
        lambda: forged(plain_block(1), 1, attributes=CONTROL), ErrorCode.CORRUPT_BATCH, "only brokers write control"),
    "transactional control": (
        lambda: forged(plain_block(1), 1, attributes=CONTROL | TRANSACTIONAL, producer_id=1, producer_epoch=0,
                       base_sequence=0), ErrorCode.CORRUPT_BATCH, "only brokers write control"),
    "transactional": (
        lambda: forged(plain_block(1), 1, attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0),
        ErrorCode.INVALID_REQUEST, "transactional and control batches are not taken from clients"),
    "transactional without a producer id": (
        lambda: forged(plain_block(1), 1, attributes=TRANSACTIONAL), ErrorCode.CORRUPT_BATCH, "without a producer id"),
    "the broker's timestamps": (
        lambda: forged(plain_block(1), 1, attributes=APPEND_TIME), ErrorCode.CORRUPT_BATCH, "marked as the broker's"),
    "half a producer": (
        lambda: forged(plain_block(1), 1, producer_id=7), ErrorCode.CORRUPT_BATCH, "producer id 7, epoch -1"),
    "timestamps in disorder": (
        lambda: forged(plain_block(1), 1, base_timestamp=9, max_timestamp=8), ErrorCode.CORRUPT_BATCH, "9 to 8"),
    "two hours ahead": (
        lambda: batch_of(b"x", timestamp_ms=now_ms() + 2 * HOUR_MS), ErrorCode.TIMESTAMP_OUT_OF_RANGE, "at most"),
    "at the end of time": (
        lambda: batch_of(b"x", timestamp_ms=2**62), ErrorCode.TIMESTAMP_OUT_OF_RANGE, "at most"),
    "over the topic's limit": (
        lambda: batch_of(bytes(BATCH_BYTES_MAX)), ErrorCode.MESSAGE_TOO_LARGE, f"at most {BATCH_BYTES_MAX} allowed"),
    "over every limit": (
        lambda: batch_of(bytes(limits.BATCH_BYTES_MAX_LIMIT)), ErrorCode.MESSAGE_TOO_LARGE, "allowed"),
    "a sequence that begins late": (
        lambda: forged(plain_block(1), 1, producer_id=2**40, producer_epoch=0, base_sequence=5),
        ErrorCode.UNKNOWN_PRODUCER, "checked-0"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_batch_that_must_not_be_is_refused_by_name_and_its_stream_goes_on(
    client: Client, checked: Checked, tenant: Tenant, case: str
) -> None:
    make, code, reason = CASES[case]
    bad = make()
    before = end_of(client, TOPIC)
    with ProduceWire(checked.address, tenant.api_key) as wire:
        first, refused, last = wire.put([(checked.topic_id, 0, batch) for batch in (sound(), bad, sound())])
        results = wire.results(3)
        again = wire.produce(checked.topic_id, 0, sound())
    result = results[refused]
    assert (ErrorCode(result.error), result.base_offset) == (code, -1)
    assert result.message.startswith("checked-0: ")
    assert reason in result.message
    offsets = [results[first].base_offset, results[last].base_offset, again.base_offset]
    assert offsets == [before, before + 3, before + 6]
    assert end_of(client, TOPIC) == before + 9


def test_a_batch_of_exactly_the_topics_limit_is_taken_and_one_byte_more_is_not(
    checked: Checked, tenant: Tenant
) -> None:
    beside = len(batch_of(bytes(BATCH_BYTES_MAX - limits.KIB))) - (BATCH_BYTES_MAX - limits.KIB)
    full, over = (batch_of(bytes(BATCH_BYTES_MAX - beside + more)) for more in (0, 1))
    assert (len(full), len(over)) == (BATCH_BYTES_MAX, BATCH_BYTES_MAX + 1)
    with ProduceWire(checked.address, tenant.api_key) as wire:
        results = [wire.produce(checked.topic_id, 0, batch) for batch in (full, over)]
    assert [ErrorCode(result.error) for result in results] == [ErrorCode.OK, ErrorCode.MESSAGE_TOO_LARGE]


def test_the_sdk_refuses_a_message_over_the_limit_before_it_is_buffered(
    client: Client, checked: Checked
) -> None:
    before = end_of(client, TOPIC)
    with client.producer(linger_ms=60_000, buffer_bytes=1 << 20) as producer:
        fits = producer.send(TOPIC, bytes(MESSAGE_BYTES_MAX))
        for value in (bytes(MESSAGE_BYTES_MAX + 1), bytes(10 << 20)):
            with pytest.raises(MessageTooLarge) as refused:
                producer.send(TOPIC, value)
            assert f"at most {MESSAGE_BYTES_MAX}" in refused.value.message
            assert refused.value.message.startswith(f"{TOPIC}")
            assert "max_message_bytes" in refused.value.remedy
        with pytest.raises(MessageTooLarge):
            producer.send(TOPIC, b"x", key=bytes(MESSAGE_BYTES_MAX))
        with pytest.raises(MessageTooLarge):
            producer.send(TOPIC, b"x", headers=[("h", bytes(MESSAGE_BYTES_MAX))])
        producer.flush(PATIENCE_S)
        assert fits.result(0).offset == before
    assert end_of(client, TOPIC) == before + 1


def test_the_sdk_tells_of_a_timestamp_too_far_ahead(client: Client, checked: Checked) -> None:
    before = end_of(client, TOPIC)
    with client.producer() as producer:
        refused = producer.send(TOPIC, b"x", timestamp_ms=now_ms() + 2 * HOUR_MS)
        with pytest.raises(TimestampOutOfRange) as told:
            refused.result(PATIENCE_S)
        assert told.value.message.startswith("checked-0: timestamp ")
        assert told.value.remedy == "Check the sender's clock."
        assert producer.send(TOPIC, b"y").result(PATIENCE_S).offset == before
