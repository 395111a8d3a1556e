"""Drives the client's core with threads: one that acts, and per stream a reader and grpc's own writer.

Nothing starts before first use. All threads are daemons and end with `close`. The core is touched under
`lock` only; encoding, grpc calls and users' callbacks happen outside it.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc

from penstock.blocking.channels import Channels
from penstock.blocking.delivery import (
    client_lock,
    is_within_call,
    outcomes_missing,
    require_outside_callbacks,
    require_outside_calls,
    serve_callbacks,
)
from penstock.client.actions import Action, CloseStream, OpenStream, OpenWatch, StartCall
from penstock.client.core import ClientCore
from penstock.client.producing.batch import ProducerBatch
from penstock.client.producing.delivery import flush_timeout_after, run_callbacks, warn_unacknowledged
from penstock.client.settings import ConnectionSettings
from penstock.client.telling import forget_lines, lines_wait, warn, write_lines
from penstock.contract.errors import Closed, PenstockError
from penstock.transport.address import require_protected
from penstock.transport.grpc_terms import REQUEST_ID_BYTES, code_of, describe
from penstock.transport.process import used_before_fork, watch_process

_log = logging.getLogger("penstock")
_WAIT_S_MAX = 3_600.0
"""Locks take no infinite timeout."""
_GENTLE_S = 1.0
"""How long a close waits for streams to end in order."""
_TICK_S = 0.001
"""The driver never turns faster than this without an event."""
LOOK_S = 0.5
"""A waiting caller looks again after so long: what a signal handler says between its look and its wait is not heard."""


def now_ms() -> float:
    return time.monotonic() * 1000


_writing = threading.Lock()
"""Taken while a thread writes lines of the log."""


def _write_soon() -> None:
    """Let one thread of the process write the lines: a handler of the log may wait for what only the driver brings."""
    if _writing.acquire(blocking=False):
        try:
            threading.Thread(target=_write_all, name="penstock-log", daemon=True).start()
        except RuntimeError:  # no thread can start any more; the next poll or close writes
            _writing.release()


def _write_all() -> None:
    try:
        write_lines()
    finally:
        _writing.release()
    if lines_wait():  # what came behind the last look, while this thread was still the one that writes
        _write_soon()


def _forget_writer() -> None:
    """In a forked child."""
    global _writing
    _writing = threading.Lock()
    forget_lines()


class _Stream:
    """One stream or watch: its grpc call, and the writer's place to wait."""

    __slots__ = ("address", "call", "ended", "last", "look_at", "wake")

    def __init__(self, address: str, lock: threading.RLock) -> None:
        self.address = address
        self.call: Any = None
        self.wake = threading.Condition(lock)
        self.look_at = 0.0
        """The writer waits until then; 0 = it does not wait."""
        self.ended = False
        self.last: tuple[bytes, ...] = ()


