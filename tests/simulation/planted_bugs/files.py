"""Wrong decisions about what rests on a disk: order of syncs, checks, caches, damage, room."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import crc32c

from data_plane.disk.port import Disk, SyncDirectory, SyncFile, SyncStep
from data_plane.log.birth import Birth
from data_plane.log.checkpoint import Checkpoint, CheckpointedJournal, CheckpointedLog, pack_checkpoint
from data_plane.log.layout import CHECKPOINT
from data_plane.log.outcomes import Slice
from data_plane.log.small_file import write_small_file
from penstock.records.batch import read_header
from penstock.records.stamp import STAMP_BYTES, unpack_stamp
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.finders import CrashStates
from tests.simulation.planted_bugs.replacements import answers, nothing
from tests.unit.log import (
    test_appending,
    test_bounds,
    test_crash_states,
    test_durability,
    test_journal,
    test_reading,
    test_recovery,
    test_small_file,
)
from tests.unit.log.miniature import SMALL

_CRASH = test_crash_states


def _without(kind: type[SyncFile] | type[SyncDirectory]) -> Callable[[Any], Callable[..., Any]]:
    """The protocol with these steps left out."""

    def wrong(right: Any) -> Callable[..., Iterator[list[SyncStep]]]:
        def protocol(*arguments: Any, **named: Any) -> Iterator[list[SyncStep]]:
            for steps in right(*arguments, **named):
                yield [step for step in steps if not isinstance(step, kind)]

        return protocol

    return wrong


def _steps_without(kind: type[SyncDirectory]) -> Callable[[Any], Callable[..., Any]]:
    """These steps, with some left out."""

    def wrong(right: Any) -> Callable[..., list[SyncStep]]:
        return lambda *arguments: [step for step in right(*arguments) if not isinstance(step, kind)]

    return wrong


def _before_the_files(right: Any) -> Callable[..., Iterator[list[SyncStep]]]:
    """The checkpoint says that all is synced, then it is synced."""

    def take_checkpoint(
        disk: Disk, journal: CheckpointedJournal, logs: Sequence[CheckpointedLog]
    ) -> Iterator[list[SyncStep]]:
        first_sequence = journal.next_sequence
        journal.begin_checkpoint()
        begun = [log.begin_checkpoint(first_sequence) for log in logs]
        entries = {entry.where: entry for _, entry in begun if entry is not None}
        checkpoint = Checkpoint(first_sequence=first_sequence, entries=entries)
        yield from write_small_file(disk, CHECKPOINT, pack_checkpoint(checkpoint))
        for (steps, _), log in zip(begun, logs, strict=True):
            yield list(steps)
            log.end_checkpoint()
        yield from journal.give_back(first_sequence)

    return take_checkpoint


def _durable_once_made(right: Any) -> Callable[..., tuple[SyncStep, ...]]:
    def begin(birth: Birth) -> tuple[SyncStep, ...]:
        birth.make()
        birth.durable = True
        return ()

    return begin


def _unchecked(right: Any) -> Callable[..., Slice]:
    """What the disk gave is handed on."""

    def slice_of(reader: Any, cold: Any, data: bytes) -> Slice:
        reader.forget(cold)
        batches, at = [], 0
        for stamp_at in range(0, len(cold.stamps), STAMP_BYTES):
            stamp = unpack_stamp(cold.stamps, cold.segment.seed, stamp_at)
            batches.append(memoryview(data)[at : at + stamp.size])
            at += stamp.size
        return Slice(cold.first_offset, cold.next_offset, cold.stamps, batches, at)

    return slice_of


def _the_header_alone(right: Any) -> Callable[..., object]:
    """A batch's checksum is not computed."""
    return lambda stamp, batch: read_header(bytes(batch))


def _whatever_its_checksum(right: Any) -> Callable[..., tuple[int, bytes, int]]:
    def unpack_framed(kind: Any, data: bytes, at: int) -> tuple[int, bytes, int]:
        body = data[at + 16 :]
        crc = crc32c.crc32c(body, crc32c.crc32c(data[at : at + 12])).to_bytes(4, "big")
        found: tuple[int, bytes, int] = right(kind, data[: at + 12] + crc + body, at)
        return found

    return unpack_framed


def _removed_for_good(right: Any) -> Callable[..., None]:
    def remove(segment: Any, *, set_aside: bool) -> None:
        right(segment, set_aside=False)

    return remove


def _no_mark(right: Any) -> Callable[..., bytes]:
    """Journal records do not say what is durable before them."""

    def pack_head(piece: Any, of: Any, sequence: int, durable_sequence: int, seed: int) -> bytes:
        head: bytes = right(piece, of, sequence, 0, seed)
        return head

    return pack_head


