"""Requests to one broker after another: whom they go to, how long each may take, and the one end that each has."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from penstock.client.actions import StartCall
from penstock.client.consuming.offset_lookups import OffsetLookup
from penstock.client.conversations import BROKER_MS, Patience
from penstock.client.core import REFRESH_MS, SUSPECT_MS, ClientCore
from penstock.client.ports import BrokerRequest
from penstock.client.timing import NEVER
from penstock.contract import methods
from penstock.contract.errors import (
    BrokerUnavailable,
    ErrorCode,
    Forbidden,
    NoLeader,
    PenstockError,
    Throttled,
    TimedOut,
)
from penstock.contract.limits import CALL_WAIT_MS_MAX
from penstock.contract.v1 import log_pb2
from tests.unit.client.runner import Runner

ADDRESSES = ("b0", "b1", "b2")


class Asking:
    """A core that knows three bootstrap addresses, and what becomes of what it is asked."""

    def __init__(self, addresses: tuple[str, ...] = ADDRESSES) -> None:
        self.core = ClientCore(addresses, Random(1))
        self.now = 1_000.0
        self.answers: list[bytes] = []
        self.failures: list[PenstockError] = []

    def ask(self, deadline: float = NEVER, *, broker: int | None = None, once: bool = False) -> BrokerRequest:
        return self.core.send_request(
            "/penstock.v1.Log/ListOffsets",
            b"question",
            deadline=deadline,
            on_answer=lambda response, now: self.answers.append(response),
            on_failure=lambda error, now: self.failures.append(error),
            broker=broker,
            once=once,
        )

    def called(self) -> list[StartCall]:
        """What is asked now."""
        self.core.step(self.now)
        actions, self.core.actions = self.core.actions, []
        return [action for action in actions if isinstance(action, StartCall)]

    def next_call(self) -> StartCall:
        """The next one, as soon as it comes."""
        self.now = max(self.now, self.core.next_step_at())
        (call,) = self.called()
        return call

    def fail(self, call: StartCall, code: ErrorCode | None = None, message: str = "refused") -> None:
        self.core.call_failed(call.token, code, message, self.now)

    def know(self, *brokers: int) -> None:
        """These are registered."""
        response = log_pb2.MetadataResponse(cluster_id="fake", revision=1)
        for broker in brokers:
            response.brokers.add(id=broker, address=f"b{broker}", zone="z")
        self.core._apply(response, self.now)


def test_a_silent_broker_is_given_more_time_with_each_try_and_each_is_another_one() -> None:
    asking = Asking()
    asking.ask()
    calls = []
    for _ in range(7):
        calls.append(asking.next_call())
        asking.now += calls[-1].timeout_ms
        asking.fail(calls[-1], message="deadline exceeded")
    assert [call.timeout_ms for call in calls] == [1_500, 3_000, 6_000, 10_000, 10_000, 10_000, 10_000]
    assert all(one.address != other.address for one, other in pairwise(calls))
    assert {call.address for call in calls[:3]} == set(ADDRESSES)
    assert {call.method for call in calls} == {"/penstock.v1.Log/ListOffsets"}
    asking.core.call_answered(asking.next_call().token, b"answer", asking.now)
    assert (asking.answers, asking.failures) == ([b"answer"], [])
    assert asking.called() == []


def test_within_a_round_the_next_broker_is_asked_at_once_and_after_each_round_there_is_a_pause() -> None:
    asking = Asking()
    asking.ask()
    waits = []
    for _ in range(9):
        asking.fail(asking.next_call())
        waits.append(asking.core.next_step_at() - asking.now)
    assert waits[:2] == [10, 10]
    assert all(25 <= wait <= 50 for wait in waits[2:5])
    assert all(50 <= wait <= 100 for wait in waits[5:8])
    assert 100 <= waits[8] <= 200


def test_no_try_lasts_beyond_the_deadline_and_then_each_address_is_named_with_its_cause() -> None:
    asking = Asking()
    asking.ask(asking.now + 2_000)
    first = asking.next_call()
    asking.now += first.timeout_ms
    asking.fail(first, message="no route")
    second = asking.next_call()
    assert second.timeout_ms == 2_000 - 1_500 - 10
    asking.now += second.timeout_ms
    asking.fail(second, message="refused")
    assert asking.called() == []
    (failure,) = asking.failures
    assert isinstance(failure, BrokerUnavailable)
    for said in ("no broker answered ListOffsets in time", f"{first.address}: no route", "refused"):
        assert said in failure.message
    asking.now += 60_000
    assert asking.called() == [] and len(asking.failures) == 1


def test_a_caller_whose_calls_were_throttled_hears_that_though_the_last_try_was_cut_short() -> None:
    asking = Asking()
    asking.ask(asking.now + 1_200)
    asking.fail(asking.next_call(), message="no route")
    asking.fail(asking.next_call(), Throttled.code, "its tenant has used all of its limit")
    asking.fail(asking.next_call(), message="no route")
    last = asking.next_call()
    assert last.timeout_ms < CALL_WAIT_MS_MAX + 500
    asking.now += last.timeout_ms + 1
    asking.fail(last, message="deadline exceeded")
    assert asking.called() == []
    (failure,) = asking.failures
    assert isinstance(failure, Throttled) and failure.retriable
    for said in (
        "no broker answered ListOffsets in time",
        "its tenant has used all of its limit",
        "no route",
    ):
        assert said in failure.message
    assert "deadline exceeded" not in failure.message


def test_a_broker_that_no_longer_throttles_is_not_said_to() -> None:
    asking = Asking(("b0",))
    asking.ask(asking.now + 4_000)
    asking.fail(asking.next_call(), Throttled.code, "used all")
    asking.fail(asking.next_call(), message="connection refused")
    asking.now += 5_000
    assert asking.called() == []
    (failure,) = asking.failures
    assert isinstance(failure, BrokerUnavailable) and "connection refused" in failure.message


def test_a_broker_has_answered_a_call_that_it_lets_wait_before_the_client_asks_another_one() -> None:
    asking = Asking()
    asking.ask()
    assert asking.next_call().timeout_ms >= CALL_WAIT_MS_MAX + 500


THROTTLED = Throttled("used all")
LOST = BrokerUnavailable("b0: no answer")


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        ((), TimedOut("no broker answered as asked within 5 s")),
        (
            (NoLeader("orders-0: no leader now"),),
            TimedOut("no broker answered as asked within 5 s: orders-0: no"),
        ),
        ((THROTTLED,), THROTTLED),
        ((NoLeader("orders-0: no leader now"), THROTTLED), THROTTLED),
        ((THROTTLED, LOST, LOST), THROTTLED),
        (
            (THROTTLED, NoLeader("orders-0: no leader now")),
            TimedOut("no broker answered as asked within 5 s: orders"),
        ),
        (
            (THROTTLED, LOST, LOST, LOST, LOST, LOST),
            TimedOut("no broker answered as asked within 5 s: b0: no answer"),
        ),
    ],
)
def test_a_conversation_whose_time_is_up_says_what_it_waited_for(
    heard: tuple[PenstockError, ...], expected: PenstockError
) -> None:
    patience, now = Patience(5.0, 100.0), 100.0
    for error in heard:
        assert patience.left_ms(now) == 5_100 - now
        now += BROKER_MS / 4
        patience.hear(error, now)
    with pytest.raises(type(expected)) as raised:
        patience.left_ms(5_100.0)
    assert raised.value.message.startswith(expected.message)


def test_a_conversation_that_ends_unanswered_after_a_broker_throttled_says_so() -> None:
    patience = Patience(5.0, 0.0)
    assert patience.end(LOST, 0.0) is LOST
    patience.hear(THROTTLED, 100.0)
    assert patience.end(LOST, 100.0 + BROKER_MS) is THROTTLED
    assert patience.end(LOST, 101.0 + BROKER_MS) is LOST
    assert patience.end(forbidden := Forbidden("never"), 100.0) is forbidden


def test_no_answer_to_a_try_as_long_as_the_first_one_says_more_than_an_older_answer() -> None:
    asking = Asking(("b0",))
    asking.ask(asking.now + 4_000)
    asking.fail(asking.next_call(), Throttled.code, "used all")
    hanging = asking.next_call()
    assert hanging.timeout_ms >= 1_500
    asking.now += hanging.timeout_ms
    asking.fail(hanging, message="deadline exceeded")
    asking.now += 4_000
    assert asking.called() == []
    (failure,) = asking.failures
    assert isinstance(failure, BrokerUnavailable)


def test_only_what_the_last_round_heard_is_said() -> None:
    asking = Asking()
    request = asking.ask()
    asking.fail(asking.next_call(), Throttled.code, "used all")
    for _ in range(3):
        asking.fail(asking.next_call(), message="connection refused")
    assert [type(error) for error in request.errors.values()] == [BrokerUnavailable] * 3
    asking.know(0, 1)
    asking.fail(asking.next_call(), message="connection refused")
    assert len(request.errors) <= asking.core.address_count


def test_a_refusal_for_good_ends_it_and_any_other_is_tried_again() -> None:
    asking = Asking()
    asking.ask()
    asking.fail(asking.next_call(), Throttled.code, "later")
    assert asking.failures == []
    asking.fail(asking.next_call(), Forbidden.code, "never")
    (failure,) = asking.failures
    assert isinstance(failure, Forbidden) and failure.message == "never"
    asking.now += 60_000
    assert asking.called() == []


def test_what_is_asked_once_ends_with_the_first_failure_and_may_take_its_time() -> None:
    asking = Asking()
    for count in (1, 2):
        asking.ask(once=True)
        call = asking.next_call()
        assert call.timeout_ms == 10_000
        asking.fail(call)
        assert len(asking.failures) == count
    asking.now += 60_000
    assert asking.called() == []


@pytest.mark.parametrize("once", [False, True])
def test_a_broker_that_is_not_registered_is_asked_for_in_the_metadata(once: bool) -> None:
    asking = Asking()
    asking.know(0, 1)
    asking.core.actions.clear()
    asking.ask(broker=2, once=once)
    calls = asking.called()
    asking.now += REFRESH_MS
    calls += asking.called()
    assert {call.method.rsplit("/", 1)[1] for call in calls} == {"Metadata"}
    if once:
        (failure,) = asking.failures
        assert "broker 2 is not registered" in failure.message
        return
    assert asking.failures == []
    asking.know(0, 1, 2)
    asking.now += 1_000
    assert [call.address for call in asking.called() if "ListOffsets" in call.method] == ["b2"]


def test_one_that_nobody_waits_for_any_more_has_no_end() -> None:
    asking = Asking()
    waiting, asked = asking.ask(), asking.ask()
    asking.core.cancel_request(waiting)
    call = asking.next_call()
    asking.core.cancel_request(asked)
    asking.core.cancel_request(asked)
    asking.core.call_answered(call.token, b"late", asking.now)
    asking.fail(call)
    asking.now += 60_000
    assert (asking.called(), asking.answers, asking.failures) == ([], [], [])


def test_who_failed_lately_is_asked_last_and_after_a_while_or_an_answer_in_turn_again() -> None:
    asking = Asking()
    asking.ask()
    failed = asking.next_call()
    asking.fail(failed)

    def addresses(count: int) -> list[str]:
        return [asking.core.address_for(None) or "" for _ in range(count)]

    assert failed.address not in addresses(6)
    asking.now += SUSPECT_MS
    asking.core.step(asking.now)
    assert addresses(3).count(failed.address) == 1
    for other in ADDRESSES:
        asking.core.address_failed(other, "refused", asking.now)
    assert sorted(addresses(3)) == list(ADDRESSES), "somebody has to be asked"
    asking.core.address_works("b1")
    assert addresses(4) == ["b1"] * 4


def test_the_metadata_are_asked_for_once_however_many_want_it_and_again_when_that_is_over() -> None:
    asking = Asking()
    for _ in range(2):
        asking.now += 10 * REFRESH_MS
        for _ in range(3):
            asking.core.refresh(asking.now)
        (call,) = asking.called()
        asking.core.refresh(asking.now)
        assert asking.called() == [], "one is under way"
        answer = log_pb2.MetadataResponse(cluster_id="fake", revision=1).SerializeToString()
        asking.core.call_answered(call.token, answer, asking.now)
        assert asking.called() == [], "too soon"
        asking.now += REFRESH_MS
        (call,) = asking.called()
        asking.core.call_answered(call.token, answer, asking.now)


def test_a_watch_that_broke_after_it_had_spoken_is_opened_again_without_a_pause_that_grows() -> None:
    runner = Runner(brokers=1)
    runner.cluster.create("orders", 1)
    runner.send(runner.producer(), "orders", b"x")
    runner.run(1_000)

    def watches() -> list[int]:
        return [token for token, one in runner.streams.items() if one.method == methods.WATCH_METADATA]

    for _ in range(8):
        (token,) = watches()
        runner._drop(token)
        runner.core.stream_lost(token, None, "reset", runner.now)
        began = runner.now
        while not watches():
            runner.run(1)
        assert runner.now - began <= 50 + 2


def test_a_question_for_offsets_that_nobody_waits_for_is_dropped_once_and_again() -> None:
    runner = Runner(brokers=1)
    runner.cluster.create("orders", 1)
    consumer = runner.consumer("orders")
    runner.poll(consumer)
    runner.cluster.silent = {0: None}
    told: list[object] = []
    question = OffsetLookup(
        "orders", 0, -1, runner.now + 500, lambda *_: told.append(1), lambda *_: told.append(2)
    )
    consumer._lookups.ask(question)
    runner.run(100)
    for _ in range(2):
        consumer._lookups.drop(question)
    runner.run(5_000)
    runner.cluster.silent = {}
    runner.run(5_000)
    assert told == []
