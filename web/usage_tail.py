"""Follows the usage log while a page shows rates, and keeps its last hour in memory.

The log belongs to the service: it is read with the usage pipeline's key, and a page shows only its tenant's part.
"""

import atexit
import logging
import threading
import time
from contextlib import suppress

from django.utils import timezone
from google.protobuf.message import DecodeError

from control_plane import config
from data_plane.contract import usage_pb2
from penstock import Consumer
from penstock.contract.errors import PenstockError
from penstock.rules.timestamps import time_ms
from web.broker_access import client_with
from web.recent import Hour, RecentUsage

TOPIC = "__usage"
IDLE_S = 900.0
"""Without a page for this long it stops; the next page starts it again."""
BACK_MS = 65 * 60_000
TIMEOUT_S = 10.0
AGAIN_S = 5.0
"""Between two attempts while the brokers cannot be reached."""
_POLL_MESSAGES = 500
_log = logging.getLogger(__name__)


class UsageTail:
    """One per process; its thread runs only while a page shows rates."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent = RecentUsage()
        self._thread: threading.Thread | None = None
        self._complete = False
        self._looked_s = 0.0
        self._stop = threading.Event()

    def hour(self, tenant: str, topic_id: str | None = None) -> Hour | None:
        """The last hour of the tenant (a public id), or of one of its topics; None while it is not read yet."""
        with self._lock:
            self._looked_s = time.monotonic()
            if self._thread is None and not self._stop.is_set():
                self._recent = RecentUsage()
                self._complete = False
                self._thread = threading.Thread(target=self._run, name="usage-tail", daemon=True)
                self._thread.start()
            return self._recent.hour(tenant, time_ms(timezone.now()), topic_id) if self._complete else None

    def stop(self) -> None:
        """End the thread, at the end of the process."""
        self._stop.set()
        thread = self._thread
        if thread is not None:
            thread.join(2.0)

    def _run(self) -> None:
        while self._wanted():
            try:
                self._follow()
            except (PenstockError, OSError) as error:
                _log.warning("the usage log could not be read: %s", error)
                self._stop.wait(AGAIN_S)
            except Exception:
                _log.exception("the usage log could not be read")
                self._stop.wait(AGAIN_S)
            with self._lock:
                self._recent = RecentUsage()
                self._complete = False
        with self._lock:
            self._thread = None

    def _follow(self) -> None:
        key = config.current().usage_key_file.read_text(encoding="ascii").strip()
        with (
            client_with(key) as client,
            client.consumer() as consumer,
        ):
            partitions = client.topic(TOPIC, TIMEOUT_S).partitions
            consumer.assign([(TOPIC, one.partition) for one in partitions])
            consumer.seek(TOPIC, timestamp_ms=time_ms(timezone.now()) - BACK_MS, timeout=TIMEOUT_S)
            ends = consumer.end_offsets(TIMEOUT_S)
            while self._wanted():
                if not self._complete:
                    self._complete = _read_up_to(consumer, ends)
                messages = consumer.poll(max_messages=_POLL_MESSAGES, timeout=1.0)
                with self._lock:
                    for message in messages:
                        # The usage pipeline rejects and reports malformed records.
                        with suppress(DecodeError):
                            self._recent.apply(usage_pb2.UsageRecord.FromString(message.value or b""))

    def _wanted(self) -> bool:
        return not self._stop.is_set() and time.monotonic() - self._looked_s < IDLE_S


def _read_up_to(consumer: Consumer, ends: dict[tuple[str, int], int]) -> bool:
    return all(
        consumer.position(topic, partition, timeout=TIMEOUT_S) >= end
        for (topic, partition), end in ends.items()
    )


tail = UsageTail()
atexit.register(tail.stop)
