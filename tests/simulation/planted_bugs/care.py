"""Wrong decisions about what is lost, left over, spoilt or short: strays, room, clocks, slow disks, reading back."""

from collections.abc import Callable
from functools import partial
from typing import Any

from data_plane.controller.changed_blocks import ChangedBlocks
from data_plane.controller.elections import departures
from data_plane.log.checkpoint import Checkpoint
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord
from data_plane.node.replicas.leader_links import LeaderLinks
from data_plane.node.replicas.replica import Replica
from penstock.contract.ids import BrokerId, TopicPartition
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.finders import CrashStates
from tests.simulation.planted_bugs.replacements import answers, asked_about, nothing
from tests.unit.controller import test_clocks, test_plan, test_step_aside
from tests.unit.log import test_crash_states, test_recovery, test_scrub
from tests.unit.node.log_directory import test_boot, test_disk_space, test_quarantine, test_stray_directories
from tests.unit.node.membership import test_doubt
from tests.unit.node.replicas import test_coming_back, test_follower_stream
from tests.unit.replication import test_in_sync_set


def _deleted(right: Any) -> Callable[..., None]:
    """What nobody knows is removed at boot."""
    return lambda strays, path, now_ms, reason: strays._disk.remove_directory(path)


def _as_if_new(right: Any) -> Callable[..., tuple[Checkpoint, str]]:
    return lambda boot: (right(boot)[0], "")


def _whole(right: Any) -> Callable[..., tuple[bytes, bool]]:
    """Zeros in place of what the medium refused, and not a word of it."""
    return lambda file, position, length: (right(file, position, length)[0], False)


def _by_the_controller(right: Any) -> Callable[[list[float]], float]:
    """The controller's clock is the time."""
    return lambda values: values[0]


def _once_known_always(right: Any) -> Callable[[float, float], bool]:
    return lambda since_ms, now_ms: True


def _retention_later(right: Any) -> Callable[..., None]:
    return lambda room, delete_due: right(room, lambda: 0)


def _whoever_others_need(right: Any) -> Callable[..., Any]:
    return lambda image, broker, limit: departures(
        image, broker, ChangedBlocks().take(image, limit), data_lost=lambda topic_id: False
    )


def _by_its_position(right: Any) -> Callable[..., Any]:
    return lambda scrub, segment: scrub._known().get(segment.base_offset)


def _from_the_first_bad_batch(right: Any) -> Callable[..., int]:
    return lambda scrub: min(one.first_offset for one in scrub._reader.damage)


def _without_seals(right: Any) -> Callable[..., int]:
    def delete_below(log: Any, offset: int) -> int:
        freed: int = log._segments.remove_below(min(offset, log.log_start_offset), log._reader.damage)
        return freed

    return delete_below


def _gone(right: Any) -> Callable[..., None]:
    """Segments behind the cut are removed, damaged or not."""

    def remove(files: Any, base: int, *, set_aside: bool) -> None:
        right(files, base, set_aside=False)

    return remove


def _own_changes_alone(right: Any) -> Callable[..., None]:
    """A leader looks at its in-sync set after what it did itself."""

    def lead(replica: Replica, record: PartitionRecord) -> None:
        look_at = replica._look_at_in_sync
        if replica.leading is not None and replica.leading.leader_epoch == record.leader_epoch:
            replica._look_at_in_sync = lambda replica, look: None
        right(replica, record)
        replica._look_at_in_sync = look_at

    return lead


def _only_what_is_in_sync(right: Any) -> Callable[..., Any]:
    """A replica that is out of sync has nothing to give up."""

    def strip_replica(image: ClusterImage, broker: BrokerId, where: TopicPartition) -> Any:
        record = image.partition(where)
        if record is not None and broker not in (record.leader, *record.in_sync, *record.eligible):
            return None
        return right(image, broker, where)

    return strip_replica


def _unsaid(right: Any) -> Callable[..., None]:
    """The leader goes on to believe that the replica follows."""

    def leave_all(links: LeaderLinks, replica: Replica) -> None:
        """Nothing is told."""

    return leave_all


