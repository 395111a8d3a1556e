"""Answers that wait, against a list of them that is looked through from its start after every event."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.replication.acknowledgement import AnswerWhen, PendingAnswers

Waiting = list[tuple[AnswerWhen, int, int]]
"""What has to hold, the end of the batch, and which answer it is."""


def owed(waiting: Waiting, durable_end: int, high_watermark: int) -> set[int]:
    """All answers that are to be given now."""
    ends = {AnswerWhen.DURABLE: durable_end, AnswerWhen.COMMITTED: high_watermark}
    return {answer for when, end_offset, answer in waiting if end_offset <= ends.get(when, end_offset)}


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_each_answer_is_given_once_as_soon_as_what_it_waits_for_holds(seed: int) -> None:
    chosen = random.Random(seed)
    pending = PendingAnswers[int]()
    waiting: Waiting = []
    log_end = durable_end = high_watermark = 0
    for answer in range(80):
        event = chosen.random()
        when = chosen.choice(list(AnswerWhen))
        if event < 0.5:
            log_end += chosen.randint(1, 3)
            pending.wait(when, log_end, answer)
            waiting.append((when, log_end, answer))
        elif event < 0.6 and log_end:
            end_offset = chosen.randint(1, log_end)
            pending.wait_again(when, end_offset, answer)
            waiting.append((when, end_offset, answer))
        elif event < 0.8:
            durable_end = chosen.randint(durable_end, log_end)
        else:
            # It passes what is durable here where written ends count.
            high_watermark = chosen.randint(high_watermark, log_end)
        limit = chosen.choice((1, 3, 1_000))
        due = owed(waiting, durable_end, high_watermark)
        given_now = list(pending.due(durable_end, high_watermark, limit))
        assert len(given_now) == len(set(given_now)) == min(limit, len(due)), f"seed {seed}"
        assert set(given_now) <= due, f"seed {seed}"
        waiting = [one for one in waiting if one[2] not in given_now]
        assert len(pending) == len(waiting), f"seed {seed}"
    assert sorted(pending.take_all()) == sorted(answer for _, _, answer in waiting)
    assert len(pending) == 0 and not pending.due(log_end, log_end, 1_000)
