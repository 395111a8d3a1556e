"""Sizes and times are typed as people say them."""

import click
import pytest

from penstock.cli.__main__ import cli, run
from penstock.cli.quantities import SIZES, TIMES, Duration, Size, in_unit, read_quantity

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("7d", 7 * DAY_MS),
        ("1w", 7 * DAY_MS),
        ("90m", 5_400_000),
        ("36h", 129_600_000),
        ("10s", 10_000),
        ("500ms", 500),
        ("604800000", 604_800_000),
        ("-1", -1),
    ],
)
def test_times_are_milliseconds(text: str, milliseconds: int) -> None:
    assert read_quantity(text, TIMES) == milliseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GiB", 2**30),
        ("1MiB", 2**20),
        ("64KiB", 65_536),
        ("1GB", 10**9),
        ("5kB", 5_000),
        ("5KB", 5_000),
        ("12B", 12),
        ("1048576", 2**20),
        ("-1", -1),
    ],
)
def test_sizes_are_bytes(text: str, size: int) -> None:
    assert read_quantity(text, SIZES) == size


@pytest.mark.parametrize("text", ["", "d", "1.5d", "1 d", "7days", "-7d", "1G", "1gib", "1e9", "٣d", "0x10"])
def test_what_is_neither_is_refused_with_what_is_accepted(text: str) -> None:
    for units in (SIZES, TIMES):
        with pytest.raises(ValueError, match="whole number"):
            read_quantity(text, units)


def test_topic_commands_take_them_wherever_bytes_or_milliseconds_are_asked() -> None:
    topic = cli.get_command(click.Context(cli), "topic")
    assert isinstance(topic, click.Group)
    for name in ("create", "alter"):
        command = topic.commands[name]
        for option in command.params:
            if option.name is not None and option.name.endswith("_ms"):
                assert isinstance(option.type, Duration), option.name
            if option.name is not None and option.name.endswith("_bytes"):
                assert isinstance(option.type, Size), option.name


def test_a_wrong_one_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topic", "alter", "orders", "--retention-ms", "seven days"]) == 2
    assert "ms, s, m, h, d, w" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("retention_ms", 604_800_000, "7d"),
        ("retention_bytes", -1, "no limit"),
        ("segment_bytes", 1 << 30, "1GiB"),
        ("max_message_bytes", 1_048_577, ""),
        ("consume_bytes_per_s", 5_000_000, "5MB/s"),
        ("rest_processor_ms_per_s", 1_000, ""),
        ("topics_max", 1_000, ""),
        ("durability", "fsync", ""),
    ],
)
def test_a_number_is_shown_in_the_unit_that_options_take(name: str, value: object, shown: str) -> None:
    assert in_unit(name, value) == shown
