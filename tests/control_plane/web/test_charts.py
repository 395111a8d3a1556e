"""Charts and numbers: where bars stand and how things are written."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web import charts, formats


@given(st.integers(0, 10**15))
def test_ticks_are_few_and_reach_the_highest_value(highest: int) -> None:
    ticks = charts.nice_ticks(highest)
    assert ticks[0] == 0
    assert ticks[-1] >= max(1, highest)
    assert 2 <= len(ticks) <= 5
    assert len({b - a for a, b in pairwise(ticks)}) == 1


@given(st.lists(st.lists(st.integers(0, 10**9), min_size=7, max_size=7), max_size=12))
def test_bars_stay_within_the_chart_and_stand_on_its_base(rows: list[list[int]]) -> None:
    series = charts.folded([charts.Series(name=f"t{n}", values=tuple(row)) for n, row in enumerate(rows)])
    assert len(series) <= charts.SERIES_MAX
    assert sum(sum(one.values) for one in series) == sum(map(sum, rows))
    chart = charts.stacked_bars(list("abcdefg"), series, width=960, height=230, name="broad")
    for bar in chart.bars:
        assert chart.left <= bar.x
        assert bar.x + bar.width <= chart.width
        if bar.blocks:
            assert abs(bar.blocks[0].y + bar.blocks[0].height - chart.base) < 0.02
            assert bar.blocks[-1].y >= 0


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (1_234_567, "1.2 MB"), (5 * 10**12, "5.0 TB")],
)
def test_sizes_are_decimal_as_prices_count_them(number: int, text: str) -> None:
    assert formats.size(number) == text


@pytest.mark.parametrize(
    ("micro", "text"),
    [
        (0, "0.00 USD"),
        (1_234_500_000, "1,234.50 USD"),
        (-500_000, "−0.50 USD"),
        (1, "0.000001 USD"),
    ],
)
def test_amounts_have_the_places_of_their_currency_unless_they_are_finer(micro: int, text: str) -> None:
    assert formats.amount(micro, 2, "USD") == text


def test_spans_and_moments_read_well() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert formats.span(7 * 86_400_000) == "7 days"
    assert formats.span(3_600_000) == "1 hour"
    assert formats.span(-1) == "unlimited"
    assert formats.ago(now - timedelta(minutes=1), now) == "1 minute ago"
    assert formats.ago(now + timedelta(days=89, hours=23), now) == "in 90 days"
    assert formats.ago(now, now) == "just now"
    assert formats.time_of(-1) == "no time"
    assert formats.time_of(1_357_000_000_123) == "2013-01-01 00:26:40.123"
    assert formats.price("0.002000000000") == "0.002"
    assert formats.price("1.000000000000") == "1.00"


def test_a_band_goes_on_from_what_was_and_says_where_it_ends() -> None:
    drawn = charts.band(
        [0, 10, 20], [(20, 25, 30), (20, 30, 60)], ("1 Nov", "today", "30 Nov"), width=960, height=220,
        name="broad", text=str,
    )  # fmt: skip
    assert len(drawn.past.split()) == 3 and len(drawn.expected.split()) == 3
    assert drawn.past.split()[-1] == drawn.expected.split()[0] == drawn.band.split()[0]
    assert [text for _, text in drawn.ends] == ["60", "30", "20"]
    heights = [y for y, _ in drawn.ends]
    assert all(low - high >= 13 for high, low in pairwise(heights)), "no label covers another"


def test_bars_that_can_still_change_are_marked_and_nothing_negative_is_drawn() -> None:
    series = [charts.Series(name="a", values=(5, -3, 2))]
    chart = charts.stacked_bars(
        list("xyz"), series, width=960, height=230, name="broad", text=formats.short_amount, open_from=1
    )
    assert [bar.open for bar in chart.bars] == [False, False, True]
    assert [len(bar.blocks) for bar in chart.bars] == [1, 0, 1]


@pytest.mark.parametrize(
    ("micro", "text"), [(0, "0"), (50_000, "0.05"), (12_500_000, "12.5"), (3_400_000_000, "3.4k")]
)
def test_amounts_on_an_axis_are_short(micro: int, text: str) -> None:
    assert formats.short_amount(micro) == text


@pytest.mark.parametrize(
    ("micro", "rounded"),
    [(1_004_999, 1_000_000), (1_005_000, 1_010_000), (-1_005_000, -1_010_000), (4_999, 0)],
)
def test_amounts_are_rounded_to_the_currency(micro: int, rounded: int) -> None:
    assert formats.rounded(micro, 2) == rounded