BUGS = (
    PlantedBug(
        name="every partition's stamps alike",
        rule="RL118",
        target="penstock.records.stamp:stamp_seed",
        wrong=answers(0),
        finders=(Check(test=test_appending.test_a_stamp_of_another_partition_is_rejected),),
    ),
    PlantedBug(
        name="a follower does not check batches",
        rule="RL118",
        target="data_plane.log.stored_batch:check_stored",
        wrong=_the_header_alone,
        finders=(Check(test=partial(test_appending.test_a_batch_changed_on_the_way_is_rejected, at=100)),),
    ),
    PlantedBug(
        name="the recovery point before the syncs",
        rule="RL120",
        target="data_plane.log.checkpoint:take_checkpoint",
        wrong=_before_the_files,
        finders=(CrashStates(explore=_CRASH.test_a_checkpoint_between_appends_loses_nothing),),
    ),
    PlantedBug(
        name="a torn tail is damage",
        rule="RL121",
        target="data_plane.log.recovery:is_torn",
        wrong=answers(False),
        finders=(
            Check(test=test_recovery.test_an_unsynced_tail_that_is_torn_is_cut),
            CrashStates(explore=partial(_CRASH.test_what_was_committed_survives_a_cut_at_any_moment, SMALL)),
        ),
    ),
    PlantedBug(
        name="the journal knows no durable mark",
        rule="RL122",
        target="data_plane.log.journal_record:pack_head",
        wrong=_no_mark,
        finders=(
            Check(
                test=test_journal.test_a_bad_payload_below_the_durable_mark_is_named,
                arguments=lambda: {"bad": 1},
            ),
        ),
    ),
    PlantedBug(
        name="damaged files are removed",
        rule="RL122",
        target="data_plane.log.segment:Segment.remove",
        wrong=_removed_for_good,
        finders=(Check(test=test_recovery.test_segments_with_damage_are_set_aside_when_the_log_starts_over),),
    ),
    PlantedBug(
        name="a cache is believed",
        rule="RL123",
        target="data_plane.log.small_file:unpack_framed",
        wrong=_whatever_its_checksum,
        finders=(Check(test=test_small_file.test_every_flipped_bit_and_every_cut_is_found),),
    ),
    PlantedBug(
        name="a small file is renamed unsynced",
        rule="RL124",
        target="data_plane.log.small_file:write_small_file",
        wrong=_without(SyncFile),
        finders=(CrashStates(explore=test_small_file.test_a_cut_leaves_the_old_content_or_the_new),),
    ),
    PlantedBug(
        name="a rename that is not made durable",
        rule="RL124",
        target="data_plane.log.small_file:write_small_file",
        wrong=_without(SyncDirectory),
        finders=(CrashStates(explore=test_small_file.test_a_cut_leaves_the_old_content_or_the_new),),
    ),
    PlantedBug(
        name="a new partition without its name",
        rule="RL125",
        target="data_plane.log.partition_log:PartitionLog.creation_steps",
        wrong=_steps_without(SyncDirectory),
        finders=(Check(test=test_durability.test_a_new_directory_is_synced_up_to_the_root),),
    ),
    PlantedBug(
        name="a first batch is acknowledged before its directory is durable",
        rule="RL125",
        target="data_plane.log.birth:Birth.begin",
        wrong=_durable_once_made,
        finders=(
            CrashStates(
                explore=partial(
                    _CRASH.test_a_log_that_is_born_with_its_first_batch_loses_nothing_that_was_acknowledged,
                    settings=SMALL,
                )
            ),
        ),
    ),
    PlantedBug(
        name="half a batch stays on a full disk",
        rule="RL127",
        target="data_plane.log.segment:Segment.take_back",
        wrong=nothing,
        finders=(
            Check(
                test=partial(
                    test_durability.test_a_batch_that_does_not_fit_leaves_the_log_as_it_was, spare_bytes=100
                )
            ),
        ),
    ),
    PlantedBug(
        name="a failed journal write is not taken back",
        rule="RL127",
        target="data_plane.log.journal:Journal.take_back",
        wrong=nothing,
        finders=(
            Check(test=test_journal.test_what_did_not_fit_on_the_disk_is_taken_back_and_asked_for_again),
        ),
    ),
    PlantedBug(
        name="what was read is not checked",
        rule="RL130",
        target="data_plane.log.reading:LogReader.slice_of",
        wrong=_unchecked,
        finders=(Check(test=test_reading.test_a_bad_batch_is_named_and_the_good_ones_before_it_are_served),),
    ),
    PlantedBug(
        name="invariants are off",
        rule="RL138",
        target="penstock.contract.invariant:invariant",
        wrong=nothing,
        finders=(Check(test=test_bounds.test_a_cut_below_the_high_watermark_breaks_an_invariant),),
    ),
)
