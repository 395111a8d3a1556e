"""A process of `traffic.py` on the SDK of one release, and what may be said of its report."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S

from .release import Release

PROGRAM = Path(__file__).parent / "traffic.py"


@dataclass(kw_only=True)
class Traffic:
    """What a client saw; there once the block that it ran in has ended."""

    topic: str
    group: str
    version: str = ""
    acknowledged: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(producer, number, partition, offset)"""
    read: list[tuple[int, int]] = field(default_factory=list)
    """(partition, offset), as the group got them."""
    errors: list[str] = field(default_factory=list)
    """All that reached the user of the SDK."""


@contextmanager
def traffic(
    release: Release, folder: Path, *, topic: str, group: str, **connection: Any
) -> Iterator[Traffic]:
    """Runs within the block, from the first message that was read on; then everything is acknowledged and read.
    `connection`: what its client takes.
    """
    seen = Traffic(topic=topic, group=group)
    settings = {**connection, "topic": topic, "group": group, "producers": 2}
    output = folder / f"traffic-{topic}.log"
    with output.open("wb") as errors:
        process = subprocess.Popen(
            release.command(str(PROGRAM), json.dumps(settings)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=release.environment(),
            cwd=folder,
            text=True,
        )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "flowing\n", output.read_text()
        yield seen
        told, _ = process.communicate("", timeout=PATIENCE_S)
        if process.returncode:
            pytest.fail(
                f"traffic on the SDK {release.version}: status {process.returncode}\n{output.read_text()}"
            )
        _fill(seen, json.loads(told))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        if process.stdin is not None:
            process.stdin.close()


def _fill(seen: Traffic, report: Mapping[str, Any]) -> None:
    seen.version, seen.errors = report["version"], report["errors"]
    seen.acknowledged = [(one, two, three, four) for one, two, three, four in report["acknowledged"]]
    seen.read = [(partition, offset) for partition, offset in report["read"]]


def judge(seen: Traffic, log: Mapping[int, Sequence[bytes]]) -> list[str]:
    """What is wrong with what a client was told, beside the whole log: values by partition, from offset 0 on."""
    wrong = [f"reached the user: {error}" for error in seen.errors]
    stored: dict[tuple[int, int], tuple[int, int]] = {}
    newest: dict[tuple[int, int], int] = {}
    for partition in sorted(log):
        for offset, value in enumerate(log[partition]):
            producer, number = map(int, value.split())
            if (producer, number) in stored:
                wrong.append(
                    f"doubled: {producer} {number} at {stored[producer, number]} and {partition, offset}"
                )
            stored[producer, number] = partition, offset
            if number < newest.get((producer, partition), -1):
                wrong.append(f"out of order: {producer} {number} in {partition} at {offset}")
            newest[producer, partition] = number
    for producer, number, partition, offset in seen.acknowledged:
        if stored.get((producer, number)) != (partition, offset):
            wrong.append(
                f"lost: {producer} {number} at {partition, offset}, found {stored.get((producer, number))}"
            )
    if len(stored) != len(seen.acknowledged):
        wrong.append(f"{len(stored)} messages are stored, {len(seen.acknowledged)} were acknowledged")
    next_of: dict[int, int] = {}
    for partition, offset in seen.read:
        if offset > next_of.get(partition, 0):
            wrong.append(f"skipped by the group: {partition} from {next_of.get(partition, 0)} to {offset}")
        next_of[partition] = max(next_of.get(partition, 0), offset + 1)
    for partition in sorted(log):
        if next_of.get(partition, 0) != len(log[partition]):
            wrong.append(
                f"the group read {next_of.get(partition, 0)} of {len(log[partition])} in {partition}"
            )
    return wrong
