"""A client that nobody closed sends what it holds when the program ends, or tells how many messages were lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.contract.errors import ErrorCode
from penstock.receipts import read_receipts
from tests.integration.sdk.fake_brokers import FakeBrokers
from tests.integration.sdk.unclosed import COUNT, ENDINGS
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
NOTHING_IS_SENT = {
    "by_an_interrupt": "KeyboardInterrupt",
    "refused": "wait for a replica",
    "asyncio_run_refused": "wait for a replica",
    "asyncio_loop_that_stopped": "closed before this message was sent",
}
"""Endings after which the messages are told as lost, and what is said beside it."""
TRIES = 5
"""A program has three seconds; on a busy machine they may pass before a broker has refused anything."""


@pytest.fixture
def brokers() -> Iterator[FakeBrokers]:
    with FakeBrokers(count=1, api_key="key") as running:
        running.act(lambda cluster: cluster.create("orders", 1))
        yield running


def end(ending: str, brokers: FakeBrokers, receipts: Path) -> tuple[str, int]:
    """What the program wrote to its standard error stream, and how many messages arrived."""
    command = [sys.executable, "-W", "default", "-m", "tests.integration.sdk.unclosed", ending]
    done = subprocess.run(
        [*command, *brokers.bootstrap, str(receipts)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stderr, brokers.act(lambda cluster: cluster.topics["orders"].partitions[0].next_offset)


@pytest.mark.parametrize("ending", sorted(ENDINGS.keys() - NOTHING_IS_SENT))
def test_what_an_unclosed_producer_holds_is_sent_when_its_program_ends(
    ending: str, brokers: FakeBrokers, tmp_path: Path
) -> None:
    said, arrived = end(ending, brokers, tmp_path / "receipts")
    assert arrived == COUNT, said
    assert read_receipts(tmp_path / "receipts").messages == COUNT
    assert "not acknowledged" not in said
    assert "destroyed but it is pending" not in said


@pytest.mark.parametrize("ending", sorted(NOTHING_IS_SENT))
def test_what_cannot_be_sent_any_more_is_told_with_its_number(
    ending: str, brokers: FakeBrokers, tmp_path: Path
) -> None:
    brokers.act(
        lambda cluster: cluster.refusals.extend(
            [(ErrorCode.NOT_ENOUGH_REPLICAS, "wait for a replica")] * 10_000
        )
    )
    said = ""
    for number in range(TRIES):
        said, arrived = end(ending, brokers, tmp_path / f"receipts-{number}")
        assert arrived == 0
        assert said.count(f"penstock: {COUNT} messages were not acknowledged before") == 2, said
        assert "ResourceWarning" in said
        if NOTHING_IS_SENT[ending] in said:
            break
    assert NOTHING_IS_SENT[ending] in said
