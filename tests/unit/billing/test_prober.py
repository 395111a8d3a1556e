"""A prober's rounds: what came of them is written, and kept while it cannot be."""

import logging
import threading
from collections.abc import Mapping

import pytest
from click.testing import CliRunner

from billing.probe_counts import MinuteKey, ProbeCounts
from control_plane.prober import SAID_EVERY_MINUTES, Said, probing
from penstock.cli.__main__ import cli
from penstock.rules.service_levels import PRODUCE, Counts

NOW = 30_000_000


def test_each_round_is_written_and_what_was_not_comes_with_the_next_until_the_end() -> None:
    counts, ended = ProbeCounts({}), threading.Event()
    minutes = iter((NOW, NOW + 1, NOW + 2))
    at = [0]
    written: list[Mapping[MinuteKey, Counts]] = []

    def probe() -> None:
        at[0] = next(minutes)
        counts.note(PRODUCE, at[0], good=at[0] != NOW)

    def write(taken: Mapping[MinuteKey, Counts]) -> bool:
        written.append(taken)
        if len(written) == 3:
            ended.set()
        return len(written) != 1  # the database is away at first

    probing(probe, counts, write, ended, lambda: at[0], every_s=0.0)
    failed, good = Counts(valid=1, bad=1), Counts(valid=1)
    assert written == [
        {MinuteKey(PRODUCE, NOW): failed},
        {MinuteKey(PRODUCE, NOW): failed, MinuteKey(PRODUCE, NOW + 1): good},
        {MinuteKey(PRODUCE, NOW + 1): good, MinuteKey(PRODUCE, NOW + 2): good},
    ]


def test_a_line_at_times_says_what_was_counted_since_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="control_plane.prober")
    said = Said(NOW)
    for good in (True, True, False):
        said.note(PRODUCE, good=good)
    said.say(NOW + SAID_EVERY_MINUTES - 1)
    assert caplog.records == []
    said.say(NOW + SAID_EVERY_MINUTES)
    said.say(NOW + SAID_EVERY_MINUTES + 1)
    said.say(NOW + 2 * SAID_EVERY_MINUTES)
    counted = [(one.__dict__["produce_good"], one.__dict__["produce_failed"]) for one in caplog.records]
    assert counted == [(2, 1), (0, 0)]


@pytest.mark.parametrize("half", [("--key-file", "probe.key"), ("--topic", "probes")])
def test_a_key_without_a_topic_and_a_topic_without_a_key_are_refused(half: tuple[str, str]) -> None:
    done = CliRunner().invoke(cli, ["server", "prober", "--config", "server.json", *half])
    assert done.exit_code == 2 and "--key-file and --topic go together" in done.output
