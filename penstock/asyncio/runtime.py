"""Drives the client's core with tasks of one event loop. Time is the loop's; randomness and transport are
given.

Nothing starts before first use; the client then belongs to that loop. Nothing here uses a thread or an
executor, so the whole SDK runs inside a simulated loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from penstock.asyncio.delivery import outcome
from penstock.client.actions import Action, CloseStream, OpenStream, OpenWatch, StartCall
from penstock.client.core import ClientCore
from penstock.client.producing.batch import ProducerBatch
from penstock.client.producing.delivery import run_callbacks, warn_unacknowledged
from penstock.client.settings import ConnectionSettings
from penstock.client.telling import write_lines
from penstock.contract.errors import Closed, ConfigurationError, PenstockError
from penstock.transport.port import CallFailed, Connection, ConnectionLost, Transport
from penstock.transport.process import used_before_fork, watch_process

_log = logging.getLogger("penstock")
_CONNECT_MS = 3_000
_TASK_CANCELLED = "its task was cancelled with all others of the event loop"
_GENTLE_S = 1.0
"""How long a close waits for streams to end in order."""
_TICK_S = 0.001
"""The driver never turns faster than this without an event."""


class Sleeper:
    """Something to wait for that either happens or is overtaken by the clock."""

    __slots__ = ("_awake", "_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[bool] | None = None
        self._awake = False

    def wake(self) -> None:
        self._awake = True
        _resolve(self._future, True)

    async def sleep_until(self, at: float) -> None:
        """Until woken (also between two sleeps) or until the loop's clock says `at` seconds."""
        if not self._awake:
            self._future = self._loop.create_future()
            await _or_clock(self._loop, self._future, at)
            self._future = None
        self._awake = False


