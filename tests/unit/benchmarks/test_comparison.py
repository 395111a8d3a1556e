"""What the comparison with peers makes of its readings."""

import json

import pytest
from rich.console import Console

from benchmarks.figures import Measured
from benchmarks.messages import COUNT, message_values
from benchmarks.peers.comparison import (
    Comparison,
    Reading,
    Row,
    Window,
    is_warm,
    longest_gap_s,
    number,
    reading_of,
)

RATE = Row(key="rate", title="produce", unit="messages/s", more_is_better=True)
WAIT = Row(key="wait", title="acknowledged", unit="ms")
SYSTEMS = (("ours", "Ours"), ("other", "Other"), ("third", "Third"))


def window(messages: int, servers_cpu_s: float = 0.0, client_cpu_s: float = 0.0) -> Window:
    return Window(messages=messages, seconds=2.0, servers_cpu_s=servers_cpu_s, client_cpu_s=client_cpu_s)


def comparison(**values: tuple[float, ...]) -> Comparison:
    """Readings by `row_system`."""
    made = Comparison(rows=(RATE, WAIT), systems=SYSTEMS)
    for name, several in values.items():
        row, _, system = name.partition("_")
        for value in several:
            made.add(row, system, Reading(value=value))
    return made


def test_a_system_is_warm_when_two_windows_in_a_row_are_alike() -> None:
    assert not is_warm([window(100)])
    assert not is_warm([window(100), window(100), window(120)])
    assert is_warm([window(10), window(100), window(109)])


def test_a_system_that_takes_nothing_is_not_warm() -> None:
    assert not is_warm([window(0), window(0)])


def test_a_rate_and_its_processor_time_are_those_of_the_last_two_windows() -> None:
    reading = reading_of([window(7, 1.0, 0.5), window(1_000, 2.0, 1.0), window(3_000, 6.0, 3.0)])
    assert reading.value == 1_000.0
    assert reading.servers_us == pytest.approx(5.0 / 4_000 * 1e6)
    assert reading.client_us == pytest.approx(2.5 / 4_000 * 1e6)
    assert not reading.steady


def test_a_rate_needs_three_windows_and_messages() -> None:
    with pytest.raises(ValueError, match="2 windows"):
        reading_of([window(5), window(5)])
    with pytest.raises(ValueError, match="no message"):
        reading_of([window(5), window(0), window(0)])


def test_the_gap_is_the_longest_time_between_two_acknowledgements() -> None:
    assert longest_gap_s([1_000.0, 1_002.0, 3_502.0, 3_503.0]) == 2.5
    with pytest.raises(ValueError, match="1 acknowledgements"):
        longest_gap_s([5.0])


def test_more_messages_and_shorter_waits_are_ahead() -> None:
    found = comparison(
        rate_ours=(300, 320, 310), rate_other=(100, 160, 155), wait_ours=(4, 5), wait_other=(2, 2)
    )
    assert (found.verdict(RATE, "other"), found.ratio(RATE, "other")) == ("ahead", 2.0)
    assert (found.verdict(WAIT, "other"), found.ratio(WAIT, "other")) == ("behind", 0.4)


def test_rounds_that_overlap_are_level() -> None:
    found = comparison(rate_ours=(100, 140, 150), rate_other=(90, 110, 100))
    assert found.verdict(RATE, "other") == "level"


def test_what_was_not_measured_is_not_judged() -> None:
    found = comparison(rate_ours=(100,), wait_other=(3,))
    assert found.verdict(RATE, "other") is None
    assert found.verdict(WAIT, "other") is None
    assert found.never_behind() == (0, 0)


def test_a_row_counts_when_no_peer_is_ahead_in_it() -> None:
    found = comparison(rate_ours=(100,), rate_other=(50,), rate_third=(200,), wait_ours=(1,), wait_other=(2,))
    assert found.never_behind() == (1, 2)


def test_the_table_has_medians_spread_verdict_and_processor_time() -> None:
    found = comparison(rate_ours=(300_000, 350_000, 250_000))
    found.add("rate", "other", Reading(value=100_000, servers_us=4.0, client_us=1.5, steady=False))
    console = Console(width=160, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as shown:
        console.print(found.table("title"))
    text = shown.get()
    assert "300k (250k to 350k)" in text
    assert "100k ~" in text  # the rate was not steady yet
    assert "Penstock ahead, 3x" in text
    assert "4.00 + 1.50 µs a message" in text
    assert "acknowledged" not in text, "a row without readings is left out"


def test_the_line_has_every_row_and_why_a_system_is_absent() -> None:
    found = comparison(rate_ours=(300, 310, 320), rate_other=(100,))
    found.absent["third"] = "needs go"
    line = json.loads(Measured(name="peers", value=1, unit="rows", details=found.details()).line())
    assert line["name"] == "peers"
    assert line["rows"]["rate"]["ours"] == {
        "median": 310,
        "min": 300,
        "max": 320,
        "rounds": 3,
        "unit": "messages/s",
        "unsteady_rounds": 0,
    }
    assert line["rows"]["rate"]["other"]["penstock"] == "ahead"
    assert line["absent"] == {"third": "needs go"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1_234_567.0, "1,235k"), (10_000.0, "10k"), (4_900.4, "4,900"), (17.26, "17.3"), (0.338, "0.34")],
)
def test_numbers_have_the_digits_that_count(value: float, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize("size", [100, 1_000])
def test_messages_have_the_size_and_are_different(size: int) -> None:
    values = message_values(size)
    assert len(values) == len(set(values)) == COUNT
    assert {len(value) for value in values} == {size}


def test_no_messages_are_made_shorter_than_asked_for() -> None:
    with pytest.raises(ValueError, match="5000 bytes"):
        message_values(5_000)
