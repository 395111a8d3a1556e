"""How long a lease counts: from the moment it was asked for, and by an answer that came in time."""

from data_plane.leases.coordinator import LeaseCoordinator
from data_plane.leases.holder import LeaseHolder
from data_plane.leases.terms import WISHES_MAX, LimitKey, Request, Terms, Wish
from penstock.contract.ids import BrokerId, TenantId

TERMS = Terms()
KEY = LimitKey(TenantId("tn_acme"), "produce_bytes_per_s")
ONE, TWO = BrokerId(1), BrokerId(2)


def asking(now_ms: float) -> tuple[LeaseHolder, Request]:
    holder = LeaseHolder(ONE, TERMS)
    holder.follow(1, 7)
    request = holder.request({KEY: 100}, now_ms)
    assert request is not None
    return holder, request


def amount(holder: LeaseHolder, now_ms: float) -> int:
    return holder.share(KEY, floor=1, safe=10, now_ms=now_ms).amount


def test_a_lease_ends_so_long_after_it_was_asked_for_however_late_the_answer_came() -> None:
    holder, request = asking(1_000)
    assert holder.answered(request, {KEY: 100}, 1_000 + TERMS.answer_ms)
    assert amount(holder, 1_000 + TERMS.lease_ms - 1) == 100
    assert amount(holder, 1_000 + TERMS.lease_ms) == 1


def test_who_wants_nothing_and_owes_nothing_does_not_ask() -> None:
    holder, request = asking(1_000)
    assert holder.answered(request, {KEY: 100}, 1_001)
    given_up = holder.request({KEY: 0}, 1_250)
    assert given_up is not None and given_up.wishes == {}, "what is not in a whole request is given up"
    assert holder.answered(given_up, {}, 1_251)
    for wants in ({}, {KEY: 0}):
        assert holder.request(wants, 1_500) is None
    assert not holder.owes
    assert holder.request({KEY: 5}, 1_750) is not None
    assert holder.owes, "the coordinator may have an entry of it from now on"


def test_the_safe_share_may_be_used_once_a_lease_and_an_answer_and_both_margins_have_passed_after_the_end() -> (
    None
):
    holder, request = asking(1_000)
    assert holder.answered(request, {KEY: 100}, 1_001)
    ends_ms = 1_000 + TERMS.lease_ms
    lapses_ms = ends_ms + TERMS.lease_ms + TERMS.answer_ms + 2 * TERMS.margin_ms
    assert [amount(holder, at_ms) for at_ms in (ends_ms, lapses_ms - 1, lapses_ms)] == [1, 1, 10]


def test_an_answer_that_comes_too_late_counts_for_nothing() -> None:
    holder, request = asking(1_000)
    assert not holder.answered(request, {KEY: 100}, 1_001 + TERMS.answer_ms)
    assert amount(holder, 1_002 + TERMS.answer_ms) == 1


def test_a_request_that_was_given_up_takes_no_answer_that_still_comes() -> None:
    holder, request = asking(1_000)
    holder.unanswered(request)
    assert not holder.answered(request, {KEY: 100}, 1_001)
    assert amount(holder, 1_002) == 1


def test_giving_up_an_older_request_leaves_the_newer_one_its_answer() -> None:
    holder, first = asking(1_000)
    second = holder.request({KEY: 100}, 1_250)
    assert second is not None
    holder.unanswered(first)
    assert holder.answered(second, {KEY: 100}, 1_251)
    assert amount(holder, 1_252) == 100


def test_a_lease_is_awaited_until_one_comes_and_again_when_it_has_ended() -> None:
    holder, request = asking(1_000)
    assert holder.is_awaited(KEY, 1_000)
    assert holder.answered(request, {KEY: 100}, 1_000)
    assert not holder.is_awaited(KEY, 1_000 + TERMS.lease_ms - 1)
    assert holder.is_awaited(KEY, 1_000 + TERMS.lease_ms)


def test_the_coordinator_counts_a_lease_for_longer_than_its_holder() -> None:
    registered = {ONE: 7, TWO: 8}
    books = LeaseCoordinator(TERMS, 1, 0, limit=lambda _: 100, safe_share=lambda *_: 0)
    for broker in (TWO, ONE):  # all have reported
        asked = Request(holder=broker, registration=registered[broker], epoch=1, sequence=1, answered=0)
        assert books.asked(asked, registered, 0) == {}
    wish = {KEY: Wish(holds=0, wants=100)}
    first = Request(holder=ONE, registration=7, epoch=1, sequence=2, answered=1, wishes=wish)
    assert books.asked(first, registered, 0) == {KEY: 100}
    assert books.reserved(KEY, TERMS.lease_ms + TERMS.margin_ms) == 100
    assert books.reserved(KEY, TERMS.lease_ms + TERMS.margin_ms + 1) == 0


