"""A receipts file keeps what was appended, through crashes at any point, and lets in one writer."""

import logging
import os
import resource
import stat
from datetime import date
from pathlib import Path

import pytest

from penstock.contract.errors import ConfigurationError
from penstock.contract.ids import TopicId, TopicPartition
from penstock.receipts import Receipts, read_receipts
from penstock.receipts import file as receipts_file
from penstock.receipts.file import ReceiptsFile
from penstock.receipts.format import HEADER_BYTES
from penstock.receipts.spans import Spans

from .files import DAY, NAMES, ORDERS, ORDERS_0, PAYMENTS, FailingDisk, Stopped, key, spans_of, write


def ranges(path: Path) -> list[tuple[int, int, int]]:
    found = read_receipts(path).ranges.get(ORDERS_0, ())
    return [(held.first_offset, held.end_offset, held.bytes) for held in found]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    other = TopicPartition(TopicId(PAYMENTS), 7)
    write(
        path,
        [(key(), 0, 3, 100), (key(PAYMENTS, 7, acks=1, epoch=-1), 2**40, 2**40 + 50_000, 2**35)],
        [(key(), 3, 5, 80), (key(day=DAY + 1), 5, 6, 70), (key(), 9, 10, 61)],
    )
    receipts = read_receipts(path)
    assert receipts.topics == {ORDERS: "orders", PAYMENTS: "payments"}
    assert (receipts.messages, receipts.bytes) == (50_007, 2**35 + 311)
    assert [(r.first_offset, r.end_offset, r.bytes, r.day) for r in receipts.ranges[ORDERS_0]] == [
        (0, 5, 180, date(2024, 10, 4)),
        (5, 6, 70, date(2024, 10, 5)),
        (9, 10, 61, date(2024, 10, 4)),
    ]
    (held,) = receipts.ranges[other]
    assert (held.messages, held.bytes, held.leader_epoch, held.acks) == (50_000, 2**35, -1, 1)
    assert held.source == str(path)
    assert receipts.sources[0].torn_bytes == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_cut_at_any_byte_is_read_up_to_its_last_whole_record_and_written_on(tmp_path: Path) -> None:
    path, cut = tmp_path / "receipts", tmp_path / "cut"
    appends = [[(key(), at * 10, at * 10 + 3, 100 + at)] for at in range(5)]
    ends = [HEADER_BYTES]
    for count in range(1, 6):
        path.unlink(missing_ok=True)
        write(path, *appends[:count])
        ends.append(path.stat().st_size)
    data = path.read_bytes()
    for size in range(HEADER_BYTES, len(data) + 1):
        cut.write_bytes(data[:size])
        whole = sum(1 for end in ends[1:] if end <= size)
        assert ranges(cut) == [(at * 10, at * 10 + 3, 100 + at) for at in range(whole)], size
        write(cut, [(key(), 1_000, 1_001, 61)])
        assert ranges(cut)[-1] == (1_000, 1_001, 61)
        assert len(ranges(cut)) == whole + 1
        assert read_receipts(cut).sources[0].torn_bytes == 0


def test_any_flipped_byte_ends_the_file_before_it_or_is_refused_but_never_believed(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    write(path, *[[(key(), at * 10, at * 10 + 3, 100 + at)] for at in range(4)])
    true, data = ranges(path), path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        if at < HEADER_BYTES:
            with pytest.raises(ConfigurationError, match="receipts: "):
                read_receipts(path)
        else:
            found = ranges(path)
            assert found == true[: len(found)] and len(found) < len(true), at


@pytest.mark.parametrize("content", [b"x", b"PSRECPT\n", b"a file of another program" * 9, bytes(64)])
def test_another_file_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="is no receipts file"):
        read_receipts(path)
    with pytest.raises(ConfigurationError, match="is no receipts file"):
        ReceiptsFile(path)
    assert path.read_bytes() == content


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    write(path)
    data = path.read_bytes()
    path.write_bytes(data[:8] + b"\x00\x02" + data[10:])
    with pytest.raises(ConfigurationError, match="has version 2, 1 is known"):
        read_receipts(path)


