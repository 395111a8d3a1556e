"""A prober's counts: each minute as a whole, kept until it is written and over, and gone on with after a restart."""

from billing.probe_counts import MINUTES_KEPT, MinuteKey, ProbeCounts
from penstock.rules.service_levels import FETCH, PRODUCE, Counts

NOW = 30_000_000


def test_a_minute_is_kept_until_it_is_over_and_written_as_it_is() -> None:
    counts = ProbeCounts({})
    counts.note(PRODUCE, NOW, good=True)
    counts.note(PRODUCE, NOW, good=False)
    counts.note(FETCH, NOW, good=True)
    taken = counts.to_write()
    assert taken == {
        MinuteKey(PRODUCE, NOW): Counts(valid=2, bad=1),
        MinuteKey(FETCH, NOW): Counts(valid=1),
    }
    counts.written(taken, NOW)
    assert counts.to_write() == taken, "the minute is not over"
    counts.note(FETCH, NOW, good=False)
    counts.written(taken, NOW + 1)
    assert counts.to_write() == {MinuteKey(FETCH, NOW): Counts(valid=2, bad=1)}, "more came than was written"


def test_a_prober_that_is_started_again_goes_on_with_its_minute() -> None:
    counts = ProbeCounts({MinuteKey(PRODUCE, NOW): Counts(valid=5, bad=2)})
    counts.note(PRODUCE, NOW, good=False)
    assert counts.to_write() == {MinuteKey(PRODUCE, NOW): Counts(valid=6, bad=3)}


def test_while_nothing_can_be_written_the_newest_minutes_are_kept() -> None:
    counts = ProbeCounts({})
    for minute in range(2 * MINUTES_KEPT + 5):
        counts.note(PRODUCE, NOW + minute, good=True)
    kept = counts.to_write()
    assert len(kept) == 2 * MINUTES_KEPT and min(key.minute for key in kept) == NOW + 5
