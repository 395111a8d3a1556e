"""Appending as leader and as follower: offsets, stamps, rolls, and equality of replicas."""

import pytest

from data_plane.disk.port import Buffer
from data_plane.log.outcomes import Duplicate, ReplicaRejected
from data_plane.log.partition_log import PartitionLog
from data_plane.log.segments import Segments
from penstock.contract.invariant import InvariantBroken
from penstock.contract.topic_settings import TimestampType, TopicSettings
from penstock.records.batch import check_batch, read_header
from penstock.records.stamp import STAMP_BYTES, StampFlag, pack_stamp, stamp_seed, unpack_stamp
from tests.unit.log.batches import NOW_MS, made_batch, with_header
from tests.unit.log.miniature import SMALL, Miniature, where

SEED = stamp_seed(where())


def replica(settings: TopicSettings = SMALL) -> Miniature:
    miniature = Miniature(settings=settings)
    miniature.create()
    return miniature


def pushed(leader: Miniature, offset: int = 0, max_bytes: int = 1 << 20) -> tuple[memoryview, memoryview]:
    part = leader.read(offset, max_bytes=max_bytes)
    return memoryview(part.stamps), memoryview(b"".join(part.batches))


def files(miniature: Miniature) -> dict[str, bytes]:
    """Every segment file and the seals."""
    medium = miniature.disk.medium  # type: ignore[attr-defined]
    return {
        path: bytes(inode.data)
        for path, inode in medium.files()
        if path.endswith((".log", ".stamps", "/seals"))
    }


def test_offsets_and_epoch_are_the_leaders_and_the_rest_stays_as_it_came() -> None:
    leader = replica()
    batch = made_batch(3, 50)
    leader.append(batch=made_batch(2))
    leader.append(batch=batch, epoch=4)
    stored = b"".join(leader.read(2).batches)
    assert check_batch(stored, from_producer=False).base_offset == 2
    assert read_header(stored).leader_epoch == 4
    assert stored[16:] == batch[16:]


def test_the_stamp_accounts_for_the_batch() -> None:
    leader = replica()
    first = leader.append(batch=made_batch(2, 30), principal=77)
    second = leader.append(batch=made_batch(3, 40, producer_id=9, epoch=2, sequence=0), principal=78)
    assert (first.base_offset, first.offset_span, first.record_count, first.size) == (0, 2, 2, 91)
    assert (second.base_offset, second.position, second.principal) == (2, 91, 78)
    assert (second.producer_id, second.producer_epoch, second.base_sequence) == (9, 2, 0)
    assert first.flags == StampFlag.FIRST_OF_SEGMENT and second.flags == 0
    part = leader.read(0)
    assert unpack_stamp(part.stamps, SEED) == first
    assert unpack_stamp(part.stamps, SEED, STAMP_BYTES) == second


def test_acceptance_never_goes_back() -> None:
    leader = replica()
    log = leader.log

    def accepted(now_ms: int, floor_ms: int) -> int:
        batch, header = with_header(made_batch())
        return log.append_as_leader(
            batch, header, leader_epoch=1, now_ms=now_ms, floor_ms=floor_ms, principal=1
        ).accepted_ms

    assert accepted(NOW_MS, 0) == NOW_MS
    assert accepted(NOW_MS - 5_000, 0) == NOW_MS
    assert accepted(NOW_MS - 5_000, NOW_MS + 7) == NOW_MS + 7
    assert log._derived.last_accepted_ms == NOW_MS + 7


def test_a_segment_is_closed_by_the_batch_that_would_not_fit() -> None:
    leader = replica()
    while leader.log.segment_count < 3:
        leader.append(batch=made_batch(1, 500))
    stamps = [unpack_stamp(leader.content()[0], SEED, at * 64) for at in range(leader.log.log_end_offset)]
    firsts = [stamp for stamp in stamps if stamp.flags & StampFlag.FIRST_OF_SEGMENT]
    assert [stamp.position for stamp in firsts] == [0, 0, 0]
    assert all(stamp.position + stamp.size <= 4096 for stamp in stamps)


def test_a_batch_larger_than_a_segment_has_one_of_its_own() -> None:
    leader = replica()
    leader.append()
    leader.append(batch=made_batch(1, 9_000))
    leader.append()
    assert leader.log.segment_count == 3


