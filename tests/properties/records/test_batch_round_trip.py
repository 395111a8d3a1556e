"""Whatever messages go into a batch come out of it, through any codec and either parser."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.records.batch import Compression, check_batch, placed, split_batches
from penstock.records.build import BatchBuilder
from penstock.records.parse import Columns, Record, parse_block, records_of

from .batches import CONTENTS, HEADERS, MESSAGES, TIMES

Message = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def built(messages: list[Message], codec: Compression) -> bytes:
    builder = BatchBuilder(codec)
    for message in messages:
        assert builder.append(*message)
    return builder.build()


@given(MESSAGES, st.sampled_from(Compression), st.integers(0, 2**60))
def test_what_is_built_is_read_back_at_its_place(
    messages: list[Message], codec: Compression, base_offset: int
) -> None:
    batch = b"".join(placed(built(messages, codec), base_offset, 3))
    header = check_batch(batch)
    assert header.max_timestamp == max(message[0] for message in messages)
    wanted = [Record(base_offset + index, *message) for index, message in enumerate(messages)]
    assert records_of(batch) == wanted


@given(MESSAGES)
def test_our_own_parser_reads_what_the_encoder_wrote(messages: list[Message]) -> None:
    batch = built(messages, Compression.NONE)
    header = check_batch(batch)
    columns = Columns(header, range(len(messages)), parse_block(header, batch[61:]), len(batch) - 61)
    assert [record[1:] for record in columns.records()] == messages


@given(st.lists(MESSAGES, max_size=4))
def test_batches_in_a_row_come_apart_as_they_were_joined(rows: list[list[Message]]) -> None:
    batches = [built(messages, Compression.NONE) for messages in rows]
    assert [bytes(view) for view in split_batches(b"".join(batches))] == batches


@given(TIMES, CONTENTS, CONTENTS, HEADERS, st.integers(61, 900))
def test_no_batch_but_of_one_message_is_larger_than_its_limit(
    time: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], bytes_max: int
) -> None:
    builder = BatchBuilder(bytes_max=bytes_max)
    while builder.append(time, key, value, headers):
        pass
    batch = builder.build()
    assert builder.count == check_batch(batch).record_count
    assert len(batch) <= bytes_max or builder.count == 1
