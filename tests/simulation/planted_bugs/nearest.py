"""Wrong decisions of followers that serve consumers."""

from collections.abc import Callable
from functools import partial
from typing import Any

from data_plane.log.outcomes import Slice
from data_plane.node.replicas.reading_rights import Right
from data_plane.node.replicas.replica import Following, Replica
from data_plane.node.serving.consume_stream import ConsumeStream
from tests.simulation.bug import PlantedBug
from tests.simulation.checks import Check
from tests.unit.node.replicas.test_follower_stream import OTHER
from tests.unit.node.serving import test_follower_reads

_RIGHTS = "data_plane.node.replicas.reading_rights"


def _to_its_end(right: Any) -> Callable[..., Any]:
    async def read(stream: ConsumeStream, opened: Any, max_bytes: int) -> Slice | None:
        log = opened.replica.log
        if opened.replica.leading is not None or opened.offset >= log.log_end_offset:
            found: Slice | None = await right(stream, opened, max_bytes)
            return found
        part = log.read(opened.offset, log.log_end_offset, max_bytes)
        return part if isinstance(part, Slice) else None

    return read


def _once_and_for_all(right: Any) -> Callable[..., bool]:
    def still_holds(replica: Replica, by: Right) -> bool:
        return isinstance(by, Following) or right(replica, by)

    return still_holds


def _as_a_leader(right: Any) -> Callable[..., None]:
    def require_position(replica: Replica, by: Right, offset: int, last_epoch: int) -> None:
        replica.check_position(offset, last_epoch)

    return require_position


BUGS = (
    PlantedBug(
        name="a follower serves beyond its watermark",
        rule="RL20",
        target="data_plane.node.serving.consume_stream:ConsumeStream._read",
        wrong=_to_its_end,
        finders=(
            Check(
                test=test_follower_reads.test_a_follower_serves_up_to_its_own_watermark_and_on_as_that_moves
            ),
        ),
    ),
    PlantedBug(
        name="a follower goes on serving out of the in-sync set",
        rule="RL20",
        target=f"{_RIGHTS}:still_holds",
        wrong=_once_and_for_all,
        finders=(
            Check(
                test=partial(
                    test_follower_reads.test_a_reader_is_sent_to_the_leader_as_soon_as_the_follower_may_not_serve,
                    change={"in_sync": (OTHER,)},
                )
            ),
        ),
    ),
    PlantedBug(
        name="a follower judges positions that it has not",
        rule="RL56",
        target=f"{_RIGHTS}:require_position",
        wrong=_as_a_leader,
        finders=(
            Check(
                test=partial(
                    test_follower_reads.test_a_follower_judges_no_position,
                    offset=8,
                    epoch=test_follower_reads.EPOCH,
                    last_epoch=test_follower_reads.EPOCH,
                )
            ),
        ),
    ),
)
