"""Rounds that go on from the one before publish what a fold of everything would, whatever comes late or again."""

from collections.abc import Callable
from random import Random

import pytest

from data_plane.contract import usage_pb2 as pb
from spark_usage import datasets
from spark_usage.manifest import windows_of
from tests.conftest import FULL
from tests.spark_usage.conftest import Pipeline
from tests.spark_usage.random_logs import START_MS, arrivals, random_log
from tests.spark_usage.records import MINUTE, Stored, Writer, topic_id

pytestmark = [pytest.mark.slow]

HISTORIES = 1_000 if FULL else 50
ROUNDS = 3
SEEDS = (20261128, 1, 2) if FULL else (20261128,)


def digests(pipeline: Pipeline) -> dict[str, tuple[int, str, dict[str, str]]]:
    """Data set -> (rows, digest, digest of each window) of what counts now."""
    found = {}
    for dataset in datasets.ALL:
        manifest = pipeline.catalog.current(dataset.name)
        assert manifest is not None
        windows = {name: window.digest for name, window in windows_of(manifest).items()}
        found[dataset.name] = (manifest["rows"], manifest["digest"], windows)
    return found


def first_of_each(stored: list[Stored], share: float) -> list[Stored]:
    """The first part of each partition of `__usage`."""
    sizes = {one.partition: 0 for one in stored}
    for one in stored:
        sizes[one.partition] = max(sizes[one.partition], one.offset + 1)
    return [one for one in stored if one.offset < int(sizes[one.partition] * share)]


@pytest.mark.parametrize("seed", SEEDS)
def test_rounds_over_parts_of_many_histories_end_with_the_digests_of_one_over_all(
    seed: int, make_pipeline: Callable[[str], Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    """One tenant a history: readings come in any order, twice, or not at all; losses are declared; records are stored
    twice; a boot's increments come late; records are damaged.
    """
    random = Random(seed)
    logs = [
        random_log(random, f"tn_{number:03}", 0, losses=0.2 if number % 4 == 0 else 0.02)
        for number in range(HISTORIES)
    ]
    stored, _ = arrivals(random, logs)
    stored += increments_and_damage(random, stored)
    parts, whole = make_pipeline("parts"), make_pipeline("whole")
    for number in range(1, ROUNDS + 1):
        done = parts.fold(first_of_each(stored, number / ROUNDS), again=False)
        assert done.recomputed
    assert "all of bronze" not in caplog.text
    carried = parts.catalog.current("reading")
    assert carried is not None and any("run" in file for file in carried["files"]), "it went on from a round"
    whole.fold(stored)
    assert digests(parts) == digests(whole)
    assert parts.fold(stored, again=True).recomputed, "and `again` finds the digests that are published"


def increments_and_damage(random: Random, stored: list[Stored]) -> list[Stored]:
    """More records at the ends of the partitions: deliveries and requests of a fourth boot, damage, a hole."""
    writer = Writer(4, "boot-4")
    ends = {one.partition: 0 for one in stored}
    for one in stored:
        ends[one.partition] = max(ends[one.partition], one.offset + 1)
    more = []
    for number in range(40):
        minute = START_MS // MINUTE + random.randrange(200)
        tenant = f"tn_{random.randrange(HISTORIES):03}"
        taken = pb.Delivered(
            tenant=tenant, topic_id=topic_id(tenant + "orders"), topic="orders", group="g", principal=7,
            minute=minute, messages=4, bytes=400,
        )  # fmt: skip
        asked = pb.Requests(tenant=tenant, operation="fetch", minute=minute, valid=number, bad=0)
        value = b"rubbish" if number % 13 == 5 else writer.record(delivered=[taken], requests=[asked])
        if number % 11 == 3:
            writer.sequence += 1
        partition = random.choice(sorted(ends))
        ends[partition] += 2 if number == 20 else 1
        more.append(Stored(partition=partition, offset=ends[partition] - 1, value=value))
    return more
