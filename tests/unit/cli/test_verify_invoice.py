"""What `penstock verify-invoice` prints of names that others chose cannot steer a terminal."""

import pytest

from penstock.cli.verify_invoice import _print
from penstock.verification.findings import Kind, LineFinding, PartitionFinding, Problem, Report

HOSTILE = "a\x1b]0;owned\x07\x1b[2K\rproven\n\x9b1A\u202e[/red][bold]"


def report(*problems: Problem) -> Report:
    """With hostile text wherever somebody else's text stands."""
    finding = PartitionFinding(
        topic=HOSTILE,
        topic_id="00" * 16,
        partition=0,
        log_generation=0,
        start_offset=0,
        end_offset=9,
        by_seals=(0, 1),
        by_cuts=(1, 2),
        lost=(8, 9),
        lost_messages=1,
        lost_bytes=1,
        malformed=[HOSTILE],
    )
    line = LineFinding(
        meter=HOSTILE,
        billed_quantity=1,
        counted_quantity=1,
        unproven_quantity=0,
        billed_amount_micro=0,
        due_amount_micro=0,
    )
    return Report(
        invoice=HOSTILE,
        number=1,
        document_sha256="00" * 32,
        tenant="tn_1",
        currency="EUR",
        minor_digits=2,
        period_start_ms=0,
        period_end_ms=1,
        cut=HOSTILE,
        price_book_sha256="00" * 32,
        billing_sequence=1,
        billing_hash="00" * 32,
        partitions=(finding,),
        lines=(line,),
        billed_total_micro=0,
        due_total_micro=0,
        credited_total_micro=10_000,
        granted=("Credit note no. 1 (cn_1) of 0.01 USD was granted: goodwill",),
        receipts=(HOSTILE,),
        problems=problems,
    )


@pytest.mark.parametrize("kinds", [[], [Kind.UNPROVEN], [Kind.DAY_DIFFERS], [Kind.DAY_DIFFERS] * 60])
def test_no_text_of_somebody_elses_moves_the_cursor(
    kinds: list[Kind], capsys: pytest.CaptureFixture[str]
) -> None:
    problems = [Problem(kind=kind, where=HOSTILE, message=HOSTILE) for kind in kinds]
    _print(report(*problems))
    told = capsys.readouterr().out
    steering = {character for character in told if not character.isprintable()} - {"\n", "\t"}
    assert steering == set()
    assert not any(row.startswith("proven") for row in told.splitlines())
    assert told.count("\\x1b]0;owned") >= 8 + 2 * min(len(kinds), 50)
