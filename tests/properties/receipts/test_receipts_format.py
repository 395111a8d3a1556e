"""What goes into a receipts file comes out of it, and bytes of any kind are read or refused."""

import struct
from collections import Counter

import crc32c
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.errors import ConfigurationError
from penstock.receipts.format import pack_header, pack_records, unpack
from penstock.receipts.spans import SpanKey, Spans

IDS = [bytes([number]) * 16 for number in range(3)]
NAMES = {topic_id: f"topic-{number}" for number, topic_id in enumerate(IDS)}
KEYS = st.builds(
    SpanKey,
    st.sampled_from(IDS),
    st.integers(0, 2),
    st.integers(20_000, 20_001),
    st.sampled_from([-1, 0, 7]),
    st.sampled_from([-1, 1]),
)
BATCHES = st.tuples(KEYS, st.integers(0, 60), st.integers(1, 9), st.integers(61, 2**40))


def sums(spans: Spans) -> Counter[tuple[SpanKey, str]]:
    found: Counter[tuple[SpanKey, str]] = Counter()
    for key, of_key in spans:
        for span in of_key:
            found[key, "messages"] += span.end - span.first
            found[key, "bytes"] += span.size
    return found


@given(appends=st.lists(st.lists(BATCHES, max_size=12), max_size=6))
def test_no_message_and_no_byte_is_lost_or_added_on_the_way(
    appends: list[list[tuple[SpanKey, int, int, int]]],
) -> None:
    numbers: dict[bytes, int] = {}
    data, crc = pack_header(b"0123456789abcdef")
    everything, true = Spans(), Counter[tuple[SpanKey, str]]()
    for batches in appends:
        spans = Spans()
        for key, first, messages, size in batches:
            spans.add(key, first, first + messages, size)
            true[key, "messages"] += messages
            true[key, "bytes"] += size
        new = []
        for key, _ in spans:
            if key.topic_id not in numbers:
                numbers[key.topic_id] = len(numbers)
                new.append((numbers[key.topic_id], key.topic_id, NAMES[key.topic_id]))
        records, crc = pack_records(spans, numbers, new, crc)
        data += records
        everything.merge(spans)
    content = unpack(data, "receipts")
    assert (content.end, content.crc) == (len(data), crc)
    assert sums(content.spans) == sums(everything) == true
    assert content.topics == {topic_id: NAMES[topic_id] for topic_id in numbers}
    assert content.spans.count == sum(len(of_key) for _, of_key in content.spans)


@given(bodies=st.lists(st.binary(max_size=60)), rest=st.binary(max_size=20))
def test_records_of_anything_under_good_checksums_are_read_or_refused(
    bodies: list[bytes], rest: bytes
) -> None:
    data, crc = pack_header(b"0123456789abcdef")
    topic = b"\x01\x00" + IDS[0] + b"orders"
    for body in [topic, *bodies]:
        framed = struct.pack(">H", len(body)) + body
        crc = crc32c.crc32c(framed, crc)
        data += framed + struct.pack(">I", crc)
    try:
        assert unpack(data + rest, "receipts").end <= len(data + rest)
    except ConfigurationError as error:
        assert "the record at byte" in error.message


@given(data=st.binary(min_size=1, max_size=100))
def test_bytes_of_anything_are_refused(data: bytes) -> None:
    try:
        unpack(data, "receipts")
    except ConfigurationError:
        return
    raise AssertionError(data)
