"""The builder: what it takes, where it stops, and the same bytes from both encoders."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from penstock.build import CORES
from penstock.contract import limits
from penstock.contract.errors import CorruptBatch, InvalidRequest
from penstock.contract.invariant import InvariantBroken
from penstock.records import build
from penstock.records.batch import BATCH_HEADER_BYTES, Compression, check_batch
from penstock.records.build import BatchBuilder, with_producer
from penstock.records.codec import chosen_extension, codec_name, extension_codec
from penstock.records.parse import Record, records_of
from penstock.records.record_block import RecordEncoder, decode_records

NOW_MS = 1_700_000_000_000


def test_the_compiled_codec_is_what_runs_here() -> None:
    assert codec_name() == "compiled"
    assert (chosen_extension() is None) == (CORES == "compiled")


@pytest.mark.parametrize("codec", list(Compression))
def test_other_peoples_parser_reads_what_was_built(codec: Compression) -> None:
    builder = BatchBuilder(codec)
    wanted = []
    for index in range(200):
        key = None if index % 3 else b"key %d" % index
        value = None if index % 7 == 0 else b"value %d " % index * 5
        headers = [("name", b"content"), ("näme", None), ("name", b"")] if index % 5 == 0 else []
        assert builder.append(NOW_MS + index, key, value, headers)
        wanted.append((index, NOW_MS + index, key, value, headers))
    batch = builder.build(5, 4_000_000_000, 3)
    theirs = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    assert theirs.compression_type == codec
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (4_000_000_000, 3, 5)
    read = [(record.offset, record.timestamp, record.key, record.value, record.headers) for record in theirs]
    assert read == wanted
    assert read == records_of(batch)


def test_a_size_is_told_for_each_message_and_for_the_batch() -> None:
    builder = BatchBuilder()
    assert builder.size == BATCH_HEADER_BYTES
    sizes = [builder.append(NOW_MS, b"k", b"v" * length) for length in (0, 10, 100)]
    assert sizes == [8, 18, 110]
    assert builder.size == BATCH_HEADER_BYTES + sum(sizes) == len(builder.build())


def test_a_message_without_room_is_refused_and_the_batch_is_at_most_its_limit() -> None:
    record = 110
    builder = BatchBuilder(bytes_max=BATCH_HEADER_BYTES + 2 * record)
    assert builder.append(NOW_MS, b"k", b"v" * 100) == record
    assert builder.append(NOW_MS, b"k", b"v" * 101) == 0
    builder = BatchBuilder(bytes_max=BATCH_HEADER_BYTES + 2 * record)
    assert [builder.append(NOW_MS, b"k", b"v" * 100) for _ in range(3)] == [record, record, 0]
    assert builder.count == 2
    assert len(builder.build()) == BATCH_HEADER_BYTES + 2 * record


def test_the_first_message_is_taken_whatever_its_size() -> None:
    builder = BatchBuilder(bytes_max=100)
    assert builder.append(NOW_MS, None, b"v" * 10_000)
    assert not builder.append(NOW_MS, None, b"")
    assert check_batch(builder.build()).record_count == 1


def test_many_values_are_taken_as_far_as_they_fit() -> None:
    values = [b"%05d" % index for index in range(5_000)]
    builder = BatchBuilder(bytes_max=20_000)
    first = builder.append_many(NOW_MS, values)
    assert 0 < first < 5_000
    assert builder.append_many(NOW_MS, values, start=first) == 0
    second = BatchBuilder(bytes_max=10**6)
    assert second.append_many(NOW_MS, values, start=first) == second.count == 5_000 - first
    read = records_of(builder.build()) + records_of(second.build())
    assert [record.value for record in read] == values


def test_many_values_may_have_keys_and_follow_single_messages() -> None:
    many, single = BatchBuilder(), BatchBuilder()
    assert many.append(NOW_MS - 1, b"a", b"b", [("h", b"x")])
    assert many.append_many(NOW_MS, [b"1", None, b"3"], [b"x", None, b"z"], 1) == 2
    assert many.append_many(NOW_MS, []) == 0
    for time, key, value, headers in (
        (NOW_MS - 1, b"a", b"b", [("h", b"x")]),
        (NOW_MS, None, None, []),
        (NOW_MS, b"z", b"3", []),
    ):
        assert single.append(time, key, value, headers)
    assert many.build() == single.build()


def test_a_wrong_type_is_a_type_error_and_leaves_the_builder_as_it_was() -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v")
    for key, value, headers in (
        ("text", b"v", None),
        (b"k", "text", None),
        (b"k", 5, None),
        (b"k", b"v", [("name", "text")]),
        (b"k", b"v", [(b"name", b"c")]),
        (b"k", b"v", ["name"]),
    ):
        with pytest.raises(TypeError):
            builder.append(NOW_MS, key, value, headers)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        builder.append_many(NOW_MS, [b"second", "text", b"never"])  # type: ignore[list-item]
    assert builder.count == 2
    builder.append(NOW_MS, b"k", b"third")
    assert [record.value for record in records_of(builder.build())] == [b"v", b"second", b"third"]


def test_a_time_before_1970_is_refused() -> None:
    builder = BatchBuilder()
    with pytest.raises(InvalidRequest, match="timestamp_ms: -1, 0 or later required"):
        builder.append(-1, None, b"v")
    with pytest.raises(InvalidRequest, match="timestamp_ms: -1"):
        builder.append_many(-1, [b"v"])
    assert builder.append(0, None, b"v")
    assert records_of(builder.build())[0].timestamp_ms == 0


def test_the_count_of_a_batch_is_bounded() -> None:
    builder = BatchBuilder(bytes_max=64 * limits.MIB)
    most = limits.RECORDS_PER_BATCH_MAX
    assert builder.append_many(NOW_MS, [None] * (most - 1)) == most - 1
    assert builder.append_many(NOW_MS, [None] * 2) == 1
    assert builder.append_many(NOW_MS, [None]) == 0
    assert builder.append(NOW_MS, None, None) == 0
    assert builder.count == most


def test_headers_count_like_messages_and_readers_take_what_was_built() -> None:
    most = limits.RECORDS_AND_HEADERS_PER_BATCH_MAX
    builder = BatchBuilder(bytes_max=64 * limits.MIB)
    half = [("", None)] * (most // 2)
    assert builder.append(NOW_MS, None, None, half)
    assert builder.append(NOW_MS, None, None, half) == 0
    assert builder.append(NOW_MS, None, None, half[3:])
    assert builder.append_many(NOW_MS, [None] * 3) == 1
    assert [len(record.headers) for record in records_of(builder.build())] == [most // 2, most // 2 - 3, 0]


def test_a_message_of_more_headers_than_a_batch_may_have_is_refused() -> None:
    most = limits.RECORDS_AND_HEADERS_PER_BATCH_MAX
    builder = BatchBuilder(bytes_max=64 * limits.MIB)
    with pytest.raises(InvalidRequest, match=f"headers: {most}, at most {most - 1} in a message allowed"):
        builder.append(NOW_MS, None, None, [("", None)] * most)
    assert builder.append(NOW_MS, None, b"v")
    assert len(records_of(builder.build())) == 1


def test_a_batch_is_built_once_and_not_empty() -> None:
    builder = BatchBuilder()
    with pytest.raises(InvariantBroken):
        builder.build()
    builder.append(NOW_MS, None, b"v")
    builder.build()
    with pytest.raises(InvariantBroken):
        builder.build()


@pytest.mark.parametrize("codec", list(Compression))
def test_what_does_not_get_smaller_is_sent_as_it_is(codec: Compression) -> None:
    builder = BatchBuilder(codec)
    builder.append(NOW_MS, None, b"short")
    header = check_batch(builder.build())
    assert header.compression is Compression.NONE


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_a_transactional_batch_says_so(codec: Compression) -> None:
    builder = BatchBuilder(codec, transactional=True)
    builder.append(NOW_MS, None, b"v" * 1_000)
    header = check_batch(builder.build(0, 9, 0))
    assert header.transactional
    assert header.compression is codec


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_a_batch_gets_the_ids_of_a_new_epoch_and_nothing_else_changes(codec: Compression) -> None:
    def filled() -> BatchBuilder:
        builder = BatchBuilder(codec)
        builder.append_many(NOW_MS, [b"v" * 50] * 20)
        return builder

    assert with_producer(filled().build(100, 7, 0), 0, 7, 1) == filled().build(0, 7, 1)
    with pytest.raises(CorruptBatch):
        with_producer(filled().build()[:-1], 0, 7, 1)


def test_our_own_encoder_makes_the_same_bytes_as_aiokafkas() -> None:
    extension = extension_codec()
    assert extension is not None
    for limit in (300, 100_000):
        own = RecordEncoder(limit - BATCH_HEADER_BYTES)
        theirs = extension.builder(2, 0, True, 1, 2, 3, limit + 1)
        for offset in range(100):
            key = None if offset % 3 else b"k" * offset
            value = None if offset % 4 == 1 else bytearray(b"v" * (offset * 40))
            headers = [("ü" * offset, b"x" * offset), ("", None)] if offset % 2 else []
            time = NOW_MS + 5_000 - 71 * offset
            size = own.append(time, key, value, headers)
            taken = theirs.append(offset, time, key, value, headers)
            assert size == (0 if taken is None else taken.size)
            assert own.size + BATCH_HEADER_BYTES == theirs.size()
            if not size:
                break
        assert own.block() == theirs.build()[BATCH_HEADER_BYTES:]


@pytest.mark.parametrize(
    "times",
    [
        (0, 2**63 - 1),
        (2**63 - 1, 0),
        (2**62, 2**62 - 1),
        *((NOW_MS, NOW_MS + step) for step in (63, 64, -64, -65)),
    ],
)
def test_the_farthest_times_are_written_and_read(times: tuple[int, int]) -> None:
    builder, own = BatchBuilder(), RecordEncoder(1_000)
    for time in times:
        assert builder.append(time, None, b"v") == own.append(time, None, b"v", None)
    batch = builder.build()
    assert batch[BATCH_HEADER_BYTES:] == own.block()
    header = check_batch(batch)
    assert (header.base_timestamp, header.max_timestamp) == (times[0], max(times))
    assert [record.timestamp_ms for record in records_of(batch)] == list(times)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 8_191, 8_192, 1_048_575, 1_048_576])
def test_lengths_at_which_a_number_takes_one_byte_more(length: int) -> None:
    content = bytes(length)
    headers = [("n" * min(length, 8_192), content), ("", None)]
    for key, value in ((content, None), (None, content), (content, content)):
        for batch_headers in ([], headers):
            row = (NOW_MS, key, value, batch_headers)
            builder, own = BatchBuilder(bytes_max=8 * limits.MIB), RecordEncoder(8 * limits.MIB)
            for _ in range(2):
                assert builder.append(*row) == own.append(*row)
            batch = builder.build()
            assert batch[BATCH_HEADER_BYTES:] == own.block()
            assert records_of(batch) == [
                Record(offset, NOW_MS, key, value, batch_headers) for offset in (0, 1)
            ]


def test_our_own_encoder_takes_what_is_bytes_like_and_nothing_else() -> None:
    own = RecordEncoder(1_000)
    assert own.append(NOW_MS, bytearray(b"k"), memoryview(b"value")[1:3], [("h", b"x")])
    for key, value, headers in (
        ("text", b"v", None),
        (b"k", 5, None),
        (b"k", b"v", [("name", "text")]),
        (b"k", b"v", [(b"name", b"c")]),
        (b"k", b"v", [("name", b"c", b"d")]),
        (b"k", b"v", ["name"]),
    ):
        with pytest.raises(TypeError):
            own.append(NOW_MS, key, value, headers)  # type: ignore[arg-type]
    assert own.append(NOW_MS, None, b"", [["listed", None]])  # type: ignore[list-item]
    columns = decode_records(own.block(), 2, NOW_MS)
    assert (columns.keys, columns.values) == ([b"k", None], [b"al", b""])
    assert columns.headers == [[("h", b"x")], [("listed", None)]]


def test_our_own_encoder_knows_the_first_and_the_latest_time() -> None:
    own = RecordEncoder(1_000)
    for time in (NOW_MS, NOW_MS - 5, NOW_MS + 9, NOW_MS + 7):
        own.append(time, None, b"v", None)
    assert (own.base_timestamp, own.max_timestamp) == (NOW_MS, NOW_MS + 9)
    only_older = RecordEncoder(1_000)
    for time in (NOW_MS, NOW_MS - 5):
        only_older.append(time, None, b"v", None)
    assert (only_older.base_timestamp, only_older.max_timestamp) == (NOW_MS, NOW_MS)


def test_our_own_encoder_fills_its_limit_to_the_byte() -> None:
    probe = RecordEncoder(1_000)
    first, second = (probe.append(NOW_MS, None, b"value", None) for _ in range(2))
    fits, lacks_one = RecordEncoder(first + second), RecordEncoder(first + second - 1)
    for own in (fits, lacks_one):
        assert own.append(NOW_MS, None, b"value", None) == first
    assert fits.append(NOW_MS, None, b"value", None) == second
    assert lacks_one.append(NOW_MS, None, b"value", None) == 0
    assert (fits.size, lacks_one.size) == (first + second, first)


def test_the_limit_of_a_batch_counts_its_header_with_our_own_encoder_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = []
    for choose in (extension_codec, lambda: None):
        monkeypatch.setattr(build, "chosen_extension", choose)
        builder = BatchBuilder(bytes_max=200)
        assert builder.append_many(NOW_MS, [b"0123456789"] * 50, start=3) < 47
        sizes.append((builder.count, builder.size))
        assert len(builder.build()) <= 200
    assert sizes[0] == sizes[1]


def test_many_values_begin_where_they_are_to_begin_with_our_own_encoder_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values, keys = [b"%d" % number for number in range(5)], [b"k%d" % number for number in range(5)]
    for choose in (extension_codec, lambda: None):
        monkeypatch.setattr(build, "chosen_extension", choose)
        builder = BatchBuilder()
        assert builder.append_many(NOW_MS, values, keys, start=2) == 3
        assert [(one.key, one.value) for one in records_of(builder.build())] == [
            (b"k2", b"2"), (b"k3", b"3"), (b"k4", b"4"),
        ]  # fmt: skip
