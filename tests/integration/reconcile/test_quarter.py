"""A made-up quarter comes out to the micro-unit, and a difference would be named."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.rules import rating
from tests.reconcile.oracle import CENT, Ledger
from tests.reconcile.quarter import BOOKS
from tests.reconcile.truth import Partition
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.processes
def test_the_quarter_is_billed_and_collected_to_the_micro_unit() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.reconcile", "--short", "--batches", "3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-4_000:]
    assert ran.stdout.splitlines()[-1] == "difference 0 messages 0 bytes 0 micro-units over 10 invoices"


def partition(messages: int, size: int) -> Partition:
    made = Partition("tn_a", "orders", b"0" * 16, 0, [])
    made.append(1_000, messages, size, 1)
    return made


@given(messages=st.integers(1, 10_000), size=st.integers(1, 10**12), book=st.sampled_from(BOOKS))
def test_the_oracle_and_the_rating_agree(messages: int, size: int, book: dict[str, object]) -> None:
    ledger = Ledger()
    ledger.close("tn_a", [partition(messages, size)], 2_000, book, 0)
    rated = rating.rate(rating.PriceBook.read(book), {"messages_in": messages, "bytes_in": size})
    assert ledger.net_micro() == rated.total_micro


def test_a_loss_is_taken_back_from_the_period_that_billed_it() -> None:
    ledger, log = Ledger(), partition(2_000, 10)
    ledger.close("tn_a", [log], 2_000, BOOKS[0], 1_000)
    log.append(3_000, 5, 10, 1)
    log.lose(2)
    log.append(4_000, 300, 10, 1)
    ledger.close("tn_a", [log], 5_000, BOOKS[0], 0)
    first, second = ledger.periods["tn_a", 2_000], ledger.periods["tn_a", 5_000]
    # 1,400 messages at 1.7 cents and 500 at 1.33, less a tenth
    assert first.issued() == first.credited() == (2_000, 10, (3_045 - 305) * CENT)
    assert second.issued() == (300, 10, 340 * CENT) and second.credited() == (0, 0, 0)
