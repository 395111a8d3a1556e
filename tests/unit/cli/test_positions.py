"""`--from`: the four ways to say where reading begins."""

import pytest

from penstock.cli.positions import AtOffset, AtTime, Beginning, End, Position, parse_position

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", Beginning()),
        ("end", End()),
        ("0", AtOffset(0)),
        ("17", AtOffset(17)),
        ("2026-01-31T12:00:00Z", AtTime(1_769_860_800_000)),
        ("2026-01-31T13:00:00+01:00", AtTime(1_769_860_800_000)),
        ("2026-01-31T12:00:00", AtTime(1_769_860_800_000)),
        ("2026-01-31", AtTime(1_769_817_600_000)),
        ("-15m", AtTime(NOW_MS - 900_000)),
        ("-250ms", AtTime(NOW_MS - 250)),
        ("-2h", AtTime(NOW_MS - 7_200_000)),
        ("-99999d", AtTime(0)),
    ],
)
def test_each_form_of_a_position_is_read(text: str, position: Position) -> None:
    assert parse_position(text, NOW_MS) == position


@pytest.mark.parametrize("text", ["", "-5", "earliest", "yesterday", "1.5", "-5x", "٣", "2026-13-01"])
def test_anything_else_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match="beginning, end, an offset"):
        parse_position(text, NOW_MS)
