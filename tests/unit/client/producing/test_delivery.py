"""What waits for the outcome of a batch runs once, in order, whoever comes first; and what was lost is told."""

import gc
import logging
from typing import Any, cast

import pytest

from penstock.blocking.delivery import Delivery, outcomes_missing, serve_callbacks
from penstock.client.producing.batch import ProducerBatch
from penstock.client.producing.delivery import (
    add_done_callback,
    flush_timeout_after,
    remove_done_callback,
    run_callbacks,
    warn_unacknowledged,
)
from penstock.contract.errors import Closed, ConfigurationError, PenstockError


class Batch:
    """What callbacks need of a batch."""

    def __init__(self, count: int = 1, error: PenstockError | None = None) -> None:
        self.callbacks: list[Any] = []
        self.done = False
        self.count = count
        self.error = error


def batch(count: int = 1, error: PenstockError | None = None) -> ProducerBatch:
    return cast(ProducerBatch, Batch(count, error))


def test_callbacks_run_once_in_their_order_when_the_outcome_is_known() -> None:
    one, two, told = batch(), batch(), list[str]()
    add_done_callback(one, lambda: told.append("a"))
    add_done_callback(one, lambda: told.append("b"))
    add_done_callback(two, lambda: told.append("c"))
    assert told == []
    one.done = two.done = True
    run_callbacks([two, one])
    run_callbacks([one, two])
    assert told == ["c", "a", "b"]
    add_done_callback(one, lambda: told.append("d"))
    assert told == ["c", "a", "b", "d"], "it is known already"
    assert one.callbacks == []


def test_a_callback_is_taken_back_once_and_not_after_it_was_called() -> None:
    one, told = batch(), list[str]()

    def first() -> None:
        told.append("first")

    def second() -> None:
        told.append("second")

    add_done_callback(one, first)
    add_done_callback(one, second)
    assert remove_done_callback(one, first)
    assert not remove_done_callback(one, first)
    one.done = True
    run_callbacks([one])
    assert told == ["second"]
    assert not remove_done_callback(one, second)


@pytest.mark.parametrize("ends", [SystemExit(1), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_a_callback_that_would_end_the_program_ends_no_thread_of_the_client(
    ends: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """In the application's own thread it ends what it would end anywhere."""
    served, own, calls = batch(), batch(), list[str]()

    def end() -> None:
        raise ends

    for each in (served, own):
        add_done_callback(each, end)
        add_done_callback(each, lambda: calls.append("next"))
        each.done = True
    serve_callbacks([served])
    assert calls == ["next"]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR and "cannot end the program" in record.getMessage()
    with pytest.raises(type(ends)):
        run_callbacks([own])


def test_a_callback_that_would_wait_for_its_own_thread_is_refused_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done, pending, known = batch(), batch(), batch()
    known.done = True
    calls: list[int] = []
    add_done_callback(done, lambda: calls.append(outcomes_missing([known], None)))
    add_done_callback(done, lambda: calls.append(outcomes_missing([pending], None)))
    done.done = True
    serve_callbacks([done])
    assert calls == [0], "what is known is not waited for"
    (record,) = caplog.records
    assert record.exc_info is not None and isinstance(record.exc_info[1], ConfigurationError)
    assert "callback cannot wait" in str(record.exc_info[1])
    assert outcomes_missing([pending], 0.01) == 1, "elsewhere it waits"


def test_a_callback_that_fails_keeps_no_other_from_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    one, told = batch(), list[str]()

    def broken() -> None:
        raise ZeroDivisionError

    add_done_callback(one, broken)
    add_done_callback(one, lambda: told.append("after"))
    one.done = True
    with caplog.at_level(logging.ERROR, "penstock"):
        run_callbacks([one])
    assert told == ["after"]
    assert "a delivery's callback failed" in caplog.text


def test_a_block_that_ends_by_an_interrupt_does_not_wait_and_any_other_does() -> None:
    assert flush_timeout_after(None) is None
    assert flush_timeout_after(ValueError) is None
    assert flush_timeout_after(KeyboardInterrupt) == 0.0


def test_messages_that_were_lost_are_counted_and_told_and_others_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn_unacknowledged([batch(5), batch(7)], "the end")
    assert not caplog.records
    lost = [batch(5), batch(2, Closed("closed")), batch(3, Closed("later"))]
    with pytest.warns(ResourceWarning, match=r"5 messages were not acknowledged before the end \(closed\)"):
        warn_unacknowledged(lost, "the end")
    assert "5 messages" in caplog.text


def test_deliveries_are_told_apart_by_identity_and_leave_nothing_to_collect() -> None:
    shared = batch(2)
    one, other = Delivery(shared, 0, 5), Delivery(shared, 0, 5)
    assert one != other
    assert len({one, other}) == 2
    assert not gc.is_tracked(one)
