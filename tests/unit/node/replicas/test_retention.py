"""Whether a broker deletes for age is asked of the very times that it goes by (RL107)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from data_plane.node.replicas.due_work import DueWork
from data_plane.node.replicas.replica_set import ReplicaChanges
from data_plane.node.replicas.retention import Retention
from data_plane.node.stats import NodeStats
from tests.unit.log.batches import NOW_MS
from tests.unit.node.storage import CONFIG

HOURS_MS = 2 * 3_600_000


@dataclass
class Times:
    """A broker's clocks, and what the others say of them: that they agree, until hours have passed."""

    ahead_ms: int = 0

    def now_ms(self) -> int:
        return NOW_MS + self.ahead_ms

    def monotonic_ms(self) -> float:
        return float(self.ahead_ms)

    def off_ms(self) -> int | None:
        return self.ahead_ms


@dataclass
class Log:
    """Notes what it is asked."""

    before: Callable[[], None] = lambda: None
    asked: list[tuple[int, float, bool]] = field(default_factory=list)
    has_deletable = False
    segment_count = 2
    log_start_offset = 0

    def retention_end(self, now_ms: int, monotonic_ms: float, *, by_time: bool) -> int:
        self.before()
        self.asked.append((now_ms, monotonic_ms, by_time))
        return 0


def look(times: Times, logs: list[Log], off_ms: Callable[[], int | None]) -> Retention:
    """One look of a broker that leads `logs`."""
    replicas = [
        SimpleNamespace(log=log, busy=False, leading=True, log_start_target=0, log_start_due=None)
        for log in logs
    ]
    disk_space = SimpleNamespace(look=lambda delete_due: delete_due())
    aside = SimpleNamespace(look=_nothing)
    held = SimpleNamespace(all=lambda: replicas, changes=ReplicaChanges)
    log_directory = SimpleNamespace(
        disk_space=disk_space, strays=SimpleNamespace(look=lambda *_, **__: []), quarantine=aside
    )
    retention = Retention(
        CONFIG,
        cast(Any, held),
        DueWork(),
        cast(Any, log_directory),
        times,
        NodeStats(),
        off_ms,
        lambda where, end: pytest.fail("nothing is due"),
    )

    async def once() -> None:
        running = asyncio.create_task(retention.run())
        await asyncio.sleep(0)
        running.cancel()

    asyncio.run(once())
    return retention


async def _nothing(*_: object, **__: object) -> list[str]:
    return []


@pytest.mark.parametrize(
    ("off_ms", "by_time", "trusted"),
    [
        (0, True, True),
        (CONFIG.timings.clock_off_ms_max, True, True),
        (-CONFIG.timings.clock_off_ms_max - 1, False, False),
        (None, False, True),
    ],
)
@pytest.mark.pure  # its logs stand in for real ones, to note what they are asked
def test_age_counts_only_while_the_clock_is_known_to_agree(
    off_ms: int | None, by_time: bool, trusted: bool
) -> None:
    log = Log()
    retention = look(Times(), [log], lambda: off_ms)
    assert log.asked == [(NOW_MS, 0.0, by_time)]
    assert retention.clock_trusted == trusted


@pytest.mark.pure  # its logs stand in for real ones, to note what they are asked
def test_hours_that_pass_while_a_broker_looks_are_not_gone_by() -> None:
    times = Times()

    def hours_pass() -> None:
        times.ahead_ms += HOURS_MS

    logs = [Log(before=hours_pass), Log()]
    look(times, logs, times.off_ms)
    assert [log.asked for log in logs] == [[(NOW_MS, 0.0, True)]] * 2


@pytest.mark.pure  # its logs stand in for real ones, to note what they are asked
def test_hours_that_pass_once_the_clock_is_known_to_agree_are_not_gone_by() -> None:
    times, log = Times(), Log()
    asked_ms: list[int] = []

    def agrees_and_then_hours_pass() -> int:
        asked_ms.append(times.now_ms())
        times.ahead_ms += HOURS_MS
        return 0

    look(times, [log], agrees_and_then_hours_pass)
    assert [now_ms for now_ms, _, _ in log.asked] == asked_ms[-1:]