def test_five_thousand_tenants_are_all_leased_to_by_bounded_requests_and_none_waits_for_another() -> None:
    keys = [LimitKey(TenantId(f"tn_{number:04d}"), "produce_bytes_per_s") for number in range(5_000)]
    wants = dict.fromkeys(keys, 100)
    registered = {ONE: 7}
    books = LeaseCoordinator(TERMS, 1, 0, limit=lambda _: 100, safe_share=lambda *_: 100)
    holder = LeaseHolder(ONE, TERMS)
    holder.follow(1, 7)
    now_ms = 0.0

    def ask() -> Request:
        nonlocal now_ms
        now_ms += TERMS.renew_ms
        request = holder.request(wants, now_ms)
        assert request is not None and len(request.wishes) <= WISHES_MAX
        grants = books.asked(request, registered, now_ms)
        assert grants is not None and holder.answered(request, grants, now_ms)
        return request

    def leased() -> int:
        shares = (holder.share(key, floor=1, safe=10, now_ms=now_ms).amount for key in keys)
        return sum(amount >= 90 for amount in shares)

    first = [ask() for _ in range(6)]
    assert leased() == 5_000
    assert [request.whole for request in first[:3]] == [False, False, True], (
        "the books are whole with the third"
    )
    for _ in range(60):  # twice as long as a lease
        ask()
        assert leased() == 5_000
    later = LimitKey(TenantId("tn_later"), "produce_bytes_per_s")
    wants[later] = 100
    assert later in ask().wishes, "who has none yet is first"
    del wants[keys[0]]
    for _ in range(4):
        ask()
    assert books.limits_leased == 5_000 and books.reserved(keys[0], now_ms) == 0, "it was given up"
    wants.clear()
    assert ask().wishes == {} and books.limits_leased == 0 and not holder.owes


def test_a_part_that_was_not_answered_keeps_the_books_from_being_whole() -> None:
    holder = LeaseHolder(ONE, Terms(wishes_max=2))
    holder.follow(1, 7)
    wants = {LimitKey(TenantId(f"tn_{number}"), "produce_bytes_per_s"): 5 for number in range(4)}
    lost = holder.request(wants, 0)
    assert lost is not None
    holder.unanswered(lost)
    second = holder.request(wants, 250)
    assert second is not None and not second.whole and not set(second.wishes) & set(lost.wishes)
    assert holder.answered(second, dict.fromkeys(second.wishes, 5), 250)
    third = holder.request(wants, 500)
    assert third is not None and set(third.wishes) == set(lost.wishes) and not third.whole
    assert holder.answered(third, dict.fromkeys(third.wishes, 5), 500)
    fourth = holder.request(wants, 750)
    assert fourth is not None and fourth.whole


def test_a_round_of_parts_begins_anew_after_a_request_that_said_all() -> None:
    holder = LeaseHolder(ONE, Terms(wishes_max=2))
    holder.follow(1, 7)
    wants = {LimitKey(TenantId(f"tn_{number}"), "produce_bytes_per_s"): 5 for number in range(4)}
    few = dict(list(wants.items())[:2])
    told = []
    for now_ms, asked in enumerate((wants, few, wants, wants)):
        request = holder.request(asked, 250.0 * now_ms)
        assert request is not None
        told.append((request.partial, request.whole))
        assert holder.answered(request, dict.fromkeys(request.wishes, 5), 250.0 * now_ms)
    assert told == [(True, False), (False, True), (True, False), (True, True)]


def test_the_safe_share_waits_for_the_last_answer_though_it_was_about_other_limits() -> None:
    """The coordinator keeps it once it has heard nothing at all for so long."""
    holder = LeaseHolder(ONE, Terms(wishes_max=1))
    holder.follow(1, 7)
    other = LimitKey(TenantId("tn_other"), "produce_bytes_per_s")
    heard_ms = 1_000.0
    for now_ms, key in ((0.0, KEY), (heard_ms, other)):
        request = holder.request({KEY: 100, other: 100}, now_ms)
        assert request is not None and list(request.wishes) == [key]
        assert holder.answered(request, {key: 100}, now_ms)
    lapses_ms = heard_ms + TERMS.lease_ms + TERMS.lapse_ms
    assert [amount(holder, at_ms) for at_ms in (lapses_ms - 1, lapses_ms)] == [1, 10]