def test_what_is_no_file_or_in_no_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "receipts", Path("/dev/null")):
        with pytest.raises(ConfigurationError, match="receipts: "):
            ReceiptsFile(path)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_receipts(tmp_path / "missing")
    assert Path("/dev/null").is_char_device()


def test_an_empty_file_is_one_whose_maker_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    path.touch(mode=0o644)
    assert read_receipts(path).ranges == {}
    write(path, [(key(), 0, 1, 61)])
    assert ranges(path) == [(0, 1, 61)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_writer_is_refused_until_the_first_one_ends(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    first = ReceiptsFile(path)
    with pytest.raises(
        ConfigurationError, match="is being written by another producer; each needs a file of its own"
    ):
        ReceiptsFile(path)
    first._rewrite()  # the lock goes along to the new file
    with pytest.raises(ConfigurationError, match="another producer"):
        ReceiptsFile(path)
    first.close()
    ReceiptsFile(path).close()


def test_writing_a_file_touches_none_of_its_neighbours(tmp_path: Path) -> None:
    path, neighbour = tmp_path / "receipts", tmp_path / "receipts.new"
    other = ReceiptsFile(neighbour)
    other.append(spans_of((key(), 5, 9, 200)), NAMES)
    file = ReceiptsFile(path, disk := FailingDisk())
    file.append(spans_of((key(), 0, 3, 100)), NAMES)
    file._rewrite()
    disk.refuse = ("rename",)
    with pytest.raises(OSError, match="No space"):
        file._rewrite()
    file.close()
    other.append(spans_of((key(), 9, 10, 61)), NAMES)
    other.sync()
    other.close()
    assert sorted(os.listdir(tmp_path)) == ["receipts", "receipts.new"]
    assert (ranges(path), ranges(neighbour)) == ([(0, 3, 100)], [(5, 10, 261)])


def test_the_file_is_compacted_and_its_size_follows_gaps_and_not_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts_file, "COMPACT_BYTES", 500)
    path = tmp_path / "receipts"
    file = ReceiptsFile(path)
    for at in range(1_000):
        file.append(spans_of((key(), at, at + 1, 61), (key(PAYMENTS), 2 * at, 2 * at + 1, 61)), NAMES)
        file.sync()
        assert file.size < 2 * (HEADER_BYTES + 100 + 5 * at) + 600
    file.close()
    assert ranges(path) == [(0, 1_000, 61_000)]
    assert len(read_receipts(path).ranges[TopicPartition(TopicId(PAYMENTS), 0)]) == 1_000
    assert os.listdir(tmp_path) == ["receipts"]


def test_with_many_gaps_memory_is_bounded_and_the_file_goes_on_being_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts_file, "COMPACT_BYTES", 300)
    monkeypatch.setattr(receipts_file, "SPANS_MAX", 20)
    monkeypatch.setattr(receipts_file, "UNSEALED_BYTES_MAX", 1_500)
    path = tmp_path / "receipts"
    file = ReceiptsFile(path)
    for at in range(1_000):
        topic_id = bytes([at // 100]) * 16
        batches = spans_of(
            (key(), 2 * at, 2 * at + 1, 61),
            (key(partition=1), at, at + 1, 61),
            (key(topic_id), at, at + 1, 70),
        )
        file.append(batches, {**NAMES, topic_id: f"topic-{at // 100}"})
        file.sync()
        assert file._spans.count <= 20 + 3
        if at % 150 == 149:  # killed, and begun again
            file.close()
            file = ReceiptsFile(path)
    file.close()
    receipts = read_receipts(path)
    assert receipts.sources[0].torn_bytes == 0
    assert ranges(path) == [(2 * at, 2 * at + 1, 61) for at in range(1_000)]
    assert [(held.messages, held.bytes) for held in receipts.ranges[ORDERS_0._replace(partition=1)]] == [
        (1_000, 61_000)
    ]
    assert len(receipts.topics) == 11
    assert receipts.messages == 3_000


@pytest.mark.parametrize("spans_max", [4, 1_000])
def test_a_stop_at_any_step_of_writing_and_compacting_loses_nothing_synced_and_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spans_max: int
) -> None:
    monkeypatch.setattr(receipts_file, "COMPACT_BYTES", 100)
    monkeypatch.setattr(receipts_file, "SPANS_MAX", spans_max)
    seen = set()
    file: ReceiptsFile | None = None
    for stop_at in range(200):
        path = tmp_path / f"receipts-{stop_at}"
        disk = FailingDisk(stop_at=stop_at)
        appended = synced = 0
        try:
            file = ReceiptsFile(path, disk)
            for at in range(12):
                appended += 1
                file.append(spans_of((key(), at * 10, at * 10 + 3, 100 + at)), NAMES)
                file.sync()
                synced = appended
            break
        except Stopped:
            seen.add(disk.steps[-1])
            if file is not None:
                file.close()
        found: list[tuple[int, int, int]] = []
        for mangle in (False, True):
            if mangle and synced < appended and path.stat().st_size:  # what was not synced may be torn
                with path.open("r+b") as torn:
                    torn.seek(0, os.SEEK_END)
                    torn.write(b"\x00\xff" * 20)
            found = ranges(path)
            assert found == [(at * 10, at * 10 + 3, 100 + at) for at in range(len(found))], (stop_at, mangle)
            assert synced <= len(found) <= appended, (stop_at, mangle)
        write(path, [(key(), 1_000, 1_001, 61)])
        assert len(ranges(path)) == len(found) + 1
    else:
        pytest.fail("never came to its end")
    assert seen == {"write", "sync", "rename", "sync folder"}


def test_a_refused_write_leaves_nothing_and_the_next_one_goes_on(tmp_path: Path) -> None:
    path, disk = tmp_path / "receipts", FailingDisk()
    file = ReceiptsFile(path, disk)
    file.append(spans_of((key(), 0, 3, 100)), NAMES)
    disk.refuse = ("write",)
    refused = spans_of((key(), 5, 6, 61), (key(), 8, 9, 61), (key(PAYMENTS), 0, 2, 80))
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            file.append(refused, NAMES)
    disk.refuse = ()
    refused.merge(spans_of((key(), 3, 5, 70), (key(), 6, 8, 70)))
    file.append(refused, NAMES)
    file.sync()
    file.close()
    assert ranges(path) == [(0, 9, 362)]
    assert read_receipts(path).messages == 11


def test_after_a_failed_sync_the_file_is_rewritten(tmp_path: Path) -> None:
    path, disk = tmp_path / "receipts", FailingDisk()
    file = ReceiptsFile(path, disk)
    disk.refuse = ("sync",)
    file.append(spans_of((key(), 0, 3, 100)), NAMES)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            file.sync()
    file.append(spans_of((key(), 3, 4, 61)), NAMES)
    disk.refuse, disk.steps = (), []
    file.sync()
    file.close()
    assert disk.steps == ["write", "write", "sync", "rename", "sync folder", "sync"]
    assert ranges(path) == [(0, 4, 161)]
    assert os.listdir(tmp_path) == ["receipts"]


def test_no_room_to_compact_is_no_reason_not_to_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts_file, "COMPACT_BYTES", 10)
    path, disk = tmp_path / "receipts", FailingDisk()
    file = ReceiptsFile(path, disk)
    for at in range(10):
        file.append(spans_of((key(), at, at + 1, 61)), NAMES)
    disk.refuse = ("rename",)
    file.sync()
    file.close()
    assert disk.steps[-6:] == ["write", "write", "sync", "rename", "sync folder", "sync"]
    assert ranges(path) == [(0, 10, 610)]