BUGS = (
    PlantedBug(
        name="what the metadata does not know is deleted at boot",
        rule="RL53",
        target="data_plane.node.log_directory.stray_directories:StrayDirectories.set_aside",
        wrong=_deleted,
        finders=(
            Check(test=test_stray_directories.test_a_metadata_store_that_lost_everything_deletes_nothing),
        ),
    ),
    PlantedBug(
        name="strays go by a clock that is off",
        rule="RL53",
        target="data_plane.node.log_directory.stray_directories:StrayDirectories.look",
        wrong=asked_about(clock_trusted=True),
        finders=(Check(test=test_stray_directories.test_no_clock_that_jumps_deletes_a_stray),),
    ),
    PlantedBug(
        name="a lost checkpoint is taken for a new directory",
        rule="RL54",
        target="data_plane.node.log_directory.boot:Boot._read_checkpoint",
        wrong=_as_if_new,
        finders=(Check(test=test_boot.test_a_lost_checkpoint_is_damage_and_no_new_directory),),
    ),
    PlantedBug(
        name="a lost identity is taken for a new directory",
        rule="RL54",
        target="data_plane.log.presumed:holds_segments",
        wrong=answers(False),
        finders=(
            Check(
                test=partial(
                    test_boot.test_a_lost_identity_makes_a_new_directory_of_which_nothing_is_trusted,
                    "missing",
                )
            ),
        ),
    ),
    PlantedBug(
        name="a lost partition directory is made again and counts as complete",
        rule="RL54",
        target="data_plane.node.log_directory.boot:Boot._notice_missing",
        wrong=nothing,
        finders=(Check(test=test_boot.test_a_replica_whose_directory_is_gone_is_damaged),),
    ),
    PlantedBug(
        name="the controller's clock is the time",
        rule="RL107",
        target="data_plane.controller.clocks:_middle",
        wrong=_by_the_controller,
        finders=(
            Check(
                test=test_clocks.test_a_controller_whose_own_clock_is_off_says_so_of_itself_and_not_of_the_others
            ),
        ),
    ),
    PlantedBug(
        name="a comparison of clocks holds without an end",
        rule="RL107",
        target="data_plane.controller.clocks:_holds",
        wrong=_once_known_always,
        finders=(
            Check(
                test=test_clocks.test_a_controller_for_which_hours_have_passed_goes_by_no_answer_from_before
            ),
        ),
    ),
    PlantedBug(
        name="a segment goes without its seal when its records are deleted",
        rule="RL108",
        target="data_plane.log.partition_log:PartitionLog.delete_below",
        wrong=_without_seals,
        finders=(
            CrashStates(
                explore=test_crash_states.test_a_segment_whose_seal_is_not_due_yet_waits_for_it_though_its_records_were_deleted
            ),
        ),
    ),
    PlantedBug(
        name="damage is removed from its first batch on, the evidence with it",
        rule="RL122",
        target="data_plane.log.scrub:LogScrub.refetch_from",
        wrong=_from_the_first_bad_batch,
        finders=(
            Check(
                test=test_scrub.test_damage_is_refetched_from_the_base_of_its_segment_on_and_served_no_more
            ),
        ),
    ),
    PlantedBug(
        name="recovery removes the segment that a repair was about to keep aside",
        rule="RL122",
        target="data_plane.log.replaying:ReplayedFiles.remove",
        wrong=_gone,
        finders=(
            CrashStates(
                explore=partial(
                    test_crash_states.test_damage_that_is_cut_out_is_named_or_kept_aside_whatever_survives,
                    False,
                )
            ),
        ),
    ),
    PlantedBug(
        name="produce is refused before retention was asked",
        rule="RL128",
        target="data_plane.node.log_directory.disk_space:DiskSpace.look",
        wrong=_retention_later,
        finders=(Check(test=test_disk_space.test_what_is_due_is_deleted_before_anything_is_refused),),
    ),
    PlantedBug(
        name="what was set aside as damaged goes by a clock that is off",
        rule="RL122",
        target="data_plane.node.log_directory.quarantine:Quarantine.look",
        wrong=asked_about(clock_trusted=True),
        finders=(
            Check(
                test=test_quarantine.test_no_clock_that_nobody_trusts_and_none_that_just_began_lets_them_go
            ),
        ),
    ),
    PlantedBug(
        name="a replica whose broker steps aside joins at once",
        rule="RL128",
        target="data_plane.replication.leader:LeaderState.follower_opened",
        wrong=asked_about(wants_in=True),
        finders=(
            Check(
                test=test_in_sync_set.test_a_follower_that_wants_to_stay_out_does_not_join_until_it_opens_again
            ),
        ),
    ),
    PlantedBug(
        name="a damaged replica out of sync has nothing to give up",
        rule="RL122",
        target="data_plane.controller.elections:strip_replica",
        wrong=_only_what_is_in_sync,
        finders=(
            Check(
                test=test_plan.test_what_is_decided_of_a_replica_given_up_while_it_was_out_of_sync_comes_too_late
            ),
        ),
    ),
    PlantedBug(
        name="a damaged replica is given up once",
        rule="RL122",
        target="data_plane.node.replicas.assignment:Assignment._counted_on",
        wrong=answers(False),
        finders=(
            Check(
                test=test_coming_back.test_a_stopped_replica_that_was_taken_in_all_the_same_gives_itself_up_again
            ),
        ),
    ),
    PlantedBug(
        name="a stopped replica does not leave its leader",
        rule="RL122",
        target="data_plane.node.replicas.leader_links:LeaderLinks.leave_all",
        wrong=_unsaid,
        finders=(Check(test=test_coming_back.test_a_replica_that_stops_leaves_its_leader_at_once),),
    ),
    PlantedBug(
        name="a set that others made smaller is not looked at",
        rule="RL133",
        target="data_plane.node.replicas.replica:Replica.lead",
        wrong=_own_changes_alone,
        finders=(
            Check(
                test=test_follower_stream.test_a_leader_looks_at_a_set_that_others_made_smaller_until_it_is_whole
            ),
        ),
    ),
    PlantedBug(
        name="a write that found no space is not reported",
        rule="RL128",
        target="data_plane.node.log_directory.disk_space:DiskSpace.lacked",
        wrong=nothing,
        finders=(
            Check(
                test=test_disk_space.test_a_write_that_found_no_room_makes_the_disk_full_until_there_is_more_or_it_is_time_to_try_again
            ),
        ),
    ),
    PlantedBug(
        name="the ballast is kept when recovery needs its space",
        rule="RL128",
        target="data_plane.node.log_directory.disk_space:DiskSpace.before_recovery",
        wrong=nothing,
        finders=(
            Check(
                test=test_disk_space.test_recovery_on_a_full_disk_gets_the_ballast_and_on_another_one_does_not
            ),
        ),
    ),
    PlantedBug(
        name="recovery writes again what was deleted",
        rule="RL128",
        target="data_plane.log.replaying:_last_start",
        wrong=lambda right: lambda records, start: start,
        finders=(Check(test=test_recovery.test_recovery_needs_no_room_for_what_was_deleted),),
    ),
    PlantedBug(
        name="journal records that the medium refused are a torn tail",
        rule="RL130",
        target="data_plane.log.readable:read_or_zeros",
        wrong=_whole,
        finders=(Check(test=test_boot.test_a_bad_sector_is_survived_wherever_it_is),),
    ),
    PlantedBug(
        name="batches are read back and not checked",
        rule="RL132",
        target="data_plane.log.stored_batch:check_stored",
        wrong=nothing,
        finders=(Check(test=test_scrub.test_every_flipped_byte_of_a_closed_segment_is_found),),
    ),
    PlantedBug(
        name="a segment counts as verified because another one was that stood in its place",
        rule="RL132",
        target="data_plane.log.scrub:LogScrub.finding",
        wrong=_by_its_position,
        finders=(Check(test=test_scrub.test_a_finding_of_another_history_does_not_count),),
    ),
    PlantedBug(
        name="a broker with a slow disk leaves those who need it",
        rule="RL133",
        target="data_plane.controller.step_aside:steps_aside",
        wrong=_whoever_others_need,
        finders=(Check(test=test_step_aside.test_nobody_leaves_whom_the_others_need),),
    ),
    PlantedBug(
        name="a broker that stood still believes in its session",
        rule="RL137",
        target="data_plane.node.membership.registration:Registration.doubt",
        wrong=nothing,
        finders=(
            Check(
                test=test_doubt.test_a_broker_that_stood_still_serves_nothing_until_its_session_is_confirmed
            ),
        ),
    ),
)
