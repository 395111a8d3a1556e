"""The simulated event loop: virtual time, a seeded choice among ready steps, processes that pause and crash.

States of a process and what moves between them:

    RUNNING --pause--> PAUSED --resume--> RUNNING
    RUNNING, PAUSED --crash--> GONE

Every handle belongs to the process whose context it runs in (contextvar `CURRENT`); without one it belongs to
the simulation itself, which never pauses. A paused process keeps its ready handles and its timers' handles
parked and runs them, late, when resumed: exactly SIGSTOP. A crashed process runs nothing any more, not even a
`finally`: its tasks and handles are kept referenced, because closing a suspended coroutine would run its
clean-up (RL136).

Plain `call_soon` callbacks of one process run in the order they were scheduled, which asyncio promises; steps
of tasks run in an order that the seed chooses, and now and then one is put off by a moment.
"""

import asyncio
import contextvars
import ctypes
import hashlib
import heapq
import random
import struct
import weakref
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

_TIME = struct.Struct("<d")
STEP_COST_S = 1e-6
"""What one step takes of virtual time, so that no two steps share an instant and a busy loop ends."""
PUT_OFF_S_MAX = 0.002
_TASKS_BEFORE_PRUNING = 256


class EscapedSimulation(Exception):
    """Code under simulation reached for a thread, a socket or another loop's services."""


class SimulationStalled(Exception):
    """Nothing is ready and no timer is set, yet the simulation's own task is not done."""


class TimeLimitPassed(Exception):
    """Virtual time passed the loop's limit before the simulation's own task was done."""


