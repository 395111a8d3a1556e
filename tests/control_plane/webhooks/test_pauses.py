"""When a failing endpoint is given up."""

from datetime import UTC, datetime, timedelta

import pytest

from control_plane.webhooks.pauses import FAILING_MAX, FAILURES_MIN, PAUSES, next_attempt

SINCE = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("failures", "after", "given_up"),
    [
        (2, FAILING_MAX * 3, False),
        (FAILURES_MIN - 1, FAILING_MAX, False),
        (FAILURES_MIN, FAILING_MAX - timedelta(seconds=1), False),
        (FAILURES_MIN, FAILING_MAX, True),
        (len(PAUSES), FAILING_MAX - timedelta(days=1), False),
        (len(PAUSES) + 1, timedelta(hours=1), True),
    ],
)
def test_days_alone_give_no_endpoint_up(failures: int, after: timedelta, given_up: bool) -> None:
    again = next_attempt(failures, SINCE, SINCE + after, retry_after=None, chance=0.0)
    assert (again is None) is given_up


def test_an_endpoint_that_asks_for_the_longest_pauses_is_given_up_all_the_same() -> None:
    now, failures = SINCE, 0
    while True:
        failures += 1
        again = next_attempt(failures, SINCE, now, retry_after=timedelta(days=30), chance=0.0)
        if again is None:
            break
        now = again
    assert (failures, now - SINCE) == (FAILURES_MIN, FAILING_MAX)
