"""A partition of three replicas led by broker 1 in epoch 5, as the tests of replication start from it.

What is committed, what is durable and what is written end at three offsets as the epoch begins, so a test sees where
one of them is taken for another.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from data_plane.metadata.model import PartitionRecord
from data_plane.replication.effects import Effects
from data_plane.replication.in_sync import BrokerView
from data_plane.replication.leader import LeaderState
from data_plane.replication.opening import OpenAnswer, Position
from penstock.contract.ids import BrokerId

EPOCH = 5
START = 100
"""Where epoch 5 begins in the leader's log; epoch 3 holds everything before it."""
HANDLES = itertools.count(1)
"""Each open is newer than all before it, if the test does not say its handle."""
COMMITTED, DURABLE = 90, 95
"""What of that the leader knows to be committed, and what it has on its disk, when its epoch begins."""


def record(in_sync: Iterable[int] = (1, 2, 3), **changes: object) -> PartitionRecord:
    values: dict[str, object] = {
        "partition": 0,
        "replicas": (1, 2, 3),
        "replica_generations": (1, 1, 1),
        "leader": BrokerId(1),
        "leader_epoch": EPOCH,
        "in_sync": tuple(in_sync),
        "partition_epoch": 7,
        **changes,
    }
    return PartitionRecord(**values)  # type: ignore[arg-type]


@dataclass(slots=True)
class Log:
    """The leader's own log: where it stands is the test's to say, and `carry_out`'s to note."""

    log_end_offset: int
    durable_end_offset: int
    high_watermark: int
    log_start_offset: int = 0


def leader(
    in_sync: Iterable[int] = (1, 2, 3),
    *,
    log_end: int = START,
    durable_end: int | None = None,
    high_watermark: int = COMMITTED,
    min_insync: int = 2,
    strict: bool = True,
    now_ms: float = 0,
    known: PartitionRecord | None = None,
    log_start: int = 0,
) -> LeaderState:
    log = Log(START, DURABLE, high_watermark, log_start)
    state = LeaderState(
        BrokerId(1), known or record(in_sync), log, min_insync=min_insync, strict=strict, now_ms=now_ms
    )
    carry_out(state)
    advanced(state, log_end, log_end if durable_end is None else durable_end, now_ms)
    return state


def log_of(state: LeaderState) -> Log:
    log = state._log
    assert isinstance(log, Log)
    return log


def carry_out(state: LeaderState) -> Effects:
    """What concerns the log of them is done."""
    effects = state.take_effects()
    log_of(state).high_watermark = effects.high_watermark
    return effects


def advanced(state: LeaderState, log_end: int, durable_end: int, now_ms: float) -> Effects:
    """The leader's own log grew or became more durable."""
    log = log_of(state)
    grown = log_end - log.log_end_offset
    log.log_end_offset, log.durable_end_offset = log_end, durable_end
    if grown:
        state.appended(grown, now_ms)
    state.became_durable(now_ms)
    return carry_out(state)


def lookup(state: LeaderState) -> Callable[[int], tuple[int, int]]:
    """The leader-epoch file of the leader: epoch 3 from 0, epoch 5 from START."""

    def of(epoch: int) -> tuple[int, int]:
        if epoch < 3:
            return epoch, 0
        return (3, START) if epoch < EPOCH else (EPOCH, state.log_end)

    return of


def opened(
    state: LeaderState,
    broker: int,
    end: int = START,
    *,
    durable: int | None = None,
    last_epoch: int = 3,
    broker_epoch: int = 50,
    registered: int = 50,
    generation: int = 1,
    leader_epoch: int = EPOCH,
    now_ms: float = 0,
    stored_from: int = 0,
    begins: int = 0,
    wants_in: bool = True,
    handle: int | None = None,
    partition_epoch: int | None = None,
) -> OpenAnswer:
    """`stored_from` is where the leader's first segment begins, `begins` where the follower's own log does. It knows
    the leader's record if the test says no other partition epoch."""
    answer = state.follower_opened(
        BrokerId(broker),
        broker_epoch,
        generation,
        Position(
            log_end_offset=end,
            durable_end_offset=end if durable is None else durable,
            last_epoch=last_epoch,
            log_start_offset=begins,
        ),
        now_ms,
        handle=next(HANDLES) if handle is None else handle,
        leader_epoch=leader_epoch,
        partition_epoch=state.record.partition_epoch if partition_epoch is None else partition_epoch,
        registered_epoch=registered,
        epoch_lookup=lookup(state),
        stored_from=stored_from,
        wants_in=wants_in,
    )
    carry_out(state)
    return answer


def acked(
    state: LeaderState,
    broker: int,
    end: int,
    *,
    durable: int | None = None,
    broker_epoch: int = 50,
    leader_epoch: int = EPOCH,
    now_ms: float = 0,
    log_start: int = 0,
    handle: int | None = None,
) -> bool:
    """On what it opened last if the test names no handle."""
    counted = state.follower_acked(
        BrokerId(broker),
        broker_epoch,
        end,
        end if durable is None else durable,
        now_ms,
        handle=newest_of(state, broker) if handle is None else handle,
        leader_epoch=leader_epoch,
        log_start=log_start,
    )
    carry_out(state)
    return counted


def newest_of(state: LeaderState, broker: int) -> int:
    """The handle of what the follower opened last; 0 for none."""
    follower = state._followers.get(BrokerId(broker))
    return 0 if follower is None else follower.handle


def gone(state: LeaderState, broker: int, *, handle: int | None = None) -> None:
    """What it opened last has ended, or what it opened with `handle`."""
    epoch = state._followers[BrokerId(broker)].broker_epoch
    state.follower_gone(BrokerId(broker), epoch, newest_of(state, broker) if handle is None else handle)


def everybody(broker: BrokerId) -> BrokerView:
    """Every broker is registered with epoch 50 and active."""
    return BrokerView(50, True)
