"""Wrong decisions of the log: what is torn, what producers sent, what is durable."""

import asyncio
from collections.abc import Callable
from typing import Any

from data_plane.disk.port import SyncDirectory, SyncStep
from data_plane.log.producers import Producers
from tests.simulation import plans
from tests.simulation import test_damage_met as simulated_damage
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.finders import CrashStates, FlippedBytes, Seeds
from tests.simulation.planted_bugs.replacements import asked_about
from tests.unit.log import test_bounds, test_crash_states, test_damage_met


def _all_torn(right: Any) -> Callable[..., bool]:
    return lambda offset, durable_end: True


def _unknown_to_followers(right: Any) -> Callable[..., int]:
    def as_follower(appender: Any, stamps: memoryview, batches: memoryview, leader_epoch: int) -> int:
        before = appender._derived.producers.copy()
        end: int = right(appender, stamps, batches, leader_epoch)
        appender._derived.producers = before
        return end

    return as_follower


def _forgotten(right: Any) -> Callable[..., None]:
    def rebuild(derived: Any, end_offset: int, unsealed: tuple[int, int] | None = None) -> None:
        right(derived, end_offset, unsealed)
        derived.producers = Producers()

    return rebuild


def _appended_again(right: Any) -> Callable[..., None]:
    def check(producers: Producers, *arguments: Any) -> None:
        right(producers, *arguments)

    return check


def _no_directory(right: Any) -> Callable[..., list[SyncStep]]:
    def append_steps(journal: Any, unsynced: Any) -> list[SyncStep]:
        return [step for step in right(journal, unsynced) if not isinstance(step, SyncDirectory)]

    return append_steps


def _stopped_by_damage(right: Any) -> Callable[..., Any]:
    def cut(segment: Any, number: int, position: int, end_offset: int) -> Any:
        segment.rewind(number)
        return right(segment, number, position, end_offset)

    return cut


def _not_noticed(right: Any) -> Callable[..., Any]:
    async def never(scrubber: Any) -> None:
        await asyncio.get_running_loop().create_future()

    return never


BUGS = (
    PlantedBug(
        name="bad checksum below the durable mark truncated as a torn tail",
        rule="RL122",
        target="data_plane.log.recovery:is_torn",
        wrong=_all_torn,
        finders=(FlippedBytes(first=100),),
    ),
    PlantedBug(
        name="a truncation goes before damage that hides its offset, and none reports it",
        rule="RL122",
        target="data_plane.log.segments:Segments.truncation_point",
        wrong=asked_about(over_damage=True),
        finders=(
            Check(
                test=test_damage_met.test_a_cut_whose_place_is_hidden_by_damage_is_refused_and_nothing_is_cut
            ),
        ),
    ),
    PlantedBug(
        name="damage that a log met by itself waits for the scrubber",
        rule="RL122",
        target="data_plane.node.integrity.scrubber:Scrubber._notice_damage",
        wrong=_not_noticed,
        finders=(
            Check(
                test=simulated_damage.test_what_a_log_meets_by_itself_does_not_wait_for_the_scrubber,
                kind="simulation",
            ),
        ),
    ),
    PlantedBug(
        name="damage that a truncation meets ends the broker",
        rule="RL130",
        target="data_plane.log.segment:Segment.truncate",
        wrong=_stopped_by_damage,
        finders=(
            Check(
                test=test_damage_met.test_a_cut_is_carried_out_over_damage_that_came_after_it_was_asked_for
            ),
        ),
    ),
    PlantedBug(
        name="duplicate table not rebuilt on promotion",
        rule="RL65",
        target="data_plane.log.appending:Appender.as_follower",
        wrong=_unknown_to_followers,
        finders=(Seeds(plan=plans.leaders_come_and_go, first=0, by=("I4",)),),
    ),
    PlantedBug(
        name="duplicate table not rebuilt at recovery",
        rule="RL65",
        target="data_plane.log.derived:DerivedState.rebuild",
        wrong=_forgotten,
        finders=(Check(test=test_bounds.test_totals_and_producers_below_the_start_are_known_after_a_crash),),
    ),
    PlantedBug(
        name="duplicate appended",
        rule="RL61",
        target="data_plane.log.producers:Producers.check",
        wrong=_appended_again,
        finders=(Seeds(plan=plans.leaders_come_and_go, first=0, by=("I4",)),),
    ),
    PlantedBug(
        name="journal file acknowledged before its name is durable",
        rule="RL125",
        target="data_plane.log.journal:Journal.append_steps",
        wrong=_no_directory,
        finders=(CrashStates(explore=test_crash_states.test_a_checkpoint_between_appends_loses_nothing),),
    ),
)