def test_a_limit_of_the_real_disk_is_an_error_and_then_over(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    file = ReceiptsFile(path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HEADER_BYTES + 40, before[1]))
    many = spans_of(*[(key(), at * 10, at * 10 + 3, 100) for at in range(100)])
    try:
        with pytest.raises(OSError, match="too large"):
            file.append(many, NAMES)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ranges(path) == []
    file.append(many, NAMES)
    file.close()
    assert len(ranges(path)) == 100


def test_a_cut_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "receipts"
    write(path, [(key(), 0, 1, 61)])
    with path.open("ab") as file:
        file.write(b"torn")
    assert read_receipts(path).sources[0].torn_bytes == 4
    with caplog.at_level(logging.WARNING):
        write(path)
    assert "4 bytes at its end are no whole record and were removed" in caplog.text


def test_what_stands_behind_damage_is_kept_beside_the_file_and_never_overwritten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "receipts"
    ends = []
    for count in range(1, 6):
        path.unlink(missing_ok=True)
        write(path, *[[(key(), at * 10, at * 10 + 3, 100 + at)] for at in range(count)])
        ends.append(path.stat().st_size)
    data = path.read_bytes()
    kept: dict[str, bytes] = {}
    for at in range(ends[1], ends[3]):  # any byte of the third or fourth of five batches
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with caplog.at_level(logging.WARNING):
            write(path, [(key(), 1_000, 1_001, 61)])
        name = f"receipts.damaged.{len(kept) + 1}"
        kept[name] = path.parent.joinpath(name).read_bytes()
        begin = max(end for end in ends if end <= at)
        assert kept[name][at - begin + 1 :] == data[at + 1 :] and len(kept[name]) == len(data) - begin, at
        assert f"the file is damaged there, and they are kept in {path}.damaged.{len(kept)}" in caplog.text
        assert ranges(path)[-1] == (1_000, 1_001, 61)
    assert {name: (tmp_path / name).read_bytes() for name in kept} == kept
    assert stat.S_IMODE((tmp_path / "receipts.damaged.1").stat().st_mode) == 0o600
    assert len(os.listdir(tmp_path)) == 1 + len(kept)


