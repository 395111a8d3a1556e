"""The simulated loop: virtual time, seeded order, pause, crash, and what escapes it."""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator

import pytest

from data_plane.testkit.loop import EscapedSimulation, Process, SimLoop, SimulationStalled, TimeLimitPassed


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop(1)
    yield loop
    loop.close()


async def _tick(log: list[tuple[str, float]], name: str, every_s: float, loop: SimLoop) -> None:
    try:
        while True:
            await asyncio.sleep(every_s)
            log.append((name, round(loop.time(), 3)))
    finally:
        log.append((f"{name} cleaned up", loop.time()))


def test_an_hour_of_sleep_passes_at_once(loop: SimLoop) -> None:
    loop.run_until_complete(asyncio.sleep(3600))
    assert 3600 <= loop.time() < 3600.001


def _order(seed: int) -> list[int]:
    loop, order = SimLoop(seed), []

    async def work(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            order.append(number)

    async def all_of_them() -> None:
        await asyncio.gather(*(work(number) for number in range(4)))

    loop.run_until_complete(all_of_them())
    loop.close()
    return order


def test_the_seed_chooses_among_ready_tasks_and_always_the_same_way() -> None:
    assert _order(7) == _order(7)
    assert len({tuple(_order(seed)) for seed in range(20)}) > 10


def test_plain_callbacks_of_one_process_run_in_the_order_scheduled() -> None:
    for seed in range(10):
        loop = SimLoop(seed)
        seen: list[int] = []

        async def schedule(seen: list[int] = seen) -> None:
            running = asyncio.get_running_loop()
            for number in range(20):
                running.call_soon(seen.append, number)
            await asyncio.sleep(1)

        loop.run_until_complete(schedule())
        loop.close()
        assert seen == list(range(20))


def test_a_step_may_be_put_off_but_never_lost() -> None:
    loop = SimLoop(3, put_off_chance=0.5)

    async def count() -> int:
        done = 0
        for _ in range(100):
            await asyncio.sleep(0)
            done += 1
        return done

    assert loop.run_until_complete(count()) == 100
    assert loop.time() > 0.005
    loop.close()


def test_a_paused_process_stands_still_and_its_timers_fire_late(loop: SimLoop) -> None:
    log: list[tuple[str, float]] = []
    still, other = loop.process("still"), loop.process("other")

    async def drive() -> None:
        tasks = [
            loop.spawn(still, _tick(log, "still", 1, loop)),
            loop.spawn(other, _tick(log, "other", 1, loop)),
        ]
        await asyncio.sleep(1.5)
        loop.pause(still)
        await asyncio.sleep(3)
        assert sum(name == "other" for name, _ in log) == 4
        assert sum(name == "still" for name, _ in log) == 1
        loop.resume(still)
        await asyncio.sleep(0.1)
        assert ("still", 4.5) in log
        await asyncio.sleep(1)
        assert ("still", 5.5) in log
        loop.crash(still)
        loop.crash(other)
        assert not any(task.done() for task in tasks)

    loop.run_until_complete(drive())


def test_a_future_resolved_for_a_paused_process_wakes_it_only_after_resume(loop: SimLoop) -> None:
    process = loop.process("p")
    woken: list[float] = []

    async def drive() -> None:
        future = loop.create_future()

        async def wait() -> None:
            await future
            woken.append(loop.time())

        task = loop.spawn(process, wait())
        await asyncio.sleep(0.1)
        loop.pause(process)
        future.set_result(None)
        await asyncio.sleep(5)
        assert not woken
        loop.resume(process)
        await task

    loop.run_until_complete(drive())
    assert woken and woken[0] > 5


def _crash_story(log: list[tuple[str, float]]) -> None:
    loop = SimLoop(1)
    process = loop.process("p")

    async def drive() -> None:
        loop.spawn(process, _tick(log, "p", 1, loop))
        loop.spawn(process, _tick(log, "q", 0.4, loop))
        await asyncio.sleep(1)
        never_started = loop.spawn(process, _tick(log, "r", 1, loop))
        loop.crash(process)
        del never_started
        gc.collect()
        await asyncio.sleep(10)

    loop.run_until_complete(drive())
    loop.close()


def test_a_crash_runs_no_clean_up_neither_then_nor_when_collected_nor_when_the_loop_closes() -> None:
    log: list[tuple[str, float]] = []
    _crash_story(log)
    gc.collect()
    assert [name for name, _ in log] in (["q", "q"], ["q", "q", "p"])


def test_a_crash_in_the_middle_of_a_step_ends_the_process_at_its_next_await(loop: SimLoop) -> None:
    process = loop.process("p")
    log: list[str] = []

    async def suicide() -> None:
        log.append("before")
        loop.crash(process)
        log.append("same step")
        loop.create_task(_tick([], "child", 1, loop))
        await asyncio.sleep(0)
        log.append("after")

    async def drive() -> None:
        loop.spawn(process, suicide())
        await asyncio.sleep(5)

    loop.run_until_complete(drive())
    assert log == ["before", "same step"]
    assert not loop.failures


def test_children_inherit_their_process(loop: SimLoop) -> None:
    process = loop.process("p")
    log: list[tuple[str, float]] = []

    async def parent() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_tick(log, "child", 1, loop))
            asyncio.get_running_loop().call_later(1.2, log.append, ("timer", 0.0))

    async def drive() -> None:
        loop.spawn(process, parent())
        await asyncio.sleep(1.1)
        loop.crash(process)
        await asyncio.sleep(5)

    loop.run_until_complete(drive())
    assert [name for name, _ in log] == ["child"]


