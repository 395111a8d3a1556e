"""Which run of a data set counts: the pointer with the greatest number, which is that of the runner that wrote it.

A runner writes pointers of its own number only, so one that was paused while another took over changes nothing that a
reader sees (RL9). A pointer without a number is of the time before runners had numbers.
"""

import json
import re
from pathlib import Path

from spark_usage.json_files import write_json

FIRST = "current.json"
_NUMBERED = re.compile(r"current-(\d{1,18})\.json")
_KEPT = 2
"""Pointers of a data set: a reader that has just looked for the greatest one still finds it after a takeover."""


def file_name(number: int) -> str:
    """Of the pointers that the runner of this number writes."""
    return FIRST if number == 0 else f"current-{number:010}.json"


def number_of(file: Path) -> int | None:
    """The number in a pointer's name; None for any other file."""
    if file.name == FIRST:
        return 0
    found = _NUMBERED.fullmatch(file.name)
    return None if found is None else int(found[1])


def current_run(folder: Path) -> str | None:
    """The id of the run that counts in the folder of a data set; None before the first."""
    found = _pointers(folder)
    if not found:
        return None
    run_id: str = json.loads(found[-1][1].read_text(encoding="utf-8"))["run_id"]
    return run_id


def point_to(folder: Path, run_id: str, number: int) -> None:
    """Make a run the one that counts, unless a later runner has begun."""
    write_json(folder / file_name(number), {"run_id": run_id})
    for _, old in [found for found in _pointers(folder) if found[0] < number][: 1 - _KEPT]:
        old.unlink(missing_ok=True)


def take_over(datasets: Path, number: int) -> None:
    """From now on no earlier runner's pointer counts. What counts now goes on counting."""
    for folder in sorted(datasets.glob("*/")):
        run_id = current_run(folder)
        if run_id is not None:
            point_to(folder, run_id, number)


def _pointers(folder: Path) -> list[tuple[int, Path]]:
    """By number, the greatest last."""
    found = ((number_of(file), file) for file in folder.glob("current*.json"))
    return sorted((number, file) for number, file in found if number is not None)