def test_a_segment_is_closed_by_age_at_the_next_append() -> None:
    leader = replica(TopicSettings(replication=1, min_insync_replicas=1, segment_ms=60_000))
    leader.append()
    leader.now_ms += 59_999
    leader.append()
    assert leader.log.segment_count == 1
    leader.now_ms += 1
    leader.append()
    assert leader.log.segment_count == 2


def test_new_settings_hold_from_the_next_append_on() -> None:
    leader = replica()
    leader.append(batch=made_batch(1, 3_000))
    leader.log.settings = TopicSettings(replication=1, min_insync_replicas=1, segment_bytes=1 << 20)
    leader.append(batch=made_batch(1, 3_000))
    assert leader.log.segment_count == 1


def test_a_topic_with_append_time_stamps_messages_with_their_acceptance() -> None:
    leader = replica(TopicSettings(replication=1, min_insync_replicas=1, timestamp_type=TimestampType.APPEND))
    leader.append(batch=made_batch(2, 50, timestamp_ms=5))
    header = check_batch(b"".join(leader.read(0).batches), from_producer=False)
    assert header.append_time and header.max_timestamp == NOW_MS


def test_a_repeated_batch_is_found_by_its_sequence() -> None:
    leader = replica()
    batch = made_batch(2, producer_id=9, epoch=0, sequence=0)
    leader.append()
    leader.append(batch=batch)
    assert leader.log.check_sequence(with_header(batch)[1]) == Duplicate(1, NOW_MS)


def test_an_older_epoch_never_appends() -> None:
    leader = replica()
    leader.append(epoch=3)
    with pytest.raises(InvariantBroken):
        leader.append(epoch=2)


def test_a_leader_notes_its_epoch_before_it_writes_anything() -> None:
    leader = replica()
    leader.append(epoch=1)
    leader.log.start_epoch(5)
    assert leader.log.last_epoch == 5
    assert leader.log.end_offset_for_epoch(1) == (1, 1)
    leader.append(epoch=5)
    assert leader.log.end_offset_for_epoch(5) == (5, 2)


def grown(batches: int = 30) -> Miniature:
    leader = replica()
    for number in range(batches):
        leader.append(
            epoch=1 + number // 10,
            batch=made_batch(1 + number % 3, 400, producer_id=9, epoch=number, sequence=0, fill=number),
        )
    return leader


@pytest.mark.parametrize("max_bytes", [1, 1_000, 1 << 20])
def test_replicas_are_equal_byte_for_byte(max_bytes: int) -> None:
    leader, follower = grown(), replica()
    while follower.log.log_end_offset < leader.log.log_end_offset:
        end = follower.log.log_end_offset
        assert follower.log.append_as_follower(*pushed(leader, end, max_bytes), 3) > end
    for miniature in (leader, follower):
        miniature.commit()
    assert files(leader) == files(follower)
    assert any(path.endswith("seals") for path in files(leader))
    assert leader.log.epochs.pairs() == follower.log.epochs.pairs()
    assert leader.log._derived.producers == follower.log._derived.producers
    assert leader.log.odometer is not None and follower.log.odometer is not None
    assert leader.log.odometer.encode(0) == follower.log.odometer.encode(0)


def test_a_follower_knows_the_producers_of_what_it_took_over() -> None:
    leader, follower = replica(), replica()
    batch = made_batch(2, producer_id=9, epoch=0, sequence=0)
    leader.append(batch=batch)
    follower.log.append_as_follower(*pushed(leader), 1)
    assert follower.log.check_sequence(with_header(batch)[1]) == Duplicate(0, NOW_MS)


def rejected(log: PartitionLog, stamps: Buffer, batches: Buffer, epoch: int = 3) -> str:
    """The reason; the log must not have changed."""
    before = (log.log_end_offset, log.segment_count, log.size_bytes)
    with pytest.raises(ReplicaRejected) as caught:
        log.append_as_follower(memoryview(stamps), memoryview(batches), epoch)
    assert (log.log_end_offset, log.segment_count, log.size_bytes) == before
    return str(caught.value)


def test_a_push_that_skips_offsets_is_rejected() -> None:
    leader, follower = grown(), replica()
    stamps, batches = pushed(leader, 1)
    assert "base offset 1, 0 required" in rejected(follower.log, stamps, batches)


def test_a_push_of_what_is_held_already_is_rejected() -> None:
    leader, follower = grown(), replica()
    stamps, batches = pushed(leader, 0, 1)
    follower.log.append_as_follower(stamps, batches, 3)
    assert "base offset 0, 1 required" in rejected(follower.log, stamps, batches)


