"""The embedded transport of wake-ups: kombu's filesystem transport, with files that appear whole.

Kombu creates a message under its final name and then writes it. A worker that reads in between gets an empty message
and ends. Here a message is written under another name and renamed, and so is the table of queues. A message that cannot
be read is logged and dropped: a lost wake-up only costs time.

Readers look ten times a second. A folder that has not changed since it was seen without messages is not read again.
"""

import fcntl
import json
import logging
import os
import time
import uuid
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, filesystem

NAME = "wake-up-files"
"""The scheme of this transport in Celery's `broker_url`."""

_SETTLED_NS = 100_000_000
"""A folder's time moves in steps of some milliseconds: only one that is older than that shows each later change."""
_log = logging.getLogger(__name__)


class Channel(filesystem.Channel):
    """Messages are files `<time>_<id>.<queue>.msg` in one folder. They are read in that order, each by one reader."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)  # type: ignore[no-untyped-call]
        self._empty: dict[str, int] = {}
        """Queue -> when the folder had changed last as it was seen without messages of it."""

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:  # type: ignore[override]
        folder = Path(self.data_folder_out)
        # The machine's clock since its start: in order over all processes.
        name = f"{time.monotonic_ns():020d}_{uuid.uuid4().hex}.{queue}.msg"
        _write_whole(folder, name, json.dumps(message))

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        folder = Path(self.data_folder_in)
        changed_ns = folder.stat().st_mtime_ns
        if self._empty.get(queue) == changed_ns:
            raise Empty
        ending = f".{queue}.msg"
        for name in sorted(entry for entry in os.listdir(folder) if entry.endswith(ending)):
            # The reader that renames it has it: names that begin with a dot are not messages.
            taken = folder / f".taken-{uuid.uuid4().hex}"
            try:
                (folder / name).rename(taken)
            except FileNotFoundError:
                continue
            text = taken.read_text(encoding="utf-8")
            taken.unlink()
            try:
                return json.loads(text)
            except ValueError:
                _log.warning("a wake-up could not be read", extra={"file": name})
        if time.time_ns() - changed_ns > _SETTLED_NS:
            self._empty[queue] = changed_ns
        raise Empty

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        file: Path = self._exchange_file(exchange)  # type: ignore[no-untyped-call]
        folder = file.parent
        folder.mkdir(parents=True, exist_ok=True)
        row = [routing_key or "", pattern or "", queue or ""]
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            rows = [list(known) for known in self.get_table(exchange)]  # type: ignore[no-untyped-call]
            if row not in rows:
                _write_whole(folder, file.name, json.dumps([row, *rows]))


class Transport(filesystem.Transport):
    Channel = Channel


def _write_whole(folder: Path, name: str, text: str) -> None:
    fresh = folder / f".fresh-{uuid.uuid4().hex}"
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(folder / name)


TRANSPORT_ALIASES[NAME] = f"{__name__}:Transport"