class _Stream:
    """One stream or watch: its task, and where its writer sleeps."""

    __slots__ = ("connection", "ended", "last", "look_at", "sleeper", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.connection: Connection | None = None
        self.sleeper = Sleeper(loop)
        self.look_at = 0.0
        self.task: asyncio.Task[None] | None = None
        self.ended = False
        self.last: tuple[bytes, ...] = ()


class Runtime:
    """Everything that a client, its producers and its consumers share."""

    def __init__(
        self,
        settings: ConnectionSettings,
        transport: Callable[[], Transport],
        random: Random,
        wall_ms: Callable[[], int],
    ) -> None:
        self.settings = settings
        self._random = random
        self.core = ClientCore(settings.bootstrap, random)
        self.wall_ms = wall_ms
        self._make_transport = transport
        self._transport: Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._driver_sleeper: Sleeper | None = None
        self._streams: dict[int, _Stream] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._waiting: list[asyncio.Future[bool]] = []
        self.changes = 0
        """How often waiting callers were woken: what a caller saw before it awaited something else may be old."""
        self.closed = False
        self.unusable: PenstockError | None = None
        """Set once and never reset: closed, or a copy in a forked child."""
        watch_process(self)

    # ---- for the public classes ---------------------------------------------------------------------------

    def now_ms(self) -> float:
        """Of the loop that the client belongs to."""
        return (self._loop or asyncio.get_running_loop()).time() * 1000

    def check(self) -> None:
        """Raise if this client cannot be used any more."""
        if self.unusable is not None:
            raise type(self.unusable)(self.unusable.message)

    def start(self) -> None:
        """Begin to act. The first use of a client comes here."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._transport = self._make_transport()
            self._loop = loop
            self._driver_sleeper = Sleeper(loop)
            self._spawn(self._drive(), "penstock-driver")
        else:
            self.check_loop()

    def check_loop(self) -> None:
        """Raise in another loop than that of the first use: what is awaited there would never come."""
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise ConfigurationError("client: belongs to another event loop; make one in each loop")

    def signal(self) -> None:
        """After each use of the core: wake who has work, run what waited for outcomes, write lines of the log."""
        core = self.core
        write_lines()
        if core.woken:
            woken, core.woken = core.woken, {}
            for token, at in woken.items():
                stream = self._streams.get(token)
                if stream is not None and at < stream.look_at:
                    stream.sleeper.wake()
        if (core.attention or core.actions) and self._driver_sleeper is not None:
            self._driver_sleeper.wake()
        if core.changed:
            core.changed = False
            self.let_look_again()
        if core.completed:
            completed, core.completed = core.completed, []
            run_callbacks(completed)

    def let_look_again(self) -> None:
        """Waiting callers look whether what they wait for is there."""
        self.changes += 1
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            _resolve(future, True)

    def look_again_soon(self) -> None:
        """Let waiting callers look again soon. Any thread and a signal handler may call it: it wakes the loop."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.let_look_again)

    async def wait(self, deadline_ms: float, since: int | None = None) -> bool:
        """Wait for a change; False when the deadline has passed.

        A caller that awaited something else after it had looked says `since`, what `changes` was then: no change of
        meanwhile is waited for again.
        """
        if self._loop is None or self.now_ms() >= deadline_ms:
            return False
        if since is not None and since != self.changes:
            return True
        future: asyncio.Future[bool] = self._loop.create_future()
        self._waiting.append(future)
        await _or_clock(self._loop, future, deadline_ms / 1000)
        return True

    async def close(self) -> None:
        """End streams in order, then everything; afterwards the client is unusable."""
        if self.closed:
            return
        self.closed = True
        self.unusable = self.unusable or Closed("client: closed")
        if self._loop is None:
            self.core.close(0.0)
            return
        self.core.close(self.now_ms())
        self._perform_all()
        self.signal()
        deadline = self._loop.time() + _GENTLE_S
        while self._streams_ending() and self._loop.time() < deadline:
            future: asyncio.Future[bool] = self._loop.create_future()
            self._waiting.append(future)
            await _or_clock(self._loop, future, deadline)
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._transport is not None:
            await self._transport.close()

    def after_fork(self) -> None:
        """In a child process. Of what was used, tasks and connections are the parent's."""
        self._random.seed()  # or all children would draw the same
        self.unusable = self.unusable or self.core.after_fork(
            None if self._loop is None else used_before_fork()
        )

    def at_exit(self) -> None:
        """The program ends. A loop that still runs does so in a daemon thread; any other one sends nothing more."""
        if self._loop is None or self.unusable is not None:
            return
        when = "the program ended"
        if self._loop.is_running():
            longest_ms = max((each.settings.delivery_timeout_ms for each in self.core.producers), default=0.0)
            finishing = asyncio.run_coroutine_threadsafe(self._finish(when), self._loop)
            try:
                finishing.result(longest_ms / 1000 + 2 * _GENTLE_S)
            except TimeoutError:
                _log.error("penstock: a client's event loop is blocked: what it holds is lost")
        else:
            self._give_up(when)

    # ---- tasks --------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        assert self._loop is not None
        task = self._loop.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        try:
            if not task.cancelled() and task.exception() is not None:
                self._broken(task.exception())
        finally:  # also where what broke cannot be closed in order
            self.let_look_again()

    def _broken(self, error: BaseException | None) -> None:
        """A task of ours failed in a way it must not: the client stops and says so, rather than hang
        (RL140).
        """
        _log.error("penstock: the client stops after an internal error", exc_info=error)
        if self.unusable is None:
            self.unusable = Closed(f"client: stopped after an internal error: {error!r}")
        self.core.close(self.now_ms())
        self.signal()

    def _streams_ending(self) -> bool:
        return any(task.get_name().startswith("penstock-stream") for task in self._tasks)

    async def _drive(self) -> None:
        """Act until the client is closed, or until its loop ends. `asyncio.run` then cancels all tasks and lets them
        finish: that is when a client that was not closed sends what it still holds.
        """
        when = "their event loop ended"
        try:
            await self._act()
        except asyncio.CancelledError:
            if not self.closed:
                self._spawn(self._act(), "penstock-driver")
                await self._finish(when)
            raise
        except GeneratorExit:
            self._give_up(when)
            raise

    async def _finish(self, when: str) -> None:
        """Do what `close` does for a client that was not closed, and warn of what was lost."""
        pending = [batch for producer in self.core.producers for batch in producer.close_batches()]
        self.signal()
        try:
            for batch in pending:  # each has its outcome when its own delivery timeout has passed
                if not batch.done:
                    await outcome(batch, None)
        except BaseException:  # cancelled a second time, or the loop is gone
            self._give_up(when, pending)
            raise
        pending += self._pending()
        await self.close()
        warn_unacknowledged(dict.fromkeys(pending), when)

    def _give_up(self, when: str, waited_for: Sequence[ProducerBatch] = ()) -> None:
        """A client that was not closed can send nothing any more: fail what it holds, and warn."""
        if not self.closed:
            self.closed = True
            self.unusable = self.unusable or Closed("client: closed when its event loop ended")
            pending = [*waited_for, *self._pending()]
            self.core.close(self.now_ms())
            warn_unacknowledged(dict.fromkeys(pending), when)

    def _pending(self) -> list[ProducerBatch]:
        return [batch for producer in self.core.producers for batch in producer.pending()]

    async def _act(self) -> None:
        core, sleeper = self.core, self._driver_sleeper
        assert sleeper is not None
        assert self._loop is not None
        while not self.closed:
            core.step(self.now_ms())
            self._perform_all()
            self.signal()
            at = core.next_step_at() / 1000
            await sleeper.sleep_until(max(at, self._loop.time() + _TICK_S))

    def _perform_all(self) -> None:
        while self.core.actions:
            actions, self.core.actions = self.core.actions, []
            for action in actions:
                self._perform(action)

    def _perform(self, action: Action) -> None:
        assert self._loop is not None
        if isinstance(action, CloseStream):
            self._end_stream(action)
        elif self.closed:
            return
        elif isinstance(action, StartCall):
            self._spawn(self._call(action), f"penstock-call-{action.token}")
        else:
            stream = self._streams[action.token] = _Stream(self._loop)
            work = (
                self._watch(action, stream) if isinstance(action, OpenWatch) else self._read(action, stream)
            )
            kind = "watch" if isinstance(action, OpenWatch) else "stream"
            stream.task = self._spawn(work, f"penstock-{kind}-{action.token}")

    def _end_stream(self, action: CloseStream) -> None:
        stream = self._streams.pop(action.token, None)
        if stream is None:
            return
        stream.ended, stream.last = True, action.last
        if action.gently and stream.connection is not None:
            stream.sleeper.wake()
        elif stream.task is not None:
            stream.task.cancel()

    async def _call(self, action: StartCall) -> None:
        assert self._transport is not None
        core = self.core
        try:
            answer = await self._transport.call(
                action.address, action.method, action.request, action.timeout_ms
            )
        except CallFailed as failed:
            core.call_failed(action.token, failed.code, failed.message, self.now_ms())
        except ConnectionLost as lost:
            core.call_failed(action.token, lost.code, lost.message, self.now_ms())
        except asyncio.CancelledError:
            if not self.closed:
                core.call_failed(action.token, None, _TASK_CANCELLED, self.now_ms())
                self.signal()
            raise
        else:
            core.call_answered(action.token, answer, self.now_ms())
        self.signal()

    async def _watch(self, action: OpenWatch, stream: _Stream) -> None:
        assert self._transport is not None
        code: int | None = None
        message = f"{action.address}: the broker ended the watch"
        answers = self._transport.watch(action.address, action.method, action.request)
        try:
            async for answer in answers:
                self.core.frame_received(action.token, answer, self.now_ms())
                self.signal()
        except (CallFailed, ConnectionLost) as failure:
            code, message = failure.code, failure.message
        except asyncio.CancelledError:
            if not self.closed:
                self._lost(action.token, stream, None, _TASK_CANCELLED)
            raise
        self._lost(action.token, stream, code, message)

    async def _read(self, action: OpenStream, stream: _Stream) -> None:
        assert self._transport is not None
        writer: asyncio.Task[None] | None = None
        code: int | None = None
        message = ""
        try:
            connection = await self._transport.connect(action.address, action.method, _CONNECT_MS)
            stream.connection = connection
            writer = self._spawn(
                self._write(action.token, stream, connection), f"penstock-writer-{action.token}"
            )
            while True:
                frame = await connection.receive()
                if not stream.ended:
                    self.core.frame_received(action.token, frame, self.now_ms())
                    self.signal()
        except ConnectionLost as lost:
            code, message = lost.code, lost.message
        except asyncio.CancelledError:
            if not self.closed:
                self._lost(action.token, stream, None, _TASK_CANCELLED)
            raise
        finally:
            if writer is not None:
                writer.cancel()
            if stream.connection is not None:
                stream.connection.close()
        self._lost(action.token, stream, code, message)

    def _lost(self, token: int, stream: _Stream, code: int | None, message: str) -> None:
        self._streams.pop(token, None)
        if not stream.ended:
            stream.ended = True
            self.core.stream_lost(token, code, message, self.now_ms())
        self.signal()

    async def _write(self, token: int, stream: _Stream, connection: Connection) -> None:
        """Frames are pulled when the connection is ready for more, so that they grow while it is not."""
        core = self.core
        try:
            while not stream.ended:
                out, at = core.next_frame(token, self.now_ms())
                self.signal()
                if out is None:
                    stream.look_at = at
                    await stream.sleeper.sleep_until(at / 1000)
                    stream.look_at = 0.0
                elif isinstance(out, bytes):
                    await connection.send(out)
                else:
                    frame = out.encode()
                    core.encoded(token, out)
                    await connection.send(frame)
                    self.signal()
            for frame in stream.last:
                await connection.send(frame)
            await connection.end()
        except ConnectionLost:
            return  # the reader hears of it, with the broker's reason


async def _or_clock(loop: asyncio.AbstractEventLoop, future: asyncio.Future[bool], at: float) -> None:
    """Wait for the future, at most until the loop's clock says `at` seconds."""
    timer = loop.call_at(at, _resolve, future, False) if at != float("inf") else None
    try:
        await future
    finally:
        if timer is not None:
            timer.cancel()


def _resolve(future: asyncio.Future[bool] | None, value: bool) -> None:
    if future is not None and not future.done():
        future.set_result(value)