class ProcessState(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    GONE = "gone"


class Process:
    """One simulated operating-system process: what is paused, crashed or started as a whole."""

    __slots__ = ("context", "label", "lost", "name", "parked", "plain", "state", "tasks", "tasks_prune_at")

    def __init__(self, name: str) -> None:
        self.name = name
        self.label = name.encode() + b"/"
        self.state = ProcessState.RUNNING
        self.plain: deque[Any] = deque()
        self.parked: list[Any] = []
        self.lost: list[object] = []
        self.tasks: list[weakref.ref[SimTask]] = []
        self.tasks_prune_at = _TASKS_BEFORE_PRUNING
        self.context = contextvars.Context()
        self.context.run(CURRENT.set, self)

    @property
    def alive(self) -> bool:
        """Running or paused."""
        return self.state is not ProcessState.GONE

    def __repr__(self) -> str:
        return f"<Process {self.name} {self.state.value}>"


class SimTask(asyncio.Task[Any]):
    """A task that knows its process and hashes by its number, so that sets of tasks iterate in one order."""

    __slots__ = ("label", "number", "process")
    label: bytes
    number: int
    process: Process

    def __hash__(self) -> int:
        return self.number


CURRENT: contextvars.ContextVar[Process] = contextvars.ContextVar("penstock_simulated_process")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An exception that was not caught: of a task that was dropped, or of a callback."""

    at_s: float
    process: str
    message: str
    exception: BaseException | None


class SimLoop(asyncio.BaseEventLoop):
    """An event loop whose time is virtual and whose schedule is a function of `seed`."""

    _stopping: bool

    def __init__(
        self, seed: str | int, *, put_off_chance: float = 0.0, time_limit_s: float = float("inf")
    ) -> None:
        super().__init__()
        self._random = random.Random(f"{seed}/schedule")
        self._put_off_chance = put_off_chance
        self._time_limit_s = time_limit_s
        self._now = 0.0
        self._sequence = 0
        self._timers: list[tuple[float, int, Any]] = []
        self._timers_cancelled = 0
        self._steps: list[tuple[Any, Process, SimTask]] = []
        self._plain: list[Process] = []
        self._processes: list[Process] = []
        self._trace = hashlib.blake2b(digest_size=16)
        self._labels: dict[str, bytes] = {}
        self._tasks_made = 0
        self._stop_reason: BaseException | None = None
        self.steps_run = 0
        self.failures: list[Failure] = []
        self.outside = Process("simulation")
        """Owner of everything that no process owns: the network's wires, timers of faults, checkers."""
        self.on_step: Callable[[Process], None] | None = None
        """Called after each step, for checkers that look at every state."""

    # -- processes -------------------------------------------------------------------------------------

    def process(self, name: str) -> Process:
        """A new running process."""
        process = Process(name)
        self._processes.append(process)
        return process

    def spawn(
        self, process: Process, work: Coroutine[Any, Any, T], *, name: str | None = None
    ) -> asyncio.Task[T]:
        """Start a task inside a process."""
        return self.create_task(work, name=name, context=process.context.copy())

    def pause(self, process: Process) -> None:
        """SIGSTOP: nothing of the process runs until `resume`."""
        if process.state is not ProcessState.RUNNING:
            return
        process.state = ProcessState.PAUSED
        process.parked.extend(self._take_ready(process))

    def resume(self, process: Process) -> None:
        """SIGCONT: what became ready meanwhile runs now."""
        if process.state is not ProcessState.PAUSED:
            return
        process.state = ProcessState.RUNNING
        parked, process.parked = process.parked, []
        for handle in parked:
            self._make_ready(handle)

    def crash(self, process: Process) -> None:
        """SIGKILL: nothing of the process ever runs again; what it kept suspended stays so."""
        if not process.alive:
            return
        process.lost.extend(self._take_ready(process))
        process.lost.extend(process.parked)
        process.state = ProcessState.GONE
        for reference in process.tasks:
            task = reference()
            if task is not None and not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                process.lost.append(task)
        process.tasks.clear()
        process.parked.clear()

    def _take_ready(self, process: Process) -> list[Any]:
        taken = list(process.plain)
        if taken:
            process.plain.clear()
            self._plain.remove(process)
        taken.extend(handle for handle, owner, _ in self._steps if owner is process)
        self._steps = [entry for entry in self._steps if entry[1] is not process]
        return taken

    # -- what asyncio calls ----------------------------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        handle = events.Handle(callback, args, self, context)
        self._make_ready(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any,
        context: contextvars.Context | None = None,
    ) -> events.TimerHandle:  # fmt: skip
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any,
        context: contextvars.Context | None = None,
    ) -> events.TimerHandle:  # fmt: skip
        handle = events.TimerHandle(when, callback, args, self, context)
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._sequence, handle))
        return handle

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T] | Generator[Any, None, T], *, name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:  # fmt: skip
        self._check_closed()  # type: ignore[attr-defined]
        process = CURRENT.get(self.outside) if context is None else context.get(CURRENT, self.outside)
        self._tasks_made = number = self._tasks_made + 1
        label = str(name or getattr(coro, "__qualname__", type(coro).__name__))
        task = SimTask.__new__(SimTask)
        task.process, task.number = process, number
        task.label = b"%s%s#%d" % (process.label, label.encode(), number)
        task.__init__(coro, loop=self, name=f"{label}#{number}", context=context)  # type: ignore[misc]
        if process.alive:
            process.tasks.append(weakref.ref(task))
            if len(process.tasks) > process.tasks_prune_at:
                process.tasks = [ref for ref in process.tasks if (kept := ref()) and not kept.done()]
                process.tasks_prune_at = 2 * len(process.tasks) + _TASKS_BEFORE_PRUNING
        return task

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> NoReturn:
        raise EscapedSimulation(f"call_soon_threadsafe({callback!r}): there are no threads here")

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> NoReturn:
        raise EscapedSimulation(f"run_in_executor({func!r}): there are no threads here")

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what asyncio would log. Of crashed processes nothing is kept: no process was left to log it."""
        task = context.get("task") or context.get("future")
        handle = context.get("handle")
        process = self.outside
        if isinstance(task, SimTask):
            process = task.process
        elif handle is not None:
            process = handle._context.get(CURRENT, self.outside)
        if process.alive:
            self.failures.append(
                Failure(
                    at_s=self._now, process=process.name, message=str(context.get("message")),
                    exception=context.get("exception"),
                )
            )  # fmt: skip

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        self._asyncgens.discard(agen)  # type: ignore[attr-defined]
        if not self.is_closed() and CURRENT.get(self.outside).alive:
            self.call_soon(self.create_task, agen.aclose())

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        self._timers_cancelled += 1
        if self._timers_cancelled > 1000 and 2 * self._timers_cancelled > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2]._cancelled]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def work(self, seconds: float) -> None:
        """The step that runs now takes so long: nothing else happens meanwhile."""
        self._now += seconds

    # -- running ---------------------------------------------------------------------------------------

    def stop_with(self, reason: BaseException) -> None:
        """End the run after the current step; `run_until_complete` then raises the first reason given."""
        if self._stop_reason is None:
            self._stop_reason = reason
            self.stop()

    @property
    def trace_hash(self) -> str:
        """Hash of (time, process, step) of everything that ran so far."""
        return self._trace.hexdigest()

    def _make_ready(self, handle: Any) -> None:
        process = handle._context.get(CURRENT, self.outside)
        if process.state is ProcessState.RUNNING:
            callback = handle._callback
            owner = getattr(callback, "__self__", None)
            if owner.__class__ is SimTask and getattr(callback, "__name__", None) in (None, "task_wakeup"):
                self._steps.append((handle, process, owner))
            else:
                if not process.plain:
                    self._plain.append(process)
                process.plain.append(handle)
        elif process.state is ProcessState.PAUSED:
            process.parked.append(handle)
        else:
            process.lost.append(handle)

    def _run_once(self) -> None:
        draw, update = self._random.random, self._trace.update
        while not self._stopping:
            timers = self._timers
            while timers and timers[0][0] <= self._now:
                due = heapq.heappop(timers)[2]
                if due._cancelled:
                    self._timers_cancelled -= 1
                else:
                    self._make_ready(due)
            steps = self._steps
            count = len(steps) + len(self._plain)
            if count == 0:
                self._advance()
                continue
            chosen = int(draw() * count) if count > 1 else 0
            if chosen < len(steps):
                handle, process, task = steps[chosen]
                last = steps.pop()
                if chosen < len(steps):
                    steps[chosen] = last
                if self._put_off_chance and draw() < self._put_off_chance:
                    self._sequence += 1
                    heapq.heappush(timers, (self._now + draw() * PUT_OFF_S_MAX, self._sequence, handle))
                    continue
                update(_TIME.pack(self._now))
                update(task.label)
            else:
                process = self._plain[chosen - len(steps)]
                handle = process.plain.popleft()
                if not process.plain:
                    self._plain.remove(process)
                if handle._cancelled:
                    continue
                update(_TIME.pack(self._now))
                update(process.label)
                update(self._label(handle._callback))
            self.steps_run += 1
            handle._run()
            self._now += STEP_COST_S
            if self.on_step is not None:
                self.on_step(process)
        if self._stop_reason is not None:
            raise self._stop_reason

    def _advance(self) -> None:
        if not self._timers:
            raise SimulationStalled(f"at {self._now:.6f} s nothing is ready and no timer is set")
        when = self._timers[0][0]
        if when > self._time_limit_s:
            raise TimeLimitPassed(f"{self._time_limit_s} s of virtual time were not enough")
        self._now = when

    def _label(self, callback: Any) -> bytes:
        name = getattr(callback, "__qualname__", None) or type(callback).__name__
        label = self._labels.get(name)
        if label is None:
            label = self._labels[name] = name.encode()
        return label

    def close(self) -> None:
        """End of the simulation. What is suspended stays so: no clean-up runs because the world ended."""
        if self.is_closed():
            return
        for process in [*self._processes, self.outside]:
            self.crash(process)
            _keep_for_ever(process.lost)
        _keep_for_ever(self._timers)
        super().close()


def _keep_for_ever(objects: list[Any]) -> None:
    """Give `objects` a reference that is never dropped, not even at the interpreter's end.

    Dropping a suspended coroutine closes it, and closing runs its `finally` blocks outside any simulation.
    """
    if objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(objects))
