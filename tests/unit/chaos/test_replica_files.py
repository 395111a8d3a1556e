"""The comparison of replicas notices what it is there to notice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.replica_files import Damaged, differences, stored_batches
from penstock.contract.errors import CorruptBatch
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.batch import placed, read_header
from penstock.records.build import BatchBuilder
from penstock.records.stamp import Stamp, StampCorrupt, pack_stamp, stamp_seed

WHERE = TopicPartition(TopicId(b"t" * 16), 3)


def write_replica(root: Path, batches: int, payload: bytes = b"value") -> Path:
    """A log directory with one segment of `batches` batches of two records each."""
    directory = root / "topics" / str(WHERE)
    directory.mkdir(parents=True)
    log, stamps = b"", bytes(64)
    for number in range(batches):
        builder = BatchBuilder()
        builder.append(1, None, payload + b"-%d" % number)
        builder.append(1, None, payload)
        body = builder.build()
        batch = b"".join(placed(body, number * 2, 1))
        header = read_header(batch)
        stamp = Stamp(number * 2, 2, header.record_count, len(batch), 1, 5, 1, -1, -1, 0, len(log), -1)
        log += batch
        stamps += pack_stamp(stamp, stamp_seed(WHERE))
    (directory / f"{0:020d}.log").write_bytes(log)
    (directory / f"{0:020d}.stamps").write_bytes(stamps)
    return root


def damage(root: Path, suffix: str, change: Callable[[bytearray], None]) -> None:
    file = root / "topics" / str(WHERE) / f"{0:020d}{suffix}"
    content = bytearray(file.read_bytes())
    change(content)
    file.write_bytes(content)


def flip(at: int) -> Callable[[bytearray], None]:
    def change(content: bytearray) -> None:
        content[at] ^= 1

    return change


def test_equal_replicas_do_not_differ(tmp_path: Path) -> None:
    one = stored_batches(write_replica(tmp_path / "1", 5), WHERE, 10)
    two = stored_batches(write_replica(tmp_path / "2", 5), WHERE, 10)
    assert len(one) == 5
    assert differences({1: one, 2: two}) == []


def test_what_lies_above_the_watermark_is_not_compared(tmp_path: Path) -> None:
    one = stored_batches(write_replica(tmp_path / "1", 5), WHERE, 8)
    two = stored_batches(write_replica(tmp_path / "2", 4), WHERE, 8)
    assert differences({1: one, 2: two}) == []


def test_a_missing_batch_is_found(tmp_path: Path) -> None:
    one = stored_batches(write_replica(tmp_path / "1", 5), WHERE, 10)
    two = stored_batches(write_replica(tmp_path / "2", 4), WHERE, 10)
    assert differences({1: one, 2: two}) == ["broker 2 has 4 batches, broker 1 5; they part at batch 4"]


def test_other_content_is_found(tmp_path: Path) -> None:
    one = stored_batches(write_replica(tmp_path / "1", 5), WHERE, 10)
    two = stored_batches(write_replica(tmp_path / "2", 5, b"other"), WHERE, 10)
    assert len(differences({1: one, 2: two})) == 1


def test_a_flipped_bit_in_a_batch_or_stamp_is_found(tmp_path: Path) -> None:
    root = write_replica(tmp_path / "1", 5)
    damage(root, ".log", flip(70))
    with pytest.raises(CorruptBatch):
        stored_batches(root, WHERE, 10)
    root = write_replica(tmp_path / "2", 5)
    damage(root, ".stamps", flip(64 + 20))
    with pytest.raises(StampCorrupt):
        stored_batches(root, WHERE, 10)


def test_a_batch_that_does_not_follow_the_one_before_is_found(tmp_path: Path) -> None:
    root = write_replica(tmp_path / "1", 5)

    def drop_third(content: bytearray) -> None:
        del content[64 + 2 * 64 : 64 + 3 * 64]

    damage(root, ".stamps", drop_third)
    with pytest.raises(Damaged, match="offset 6 follows 4"):
        stored_batches(root, WHERE, 10)
