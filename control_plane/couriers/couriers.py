"""The couriers of a worker: threads that deliver to one place each, so that a slow one holds up no other one.

A tenant with several slow ones holds up no other tenant. What is delivered, and where, is the line's to say.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Generic, Protocol

from django.db import DatabaseError, connection
from django.utils import timezone

from control_plane.couriers import leases
from control_plane.couriers.leases import Row

EVERY_S = 1.0
"""Between two looks for what is due."""
REST_S = 0.1
"""At least, between two looks, however often couriers end: each one reads what is due in all tenants."""
COURIERS = 16
PER_TENANT = 2
"""Couriers that one tenant has at a time."""
_LOOKED_AT = 200
_log = logging.getLogger(__name__)


class Line(Protocol[Row]):
    """One kind of place that couriers deliver to. Called on several threads."""

    name: str
    """For logs, in the plural."""

    def begin(self) -> None:
        """Called once before the first look, and again until it raises nothing."""
        ...

    def due(self, now: datetime, *, most: int, without: Collection[int]) -> list[Row]:
        """What may be delivered to now and has something to get, the longest due first. `without`: rows by key."""
        ...

    def turn(self, row: Row, stopping: Callable[[], bool]) -> None:
        """Deliver to a row that was claimed, for some seconds, and give its lease back."""
        ...


class Couriers(Generic[Row]):
    """Start it once a process; `stop` lets attempts under way end. Whatever is not written down comes again."""

    def __init__(
        self,
        line: Line[Row],
        *,
        every_s: float = EVERY_S,
        couriers: int = COURIERS,
        per_tenant: int = PER_TENANT,
    ) -> None:
        self._line = line
        self._every_s = every_s
        self._couriers = couriers
        self._per_tenant = per_tenant
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._busy: dict[int, tuple[int, threading.Thread]] = {}
        """Row -> tenant and thread."""
        self._thread = threading.Thread(target=self._run, name=line.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, within_s: float) -> None:
        """Take nothing more, and wait so long for attempts under way, all together."""
        ends = time.monotonic() + within_s
        self._stopping.set()
        self._wake.set()
        self._thread.join(within_s)
        with self._lock:
            under_way = [thread for _, thread in self._busy.values()]
        for thread in under_way:
            thread.join(max(0.0, ends - time.monotonic()))

    def _run(self) -> None:
        begun = False
        try:
            while not self._stopping.is_set():
                self._wake.clear()
                try:
                    if not begun:
                        self._line.begin()
                        begun = True
                    self._hand_out()
                except DatabaseError as error:
                    _log.warning(
                        "couriers wait for the database", extra={"of": self._line.name, "error": str(error)}
                    )
                    # Only then: to ask before each look whether the connection lives costs as much as the look.
                    connection.close()
                except Exception:
                    # The thread goes on: what is due stays due.
                    _log.exception("nothing was handed out to couriers", extra={"of": self._line.name})
                    connection.close()
                self._stopping.wait(REST_S)
                self._wake.wait(max(0.0, self._every_s - REST_S))
        finally:
            connection.close()

    def _hand_out(self) -> None:
        """Give what is due to free couriers."""
        with self._lock:
            busy = {row: tenant for row, (tenant, _) in self._busy.items()}
        if len(busy) >= self._couriers:
            return
        of_tenant = Counter(busy.values())
        for row in self._line.due(timezone.now(), most=_LOOKED_AT, without=busy):
            if len(busy) >= self._couriers or self._stopping.is_set():
                return
            if of_tenant[row.tenant_id] >= self._per_tenant:
                continue
            claimed = leases.claim(row)
            if claimed is None:
                continue
            busy[claimed.pk] = claimed.tenant_id
            of_tenant[claimed.tenant_id] += 1
            thread = threading.Thread(
                target=self._deliver, args=(claimed,), name=f"courier {claimed.called}", daemon=True
            )
            with self._lock:
                self._busy[claimed.pk] = (claimed.tenant_id, thread)
            try:
                thread.start()
            except Exception:
                # The system has no thread left. The courier is free for the next look.
                with self._lock:
                    self._busy.pop(claimed.pk, None)
                leases.give_back(claimed)
                raise

    def _deliver(self, claimed: Row) -> None:
        try:
            self._line.turn(claimed, self._stopping.is_set)
        except DatabaseError as error:
            _log.warning("a courier waits for the database", extra={"error": str(error)})
            self._postpone(claimed)
        except Exception:
            _log.exception("a courier failed", extra={"of": self._line.name, "to": claimed.called})
            self._postpone(claimed)
        finally:
            connection.close()
            with self._lock:
                self._busy.pop(claimed.pk, None)
            # There may be more for it, or another one waits for this courier.
            self._wake.set()

    def _postpone(self, claimed: Row) -> None:
        """What fails here would fail again at once, and again."""
        # The connection may be what failed; a new one is made.
        connection.close()
        try:
            leases.postpone(claimed)
        except DatabaseError as error:
            _log.warning("a courier waits for the database", extra={"error": str(error)})
