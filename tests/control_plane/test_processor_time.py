"""A tenant's calls of REST are priced by the processor time that they took, over all web processes."""

import time

import pytest
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from control_plane.api import middleware
from control_plane.api.problems import RateReached
from control_plane.rate_counters import Counters, OwnStore
from control_plane.rest.processor_time import AHEAD_S_MAX, REFUSED_S_MIN, REMEMBERED_MAX, ProcessorTime
from quotas.plans import REST_PROCESSOR_BURST_S
from tests.control_plane.test_rate_counters import Hand

LIMIT = 100
"""Milliseconds a second: a call of 100 ms needs one second."""


def made(clock: Hand, store: OwnStore | None = None) -> ProcessorTime:
    counters = Counters(store or OwnStore(clock), clock)
    return ProcessorTime(lambda: counters, clock)


def used(of: ProcessorTime, seconds: float, name: str = "acme", ms_per_s: int = LIMIT) -> None:
    of.begin(name, ms_per_s, "of acme").ended(seconds)


def refused(of: ProcessorTime, name: str = "acme") -> RateReached:
    with pytest.raises(RateReached) as caught:
        of.begin(name, LIMIT, f"of {name}")
    return caught.value


def test_calls_are_let_in_until_the_burst_is_used_up_and_again_when_the_limit_has_made_up_for_it() -> None:
    clock = Hand()
    budget = made(clock)
    for _ in range(REST_PROCESSOR_BURST_S + 1):
        used(budget, 0.1)
    told = refused(budget)
    assert told.clears_in_s == pytest.approx(1.0) and told.wait_s == 1
    assert told.said == (
        "too many requests: rest_processor_ms_per_s of acme is 100 a second, with at most 500 ahead,"
        " and calls are 600 ahead; clears in 1 s"
    )
    used(budget, 0.1, "globex")
    clock.now += 0.99
    assert refused(budget).clears_in_s == REFUSED_S_MIN, "a refusal holds for a second, as Retry-After says"
    clock.now += 0.02
    used(budget, 0.01)


def test_over_a_long_time_a_flood_gets_its_limit() -> None:
    clock = Hand()
    budget, taken = made(clock), 0.0
    for _ in range(1_000):
        clock.now += 0.1
        try:
            used(budget, 0.014)
            taken += 0.014
        except RateReached:
            continue
    assert taken == pytest.approx(100 * LIMIT / 1000 + REST_PROCESSOR_BURST_S * LIMIT / 1000, abs=0.02)


def test_calls_under_way_count_with_what_the_last_ones_took() -> None:
    clock = Hand()
    budget = made(clock)
    used(budget, 0.1)
    waiting = [budget.begin("acme", LIMIT, "of acme") for _ in range(REST_PROCESSOR_BURST_S)]
    refused(budget)
    waiting.pop().ended(0.0)
    budget.begin("acme", LIMIT, "of acme")


def test_what_is_counted_of_a_call_twice_is_added_and_ends_it_once() -> None:
    clock = Hand()
    budget = made(clock)
    call = budget.begin("acme", LIMIT, "of acme")
    for _ in range(2):
        call.ended(0.3)
    assert refused(budget).clears_in_s == pytest.approx(1.0)
    clock.now += 1.0
    for _ in range(2):
        used(budget, 0.0)


def test_processes_share_the_time_and_hear_of_it_with_a_call_of_their_own() -> None:
    clock = Hand()
    store = OwnStore(clock)
    one, other = made(clock, store), made(clock, store)
    used(one, 0.9)
    refused(one)
    used(other, 0.001)
    refused(other)


def test_one_call_however_long_refuses_for_a_bounded_time() -> None:
    clock = Hand()
    budget = made(clock)
    used(budget, 7_200.0)
    assert refused(budget).clears_in_s == AHEAD_S_MAX - REST_PROCESSOR_BURST_S


def test_a_bounded_number_of_tenants_is_remembered() -> None:
    budget = made(Hand())
    for number in range(REMEMBERED_MAX + 1):
        budget.begin(str(number), LIMIT, "")
    assert len(budget._known) == REMEMBERED_MAX


def worked(answer: HttpResponseBase, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What is counted of a request that is answered so; each look at the clock is a second later."""
    looks = iter(range(100))
    monkeypatch.setattr(time, "thread_time", lambda: float(next(looks)))
    told: list[float] = []
    request = HttpRequest()
    request.META[middleware.TOOK] = told.append

    def view(_: HttpRequest) -> HttpResponseBase:
        return answer

    found = middleware.ProcessorTime(view)(request)
    if isinstance(found, StreamingHttpResponse):
        b"".join(found)
    return told


def test_the_time_of_an_answer_in_parts_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worked(HttpResponse(b"whole"), monkeypatch) == [1.0]
    assert worked(StreamingHttpResponse(iter([b"in", b"parts"])), monkeypatch) == [1.0, 1.0]


def test_a_file_is_sent_by_another_thread_whose_clock_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open(__file__, "rb") as file:
        assert worked(FileResponse(file), monkeypatch) == [1.0]


def test_the_time_of_a_request_that_failed_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    request = HttpRequest()
    request.META[middleware.TOOK] = told.append

    def view(_: HttpRequest) -> HttpResponse:
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError):
        middleware.ProcessorTime(view)(request)
    assert len(told) == 1