def test_threads_are_refused(loop: SimLoop) -> None:
    async def escape(way: Callable[[], object]) -> None:
        result = way()
        if asyncio.iscoroutine(result):
            await result

    for way in (
        lambda: asyncio.to_thread(threading.get_ident),
        lambda: loop.run_in_executor(None, threading.get_ident),
        lambda: loop.call_soon_threadsafe(print),
        lambda: loop.getaddrinfo("localhost", 80),
    ):
        with pytest.raises(EscapedSimulation):
            loop.run_until_complete(escape(way))


def test_an_exception_nobody_takes_is_a_failure_of_its_process(loop: SimLoop) -> None:
    process = loop.process("p")

    async def fail() -> None:
        raise ValueError("nobody looks")

    async def drive() -> None:
        loop.spawn(process, fail())
        await asyncio.sleep(1)

    loop.run_until_complete(drive())
    gc.collect()
    assert [(failure.process, type(failure.exception)) for failure in loop.failures] == [("p", ValueError)]


def test_a_crashed_process_leaves_no_failures(loop: SimLoop) -> None:
    process = loop.process("p")

    async def fail() -> None:
        loop.crash(process)
        raise ValueError("the process is gone already")

    async def drive() -> None:
        loop.spawn(process, fail())
        await asyncio.sleep(1)

    loop.run_until_complete(drive())
    gc.collect()
    assert not loop.failures


def test_waiting_for_nothing_is_reported_not_endless(loop: SimLoop) -> None:
    async def wait_for_ever() -> None:
        await loop.create_future()

    with pytest.raises(SimulationStalled):
        loop.run_until_complete(wait_for_ever())


def test_the_time_limit_ends_a_run() -> None:
    loop = SimLoop(1, time_limit_s=10)
    with pytest.raises(TimeLimitPassed):
        loop.run_until_complete(asyncio.sleep(11))
    loop.close()


def test_stop_with_ends_the_run_with_the_first_reason(loop: SimLoop) -> None:
    async def drive() -> None:
        loop.stop_with(ValueError("first"))
        loop.stop_with(ValueError("second"))
        await asyncio.sleep(1)

    with pytest.raises(ValueError, match="first"):
        loop.run_until_complete(drive())


def test_a_step_hook_sees_each_process_that_ran(loop: SimLoop) -> None:
    process, seen = loop.process("p"), []

    def hook(stepped: Process) -> None:
        seen.append(stepped.name)

    loop.on_step = hook
    loop.run_until_complete(loop.spawn(process, asyncio.sleep(1)))
    assert "p" in seen


def _trace(seed: int) -> str:
    loop = SimLoop(seed, put_off_chance=0.1)

    async def work(number: int) -> None:
        for _ in range(5):
            await asyncio.sleep(number / 10)

    async def drive() -> None:
        await asyncio.wait([asyncio.create_task(work(number)) for number in range(5)])

    loop.run_until_complete(drive())
    loop.close()
    return loop.trace_hash


def test_one_seed_gives_one_trace() -> None:
    assert _trace(5) == _trace(5) != _trace(6)
