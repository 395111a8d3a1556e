"""Wrong decisions about producers: sequences, epochs, ids, and what a broker remembers of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from data_plane.controller.topics import ProducerIdBlock
from data_plane.log.producers import Producers
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.simulation.planted_bugs.replacements import nothing
from tests.unit.controller import test_topics
from tests.unit.log import test_producers

_PRODUCERS = "data_plane.log.producers:Producers"


def _forgiven(words: str) -> Callable[[Any], Callable[..., Any]]:
    """The refusal whose message holds these words is not made."""

    def wrong(right: Any) -> Callable[..., Any]:
        def check(producers: Producers, *arguments: Any) -> Any:
            try:
                return right(producers, *arguments)
            except Exception as refusal:
                if words in str(refusal):
                    return None
                raise

        return check

    return wrong


def _all(right: Any) -> Callable[..., list[int]]:
    """The whole table is idle."""
    return lambda producers, last_accepted_ms: list(producers._table)


def _by_the_clients_rules(right: Any) -> Callable[..., None]:
    """What a client would be refused is not taken from the leader either."""

    def apply(
        producers: Producers, producer_id: int, epoch: int, first: int, span: int, base: int, accepted_ms: int
    ) -> None:
        entry = producers._table.get(producer_id)
        if first == (0 if entry is None else entry[1] + 1):
            right(producers, producer_id, epoch, first, span, base, accepted_ms)

    return apply


def _whoever_asks(right: Any) -> Callable[..., ProducerIdBlock]:
    """Of two that ask at once both get the block."""

    def take_producer_ids(*arguments: Any, **named: Any) -> ProducerIdBlock:
        block: ProducerIdBlock = right(*arguments, **named)
        return replace(block, compares=())

    return take_producer_ids


BUGS = (
    PlantedBug(
        name="a gap in sequences is appended",
        rule="RL61",
        target=f"{_PRODUCERS}.check",
        wrong=_forgiven(" sends sequence "),
        finders=(Check(test=test_producers.test_a_gap_is_refused_and_names_what_is_required),),
    ),
    PlantedBug(
        name="an older producer epoch appends",
        rule="RL62",
        target=f"{_PRODUCERS}.check",
        wrong=_forgiven("or later required"),
        finders=(Check(test=test_producers.test_an_older_epoch_is_fenced),),
    ),
    PlantedBug(
        name="a new epoch begins anywhere",
        rule="RL62",
        target=f"{_PRODUCERS}.check",
        wrong=_forgiven(" begins epoch "),
        finders=(Check(test=test_producers.test_a_new_epoch_begins_at_zero),),
    ),
    PlantedBug(
        name="an unknown producer begins anywhere",
        rule="RL63",
        target=f"{_PRODUCERS}._check_unknown",
        wrong=nothing,
        finders=(Check(test=test_producers.test_an_unknown_producer_must_begin_at_zero),),
    ),
    PlantedBug(
        name="producers are forgotten while they send",
        rule="RL64",
        target=f"{_PRODUCERS}._idle",
        wrong=_all,
        finders=(Check(test=test_producers.test_one_producer_too_many_is_refused_with_the_limit_named),),
    ),
    PlantedBug(
        name="blocks of producer ids overlap",
        rule="RL64",
        target="data_plane.controller.topics:take_producer_ids",
        wrong=_whoever_asks,
        finders=(
            Check(
                test=test_topics.test_blocks_of_producer_ids_never_overlap,
                arguments=lambda: {"store": test_topics.fresh_store()},
            ),
        ),
    ),
    PlantedBug(
        name="a follower judges what its leader took",
        rule="RL66",
        target=f"{_PRODUCERS}.apply",
        wrong=_by_the_clients_rules,
        finders=(
            Check(
                test=test_producers.test_a_producer_that_the_leader_knew_is_known_to_its_followers_from_any_sequence_on
            ),
        ),
    ),
)
