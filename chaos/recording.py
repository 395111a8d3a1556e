"""Writes the history of a run while it goes on."""

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from chaos.history_lines import FILE, name_of, pieces


class Recorder:
    """Appends to the history of a run. Used in one thread."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._file = self.path.open("w", encoding="utf-8", buffering=1 << 16)
        self._began = time.monotonic()

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    def note(self, what: str, **facts: Any) -> float:
        """Append a line; returns its time."""
        at = round(self.now, 6)
        self._file.write(json.dumps({"is": what, "at": at, **facts}, separators=(",", ":")) + "\n")
        return at

    def read(self, reader: str, found: Iterable[tuple[str, int, bytes]]) -> None:
        """What one poll returned, as (partition, offset, value), in consecutive pieces."""
        for partition, offset, values in pieces(found):
            names = self._names(reader, partition, offset, values)
            self.note("read", reader=reader, partition=partition, offset=offset, values=names)

    def final(self, found: Iterable[tuple[str, int, bytes]]) -> None:
        """What the last reader got, likewise."""
        for partition, offset, values in pieces(found):
            names = self._names("the last reader", partition, offset, values)
            self.note("final", partition=partition, offset=offset, values=names)

    def _names(self, reader: str, partition: str, offset: int, values: Sequence[bytes]) -> list[str]:
        names = []
        for index, value in enumerate(values):
            name = name_of(value)
            if name is None:
                self.anomaly("I19", f"{reader}: {partition}:{offset + index} holds {value[:60]!r}")
            names.append(name or repr(value[:60]))
        return names

    def anomaly(self, invariant: str, explanation: str) -> None:
        self.note("anomaly", invariant=invariant, explanation=explanation)
        self.flush()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()
