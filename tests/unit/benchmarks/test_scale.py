"""The page about scale says what follows from pages of measurements, and nothing else."""

import pytest

from benchmarks import scale
from tests.architecture.house import ROOT

PAGES = ROOT / "docs" / "benchmarks"


@pytest.mark.parametrize("name", scale.FIGURES)
def test_each_figure_stands_on_the_page_that_it_names(name: str) -> None:
    figure = scale.FIGURES[name]
    assert figure.said in (PAGES / figure.page).read_text(), f"{figure.page} says something else now"
    assert f"{figure.value:,g}" in figure.said


@pytest.mark.parametrize("table", scale.tables(), ids=["figures", "assumptions", "load", "limits", "money"])
def test_each_table_of_the_page_is_the_reckoned_one(table: str) -> None:
    assert table in (PAGES / "scale.md").read_text(), f"write it again: python -m benchmarks.scale\n{table}"


def test_a_batch_costs_what_was_measured_at_both_ends() -> None:
    assert scale.batch_us(1) == 228
    assert scale.batch_us(100) - scale.batch_us(1) == pytest.approx(372 - 124)


def test_what_the_store_sends_at_a_loss_does_not_depend_on_the_number_of_brokers() -> None:
    for brokers in (10, 1_000):
        led = scale.partitions() / brokers
        a_block = scale.FIGURES["stored"].value * scale.ASSUMED["partitions"].value
        assert 3 * led * a_block * brokers / 1e9 == pytest.approx(scale.watch_gb())


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.0123, "0.012"), (23.8, "24"), (1_234, "1,200"), (104.5, "100")]
)
def test_numbers_have_the_digits_that_count(value: float, shown: str) -> None:
    assert scale.number(value) == shown
