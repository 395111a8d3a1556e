"""A partition of three replicas led by broker 1 in epoch 5, as the tests of replication start from it."""

from collections.abc import Callable, Iterable

from data_plane.metadata.model import PartitionRecord
from data_plane.replication.leader import BrokerView, LeaderState, OpenAnswer, Position
from penstock.contract.ids import BrokerId

EPOCH = 5
START = 100
"""Where epoch 5 begins in the leader's log; epoch 3 holds everything before it."""


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


def leader(
    in_sync: Iterable[int] = (1, 2, 3),
    *,
    log_end: int = START,
    durable_end: int | None = None,
    high_watermark: int = START,
    min_insync: int = 2,
    strict: bool = True,
    now_ms: float = 0,
    known: PartitionRecord | None = None,
    log_start: int = 0,
) -> LeaderState:
    return LeaderState(
        BrokerId(1),
        known or record(in_sync),
        leader_epoch=EPOCH,
        leader_epoch_start_offset=START,
        log_end=log_end,
        durable_end=log_end if durable_end is None else durable_end,
        high_watermark=high_watermark,
        min_insync=min_insync,
        strict=strict,
        now_ms=now_ms,
        log_start=log_start,
    )


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
    held_from: int = 0,
    begins: int = 0,
    wants_in: bool = True,
) -> OpenAnswer:
    """`held_from` is where the leader's first segment begins, `begins` where the follower's own log does."""
    return state.follower_opened(
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
        leader_epoch=leader_epoch,
        registered_epoch=registered,
        epoch_lookup=lookup(state),
        held_from=held_from,
        wants_in=wants_in,
    )


def held(
    state: LeaderState,
    broker: int,
    end: int,
    *,
    durable: int | None = None,
    broker_epoch: int = 50,
    leader_epoch: int = EPOCH,
    now_ms: float = 0,
    log_start: int = 0,
) -> bool:
    return state.follower_held(
        BrokerId(broker),
        broker_epoch,
        end,
        end if durable is None else durable,
        now_ms,
        leader_epoch=leader_epoch,
        log_start=log_start,
    )


def everybody(broker: BrokerId) -> BrokerView:
    """Every broker is registered with epoch 50 and active."""
    return BrokerView(50, True)
