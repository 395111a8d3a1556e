"""How long a lease counts: from the moment it was asked for, and by an answer that came in time."""

from data_plane.leases.coordinator import LeaseCoordinator
from data_plane.leases.holder import LeaseHolder
from data_plane.leases.terms import LimitKey, Request, Terms, Wish
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


def test_an_answer_that_comes_too_late_counts_for_nothing() -> None:
    holder, request = asking(1_000)
    assert not holder.answered(request, {KEY: 100}, 1_001 + TERMS.answer_ms)
    assert amount(holder, 1_002 + TERMS.answer_ms) == 1


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