@pytest.mark.parametrize("at", [0, 8, 12, 16, 17, 21, 60, 100])
def test_a_batch_changed_on_the_way_is_rejected(at: int) -> None:
    leader, follower = grown(), replica()
    stamps, batches = pushed(leader, 0, 1_000)
    bad = bytearray(batches)
    bad[at] ^= 1
    rejected(follower.log, stamps, bytes(bad))


@pytest.mark.parametrize("at", range(0, STAMP_BYTES, 7))
def test_a_stamp_changed_on_the_way_is_rejected(at: int) -> None:
    leader, follower = grown(), replica()
    stamps, batches = pushed(leader, 0, 1_000)
    bad = bytearray(stamps)
    bad[STAMP_BYTES + at] ^= 1
    rejected(follower.log, bytes(bad), batches)


def test_sizes_that_do_not_agree_are_rejected() -> None:
    leader, follower = grown(), replica()
    stamps, batches = pushed(leader, 0, 1_000)
    rejected(follower.log, stamps, bytes(batches[:-1]))
    rejected(follower.log, stamps, bytes(batches) + b"x")
    rejected(follower.log, stamps[:-1], batches)
    assert "2 bytes of batches" in rejected(follower.log, b"", b"xx")


def test_an_empty_push_changes_nothing() -> None:
    assert replica().log.append_as_follower(memoryview(b""), memoryview(b""), 3) == 0


def test_a_batch_of_a_later_epoch_than_the_leaders_is_rejected() -> None:
    leader, follower = grown(), replica()
    stamps, batches = pushed(leader, 0, 1_000)
    assert "epoch 1, -1 to 0 required" in rejected(follower.log, stamps, batches, epoch=0)


def test_a_batch_of_an_older_epoch_than_the_last_is_rejected() -> None:
    leader, follower = replica(), replica()
    leader.append(epoch=1)
    follower.append(epoch=2)
    leader.append(epoch=1)
    stamps, batches = pushed(leader, 1)
    assert "epoch 1, 2 to 3 required" in rejected(follower.log, stamps, batches)


def test_acceptance_that_goes_back_is_rejected() -> None:
    leader, follower = replica(), replica()
    follower.now_ms += 10
    follower.append(epoch=1)
    leader.append(epoch=1)
    leader.append(epoch=1)
    assert "later required" in rejected(follower.log, *pushed(leader, 1))


def test_the_leader_alone_decides_where_a_segment_begins() -> None:
    leader, follower = grown(), replica(TopicSettings(replication=1, min_insync_replicas=1))
    follower.log.append_as_follower(*pushed(leader), 3)
    follower.log.append_as_follower(*pushed(leader, follower.log.log_end_offset), 3)
    assert follower.log.segment_count == leader.log.segment_count


def test_a_position_that_does_not_come_out_is_rejected() -> None:
    leader, follower = grown(), replica()
    stamp = unpack_stamp(leader.read(0, max_bytes=1).stamps, SEED)
    batch = b"".join(leader.read(0, max_bytes=1).batches)
    fields = stamp._asdict()
    moved = pack_stamp(type(stamp)(**(fields | {"position": 4})), SEED)
    assert "at byte 4 of its segment, 0 required" in rejected(follower.log, moved, batch)
    unmarked = pack_stamp(type(stamp)(**(fields | {"flags": 0})), SEED)
    assert "of its segment" in rejected(follower.log, unmarked, batch)
    cleaned = pack_stamp(
        type(stamp)(**(fields | {"flags": StampFlag.CLEANED | StampFlag.FIRST_OF_SEGMENT})), SEED
    )
    assert "compaction is not known" in rejected(follower.log, cleaned, batch)


def test_a_stamp_of_another_partition_is_rejected() -> None:
    leader, follower = Miniature(), replica()
    leader.create(1)
    leader.append(1)
    part = leader.read(0, partition=1)
    rejected(follower.log, part.stamps, b"".join(part.batches))


def test_a_log_that_is_read_while_segments_close_holds_few_of_their_files() -> None:
    miniature = replica()
    miniature.fill(120, body_bytes=400)
    miniature.checkpoint()
    segments: Segments = miniature.log._segments
    assert len(segments.all) > 10
    miniature.tail.bytes_max = 0
    miniature.log._tail.clear()
    miniature.content()
    assert sum(segment._data is not None for segment in segments.all) <= 6
    miniature.log.release_files()
    assert not any(segment._data is not None or segment._stamps is not None for segment in segments.all)
    miniature.fill(1)