class Runtime:
    """Everything that a client, its producers and its consumers share."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self._random = random.Random()
        """For jitter and ids of requests; no secrets come of it."""
        self.core = ClientCore(settings.bootstrap, self._random)
        self.lock = client_lock()
        self.changed = threading.Condition(self.lock)
        """Notified when a waiting caller may look again."""
        self.changes = 0
        """How often that was: what a caller saw before it gave the lock away may be old."""
        self._driver_wake = threading.Condition(self.lock)
        self._driver_waits = False
        self._channels = Channels(settings)
        self._streams: dict[int, _Stream] = {}
        self._readers: dict[int, threading.Thread] = {}
        self._driver: threading.Thread | None = None
        self.closed = False
        self.unusable: PenstockError | None = None
        """Set once and never reset: closed, or a copy in a forked child."""
        self._last: threading.Thread | None = None
        """Finishes a client that has no reference any more."""
        watch_process(self)

    # ---- for the public classes ---------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if this client cannot be used any more."""
        if self.unusable is not None:
            raise type(self.unusable)(self.unusable.message)

    def enter(self) -> None:
        """Begin a call of a public class: raise if this client cannot be used any more, or if this thread is within
        another call of it.
        """
        self.check()
        require_outside_calls(self.lock)

    def start(self) -> None:
        """Begin to act; under the lock. The first use of a client comes here."""
        if self._driver is None and self.unusable is None:
            for address in self.settings.bootstrap:
                require_protected(address, self.settings.ca_file)
            self._driver = threading.Thread(target=self._drive, name="penstock-driver", daemon=True)
            self._driver.start()

    def signal(self) -> list[ProducerBatch]:
        """After each use of the core, under the lock: wake who has work. Returns batches for `run_callbacks`."""
        self.wake()
        completed, self.core.completed = self.core.completed, []
        return completed

    def wake(self) -> None:
        """The same where the core was used in no way that gives a batch its outcome.

        Notes change after the notice: gevent runs other greenlets within `notify`, and one that is killed there
        must not leave a note that its waiter was notified.
        """
        core = self.core
        if core.woken:
            woken, core.woken = core.woken, {}
            for token, at in woken.items():
                stream = self._streams.get(token)
                if stream is not None and at < stream.look_at:
                    stream.wake.notify()
                    stream.look_at = 0.0
        if self._driver_waits and (core.attention or core.actions or core.completed or lines_wait()):
            self._driver_wake.notify()
            self._driver_waits = False
        if core.changed:
            self.let_look_again()
            core.changed = False

    def let_look_again(self) -> None:
        """Under the lock: waiting callers look whether what they wait for is there."""
        self.changes += 1
        self.changed.notify_all()

    def wait(self, deadline: float, since: int | None = None) -> bool:
        """Under the lock: wait for a change; False when `deadline` (of `now_ms`) has passed.

        A caller that gave the lock away after it had looked says `since`, what `changes` was then: no change of
        meanwhile is waited for again.
        """
        left = deadline - now_ms()
        if left <= 0:
            return False
        require_outside_callbacks()
        if since is None or since == self.changes:
            self.changed.wait(min(left / 1000, LOOK_S))
        return True

    def close(self) -> None:
        """End streams in order, then everything; afterwards the client is unusable."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            if self.unusable is None:
                self.unusable = Closed("client: closed")
            self.core.close(now_ms())
            actions, self.core.actions = self.core.actions, []
            readers = list(self._readers.values())
            batches = self.signal()
            self._driver_wake.notify()
        for action in actions:
            if isinstance(action, CloseStream):
                self._end_stream(action)
        run_callbacks(batches)
        write_lines()
        deadline = time.monotonic() + _GENTLE_S
        for reader in readers:
            if reader is not threading.current_thread():
                reader.join(max(0.0, deadline - time.monotonic()))
        self._channels.close()
        driver = self._driver
        if driver is not None and driver is not threading.current_thread():
            driver.join(_GENTLE_S)

    def let_go(self) -> None:
        """The client has no reference any more. Garbage is collected anywhere, also where this thread has our lock:
        another thread finishes.
        """
        if self.unusable is not None:
            return
        if self._driver is None:
            self.close()
        else:
            self._last = threading.Thread(
                target=self._finish, args=("their client was let go", None), name="penstock-last", daemon=True
            )
            self._last.start()

    def at_exit(self) -> None:
        """The program ends, perhaps by an interrupt, which does not wait."""
        if self._last is not None:
            self._last.join()
        elif self._driver is not None and self.unusable is None:
            self._finish("the program ended", flush_timeout_after(getattr(sys, "last_type", None)))

    def _finish(self, when: str, timeout: float | None) -> None:
        """Do what `close` does for a client that was not closed, and warn of what was lost."""
        with self.lock:
            producers = list(self.core.producers)
            pending = [batch for producer in producers for batch in producer.close_batches()]
            self.wake()
        if timeout is None:  # each batch has its outcome when its own delivery timeout has passed
            longest_ms = max((producer.settings.delivery_timeout_ms for producer in producers), default=0.0)
            timeout = longest_ms / 1000 + _GENTLE_S
        try:
            outcomes_missing(pending, timeout)
        finally:
            with self.lock:
                later = [batch for producer in producers for batch in producer.pending()]
            self.close()
            warn_unacknowledged(dict.fromkeys([*pending, *later]), when)

    def after_fork(self) -> None:
        """In a child process. Of what was used, threads and connections are the parent's, and so are locks."""
        self._random.seed()  # or all children would draw the same
        _forget_writer()
        free = not is_within_call(self.lock) and self.lock.acquire(blocking=False)
        if free:
            self.lock.release()
        self.unusable = self.unusable or self.core.after_fork(
            None if self._driver is None and free else used_before_fork()
        )

    # ---- threads ------------------------------------------------------------------------------------------------

    def _drive(self) -> None:
        try:
            while True:
                with self.lock:
                    actions, batches = self._next_work()
                if actions is None:
                    return
                for action in actions:
                    self._perform(action)
                serve_callbacks(batches)
                if lines_wait():
                    _write_soon()
        except BaseException as error:
            self._broken(error)
            raise

    def _next_work(self) -> tuple[list[Action] | None, list[ProducerBatch]]:
        """Under the lock: wait until the core wants something done. None = the client is closed."""
        core = self.core
        while not self.closed:
            core.step(now_ms())
            batches = self.signal()
            if core.actions or batches or (lines_wait() and not _writing.locked()):
                actions, core.actions = core.actions, []
                return actions, batches
            at = core.next_step_at()
            if not core.attention:
                self._driver_waits = True
                left = (at - now_ms()) / 1000
                self._driver_wake.wait(min(max(left, _TICK_S), _WAIT_S_MAX))
                self._driver_waits = False
        return None, []

    def _perform(self, action: Action) -> None:
        if isinstance(action, OpenStream | OpenWatch):
            stream = _Stream(action.address, self.lock)
            reader = threading.Thread(
                target=self._read, args=(action, stream), name=f"penstock-reader-{action.token}", daemon=True
            )
            with self.lock:
                if self.closed:
                    return
                self._streams[action.token] = stream
                self._readers[action.token] = reader
                reader.start()
        elif isinstance(action, CloseStream):
            self._end_stream(action)
        else:
            self._call(action)

    def _end_stream(self, action: CloseStream) -> None:
        with self.lock:
            stream = self._streams.pop(action.token, None)
            if stream is None:
                return
            stream.ended, stream.last, stream.look_at = True, action.last, 0.0
            stream.wake.notify()
            call = stream.call
        if call is not None and not action.gently:
            call.cancel()

    def _read(self, action: OpenStream | OpenWatch, stream: _Stream) -> None:
        token, core, lock = action.token, self.core, self.lock
        request_id = self._request_id()
        code: int | None = None
        try:
            if isinstance(action, OpenWatch):
                call = self._channels.watch(action.address, action.method, action.request, request_id)
            else:
                call = self._channels.stream(
                    action.address, action.method, self._frames(token, stream), request_id
                )
            with lock:
                stream.call = call
                cancelled = stream.ended and not stream.last
            if cancelled:
                call.cancel()
            for frame in call:
                with lock:
                    if not stream.ended:
                        core.frame_received(token, frame, now_ms())
                    batches = self.signal()
                if batches:
                    serve_callbacks(batches)
            message = f"{action.address}: the broker ended the stream (request {request_id})"
        except grpc.RpcError as error:
            code, message = _described(error, action.address, request_id)
        except PenstockError as error:
            code, message = int(error.code), error.message
        except ValueError as error:  # grpc says so when a channel was closed meanwhile
            message = f"{action.address}: {error}"
        except BaseException as error:
            self._broken(error)
            raise
        with lock:
            self._streams.pop(token, None)
            self._readers.pop(token, None)
            if not stream.ended:
                stream.ended, stream.look_at = True, 0.0
                stream.wake.notify()
                core.stream_lost(token, code, message, now_ms())
            batches = self.signal()
        serve_callbacks(batches)

    def _frames(self, token: int, stream: _Stream) -> Iterator[bytes]:
        """What grpc's writer thread sends: pulled when it is ready for more, so that frames grow while it
        is not.
        """
        core, lock = self.core, self.lock
        try:
            while True:
                with lock:
                    out = None
                    while not stream.ended:
                        now = now_ms()
                        out, at = core.next_frame(token, now)
                        self.wake()
                        if out is not None:
                            break
                        stream.look_at = at
                        stream.wake.wait(min(max((at - now) / 1000, 0.0), _WAIT_S_MAX))
                        stream.look_at = 0.0
                if out is None:
                    yield from stream.last
                    return
                if isinstance(out, bytes):
                    yield out
                    continue
                frame = out.encode()
                with lock:
                    core.encoded(token, out)
                    batches = self.signal()
                yield frame
                serve_callbacks(batches)
        except GeneratorExit:
            raise
        except BaseException as error:
            self._broken(error)
            raise

    def _call(self, action: StartCall) -> None:
        request_id = self._request_id()
        try:
            future = self._channels.call(
                action.address, action.method, action.request, action.timeout_ms, request_id
            )
        except PenstockError as error:
            self._call_over(action.token, int(error.code), error.message)
            return
        except ValueError as error:
            self._call_over(action.token, None, f"{action.address}: {error}")
            return

        def over(future: Any) -> None:
            try:
                self._call_done(action, request_id, future)
            except BaseException as error:  # grpc would log it and go on
                self._broken(error)

        future.add_done_callback(over)

    def _call_done(self, action: StartCall, request_id: str, future: Any) -> None:
        try:
            response = future.result()
        except grpc.RpcError as error:
            code, message = _described(error, action.address, request_id)
            self._call_over(action.token, code, message)
        except grpc.FutureCancelledError:
            self._call_over(action.token, None, f"{action.address}: cancelled")
        else:
            with self.lock:
                self.core.call_answered(action.token, response, now_ms())
                batches = self.signal()
            serve_callbacks(batches)

    def _call_over(self, token: int, code: int | None, message: str) -> None:
        with self.lock:
            self.core.call_failed(token, code, message, now_ms())
            batches = self.signal()
        serve_callbacks(batches)

    def _broken(self, error: BaseException) -> None:
        """A thread of ours failed in a way it must not: the client stops and says so, rather than hang."""
        _log.exception("penstock: the client stops after an internal error")
        if self.unusable is None:
            self.unusable = Closed(f"client: stopped after an internal error: {error!r}")
        with self.lock:
            batches: list[ProducerBatch] = []
            try:
                self.core.close(now_ms())
                batches = self.signal()
            except Exception as fault:  # callers wait all the same
                warn(_log, "penstock: the client that stops cannot end its streams in order: %r", fault)
            self.let_look_again()
        serve_callbacks(batches)
        write_lines()

    def _request_id(self) -> str:
        return self._random.randbytes(REQUEST_ID_BYTES).hex()


def _described(error: Any, address: str, request_id: str) -> tuple[int | None, str]:
    """(code, message) of a failed grpc call."""
    status = error.code() if hasattr(error, "code") else None
    trailing = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    details = error.details() if hasattr(error, "details") else str(error)
    return code_of(status, trailing), describe(address, status, details, request_id)
