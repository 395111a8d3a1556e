"""Wrong decisions of the node."""

from collections.abc import Callable
from typing import Any

from data_plane.log.outcomes import ColdRead, Slice
from data_plane.node.replica import Replica
from data_plane.replication.leader import LeaderState
from penstock.contract import errors
from penstock.contract.errors import ErrorCode
from tests.simulation import plans
from tests.simulation.bug import PlantedBug
from tests.simulation.finders import Seeds


def _as_it_was(right: Any) -> Callable[..., LeaderState]:
    """What was true before an await is believed after it."""
    before: dict[Replica, LeaderState] = {}

    def leadership(replica: Replica, claimed_epoch: int) -> LeaderState:
        if replica.leading is not None:
            before[replica] = replica.leading
        if replica not in before:
            raise errors.NotLeader(f"{replica.name}: it does not lead it")
        return before[replica]

    return leadership


def _to_the_end(right: Any) -> Callable[..., object]:
    async def _read(stream: Any, opened: Any, max_bytes: int) -> Slice | None:
        log = opened.replica.log
        if opened.offset >= log.log_end_offset:
            return None
        found = log.read(opened.offset, log.log_end_offset, max_bytes)
        if isinstance(found, ColdRead):
            data = await stream._disk.read(found.file, found.position, found.length)
            return log.slice_of(found, data)
        return found

    return _read


def _surely_refused(right: Any) -> Callable[..., None]:
    """What was appended is called refused."""

    def _drop_leadership(replica: Replica) -> None:
        for waiters in (replica._waiters, replica._late_waiters, replica._local_waiters):
            if replica.leading is not None:
                for waiter in waiters:
                    waiter.outcome.error = ErrorCode.NOT_LEADER
                    waiter.answer(waiter.outcome)
                waiters.clear()
        right(replica)

    return _drop_leadership


BUGS = (
    PlantedBug(
        name="no epoch check after an await",
        rule="RL11",
        target="data_plane.node.replica:Replica.leadership",
        wrong=_as_it_was,
        finders=(Seeds(plan=plans.deposed_alive, first=0, by=("I1", "I3", "I4", "I10", "I11")),),
    ),
    PlantedBug(
        name="what was appended is called refused",
        rule="RL17",
        target="data_plane.node.replica:Replica._drop_leadership",
        wrong=_surely_refused,
        finders=(Seeds(plan=plans.unnumbered, first=2, by=("I2",)),),
    ),
    PlantedBug(
        name="consumers read beyond the watermark",
        rule="RL20",
        target="data_plane.node.consume:ConsumeStream._read",
        wrong=_to_the_end,
        finders=(Seeds(plan=plans.left_with_a_tail, first=0, by=("I1", "I3")),),
    ),
)