def test_a_rest_longer_than_a_write_is_kept_and_a_torn_write_is_not(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    for size, kept in [(receipts_file.TORN_BYTES_MAX, False), (receipts_file.TORN_BYTES_MAX + 1, True)]:
        write(path, [(key(), 0, 1, 61)])
        with path.open("ab") as file:
            file.write(bytes(size))
        write(path)
        assert (tmp_path / "receipts.damaged.1").exists() == kept
        assert ranges(path)[0][:2] == (0, 1)


@pytest.mark.parametrize("step", ["write", "sync", "sync folder"])
def test_a_file_whose_damaged_rest_cannot_be_kept_is_left_as_it_is(tmp_path: Path, step: str) -> None:
    path = tmp_path / "receipts"
    write(path, *[[(key(), at * 10, at * 10 + 3, 100 + at)] for at in range(4)])
    damaged = bytearray(path.read_bytes())
    damaged[HEADER_BYTES + 1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ConfigurationError, match="cannot be written: No space"):
        ReceiptsFile(path, FailingDisk(refuse=(step,)))
    assert path.read_bytes() == damaged


def test_spans_join_in_any_order_and_keep_what_overlaps() -> None:
    spans = Spans()
    for first, end in [(0, 2), (6, 8), (4, 6), (2, 4), (20, 30), (10, 12), (25, 26)]:
        spans.add(key(), first, end, end - first)
    ((_, found),) = list(spans)
    assert [tuple(span) for span in found] == [(0, 8, 8), (10, 12, 2), (20, 30, 10), (25, 26, 1)]
    assert spans.count == 4


def test_files_of_several_producers_are_merged_and_a_copy_is_refused(tmp_path: Path) -> None:
    one, two, copy = tmp_path / "one", tmp_path / "two", tmp_path / "copy"
    write(one, [(key(), 0, 3, 100), (key(), 6, 9, 100)])
    write(two, [(key(), 3, 6, 90), (key(PAYMENTS), 0, 1, 61)])
    copy.write_bytes(one.read_bytes())
    merged = Receipts.merged(read_receipts(one), read_receipts(two))
    assert [(held.first_offset, Path(held.source).name) for held in merged.ranges[ORDERS_0]] == [
        (0, "one"), (3, "two"), (6, "one"),
    ]  # fmt: skip
    assert (merged.messages, merged.bytes) == (10, 351)
    with pytest.raises(ConfigurationError, match="are copies of one file"):
        Receipts.merged(merged, read_receipts(copy))
    assert Receipts.merged().messages == 0
    assert ORDERS in merged.topics
