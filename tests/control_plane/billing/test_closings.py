"""Closing and reopening a tenant ends no period: nothing that is free is had twice, and fees stand still meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.db import transaction
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from billing import month_forecasts, period_actions, price_actions, running_costs, terms_actions
from billing.models import CreditNote, Cut
from billing.open_times import open_ms
from control_plane.outbox.registry import Delivered
from control_plane.reconciliation import purging
from penstock.rules import charges, rating
from tenants import observed
from tenants.actions import create_tenant
from tenants.closing import actions as closing
from tenants.models import Closing, Tenant
from tests.control_plane.billing import test_terms as terms
from tests.control_plane.billing.world import STANDARD_1, TESTER, World
from tests.reconcile.clock import Clock, day, in_force, ms

pytestmark = pytest.mark.django_db

CENT = 10_000
FREE, BOUND = 1_000, 3_000
"""Messages of a month that cost nothing, and those of the first tier."""
OFF = 120 * CENT
"""A fixed discount of each period."""
FEE, LEAST = 3_100 * CENT, 6_200 * CENT
BOOK: dict[str, Any] = {
    "format": 2,
    "name": "steps",
    "version": 1,
    "currency": "USD",
    "minor_digits": 2,
    "meters": [
        {
            "meter": "messages_in",
            "unit": "message",
            "unit_size": 1,
            "free": FREE,
            "model": "graduated",
            "tiers": [
                {"up_to": BOUND, "unit_price": "0.020000000000"},
                {"up_to": None, "unit_price": "0.010000000000"},
            ],
        }
    ],
    "fees": [{"fee": "base", "month": "31.000000"}],
    "minimum_month": "62.000000",
}
BEGINS = day(2027, 1, 1)


def steps_cents(messages: int) -> int:
    """The price of a month's messages, said without any of the service's code."""
    return 2 * max(0, min(messages, BOUND) - FREE) + max(0, messages - BOUND)


@dataclass
class Year:
    """A tenant whose life is told step by step, and what is known of it without looking into a table."""

    clock: Clock
    tenant: Tenant
    used: list[tuple[datetime, int]] = field(default_factory=list)
    open_from: datetime | None = BEGINS
    spans: list[tuple[datetime, datetime]] = field(default_factory=list)
    """When it was open."""

    def after(self, hours: int) -> None:
        """Time passes, and the worker does its rounds, at each month's beginning too."""
        until = self.clock.now().replace(minute=0, second=0, microsecond=0) + timedelta(hours=hours)
        month = self.clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        while (month := (month + timedelta(days=32)).replace(day=1)) <= until:
            self.clock.to(max(month + timedelta(seconds=3), self.clock.now()))
            self.rounds()
        self.clock.to(max(until, self.clock.now()))
        self.rounds()

    def rounds(self) -> None:
        row = Tenant.objects.get(pk=self.tenant.pk)
        observed.note_delivered(Tenant, row.public_id, Delivered(generation=row.generation, revision=1))
        period_actions.close_months(self.clock.now())
        purging.drive_closed()

    def use(self, messages: int) -> None:
        if self.open_from is not None:
            self.used.append((self.clock.now(), messages))

    def close(self) -> None:
        closed = closing.close(TESTER, self.tenant)
        if self.open_from is not None and closed.closed_at is not None:
            self.spans.append((self.open_from, closed.closed_at))
            self.open_from = None
        self.rounds()

    def reopen(self) -> None:
        row = Tenant.objects.get(pk=self.tenant.pk)
        if row.purge_at is None or row.purge_at <= self.clock.now():
            return
        self.open_from = self.clock.now()
        closing.reopen(TESTER, self.tenant)
        self.rounds()

    def change_terms(self, points: int) -> None:
        terms_actions.change_terms(
            TESTER,
            self.tenant.public_id,
            terms=self.terms(points),
            price_book_sha256=None,
            now=self.clock.now(),
        )

    def terms(self, points: int) -> dict[str, Any]:
        """The fixed discount, and one of a meter that the book does not have, which changes no money."""
        other = {
            "id": "other",
            "basis_points": points,
            "amount_micro": 0,
            "currency": "",
            "meters": ["requests"],
        }
        return {"discounts": [FIXED, FIXED | other], "credits": [], "tax": None}

    def step(self, name: str, number: int) -> None:
        match name:
            case "after":
                self.after(number)
            case "use":
                self.use(number)
            case "close":
                self.close()
            case "reopen":
                self.reopen()
            case _:
                self.change_terms(number)


FIXED: dict[str, Any] = {
    "id": "fixed",
    "basis_points": 0,
    "amount_micro": OFF,
    "currency": "USD",
    "meters": [],
    "from_ms": 0,
    "until_ms": ms(day(2030, 1, 1)),
    "reason": "",
}


@contextmanager
def told() -> Iterator[Year]:
    """A tenant that begins with the year; nothing of it stays."""
    clock = Clock(BEGINS)
    with transaction.atomic(), in_force(clock):
        price_actions.publish_price_book(
            TESTER, document=BOOK, effective_from=price_actions.BEGINNING, now=BEGINS
        )
        tenant = create_tenant(TESTER, name="acme")
        Tenant.objects.filter(pk=tenant.pk).update(created_at=BEGINS)
        tenant.refresh_from_db()
        year = Year(clock, tenant)
        terms_actions.change_terms(
            TESTER, tenant.public_id, terms=year.terms(1), price_book_sha256=None, now=BEGINS
        )
        yield year
        transaction.set_rollback(True)


def billed(year: Year) -> list[tuple[Cut, charges.Charged, int]]:
    """Each closed period, rated as invoices are, with its messages."""
    book = rating.PriceBook.read(BOOK)
    found = []
    for cut in Cut.objects.filter(tenant=year.tenant).order_by("period_end"):
        messages = sum(many for moment, many in year.used if cut.period_start <= moment < cut.period_end)
        terms = price_actions.assigned_prices(year.tenant, cut.period_start).terms
        assert terms is not UNSET
        amounts = {
            line.meter: line.amount_micro for line in rating.rate(book, {"messages_in": messages}).lines
        }
        span = (ms(cut.period_start), ms(cut.period_end))
        opened = open_ms(year.tenant, cut.period_start, cut.period_end)
        found.append((cut, charges.charge(book, terms, amounts, span, {}, open_ms=opened), messages))
    return found


def months_of(year: Year) -> dict[datetime, tuple[int, Fraction]]:
    """By beginning of a month: its messages, and the part of it from the first to the last open moment."""
    now = year.clock.now()
    spans = [*year.spans, *([] if year.open_from is None else [(year.open_from, now.replace(year=2100))])]
    found: dict[datetime, tuple[int, Fraction]] = {}
    month = BEGINS
    while month <= now:
        following = (month + timedelta(days=32)).replace(day=1)
        messages = sum(many for moment, many in year.used if month <= moment < following)
        here = [(max(a, month), min(b, following)) for a, b in spans if a < following and month < b]
        open_part = Fraction(0)
        if here:
            open_ms_of = ms_down(max(b for _, b in here)) - ms_down(min(a for a, _ in here))
            open_part = Fraction(open_ms_of, ms(following) - ms(month))
        found[month] = (messages, open_part)
        month = following
    return found


def ms_down(moment: datetime) -> int:
    return ms(moment.replace(microsecond=moment.microsecond // 1_000 * 1_000))


def due_micro(messages: int, open_part: Fraction, off: int = OFF) -> int:
    """The price of one undivided month."""
    fee, least = (_half_up(amount * open_part) for amount in (FEE, LEAST))
    return max(max(0, steps_cents(messages) * CENT - off) + fee, least)


def _half_up(micro: Fraction) -> int:
    return (micro / CENT + Fraction(1, 2)).__floor__() * CENT


def check_undivided(year: Year) -> None:
    """Every period is a whole month, but the last one of a tenant that is purged, and costs what the month does."""
    months = months_of(year)
    periods = billed(year)
    assert len({cut.period_start.month for cut, _, _ in periods}) == len(periods), "one period a month"
    for cut, charged, messages in periods:
        due_messages, open_part = months[cut.period_start]
        assert messages == due_messages
        # Terms hold from the second period on.
        off = 0 if cut.period_start == BEGINS else OFF
        assert charged.total_micro == due_micro(due_messages, open_part, off), cut.period_start


STEPS = st.one_of(
    st.tuples(st.just("after"), st.integers(1, 20 * 24)),
    st.tuples(st.just("use"), st.integers(1, 4_000)),
    st.tuples(st.just("close"), st.just(0)),
    st.tuples(st.just("reopen"), st.just(0)),
    st.tuples(st.just("change_terms"), st.integers(1, 10_000)),
)


@settings(max_examples=8, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.lists(STEPS, min_size=4, max_size=12))
def test_no_closing_and_reopening_makes_a_month_cheaper(steps: list[tuple[str, int]]) -> None:
    with told() as year:
        for name, number in steps:
            year.step(name, number)
        year.after(40 * 24)
        check_undivided(year)


def test_a_tenant_that_closes_every_few_days_pays_for_the_whole_month() -> None:
    with told() as year:
        for _ in range(9):
            year.use(900)  # less than the free messages
            year.close()
            year.after(1)
            year.reopen()
            year.after(3 * 24 - 1)
        year.after(5 * 24)
        check_undivided(year)
        ((cut, charged, messages),) = billed(year)
        assert (cut.period_end, messages) == (day(2027, 2, 1), 9 * 900)
        assert charged.total_micro == (2 * 2_000 + 5_100) * CENT + FEE


def test_fees_and_the_minimum_end_with_the_closing_and_begin_again_with_the_reopening() -> None:
    with told() as year:
        year.after(10 * 24)
        year.close()  # on 11 January
        year.after(25 * 24)
        year.reopen()  # on 5 February
        year.after(26 * 24)
        year.close()  # on 3 March
        year.after(60 * 24)
        least = [Fraction(LEAST * days, of) for days, of in ((10, 31), (24, 28), (2, 31))]
        totals = [charged.total_micro for _, charged, _ in billed(year)]
        assert totals[:3] == [_half_up(one) for one in least]
        assert len(totals) > 3 and not any(totals[3:]), "closed for good"


def test_a_loss_of_a_closed_tenants_period_is_credited_with_the_minimum_of_its_open_time(
    world: World,
) -> None:
    acme = world.tenant("acme")
    price_actions.begin_chains(10)
    meters = [meter | {"model": "graduated"} for meter in STANDARD_1["meters"]]
    least = STANDARD_1 | {
        "format": 2,
        "name": "least",
        "meters": meters,
        "fees": [],
        "minimum_month": "2200",
    }
    book = price_actions.publish_price_book(
        TESTER,
        document=least,
        effective_from=terms.hours_ago(-24),
        now=terms.hours_ago(0),
    )
    wanted = terms.terms(credits=[], discounts=[], tax=None)
    terms.change(acme, wanted, book=book.sha256)
    first = world.invoice(terms.cut(world, acme, terms.FIRST, 5))
    # Open for one of the period's two hours: 3 USD of the month's minimum.
    Closing.objects.create(tenant=acme, closed_at=terms.hours_ago(4), reopened_at=terms.hours_ago(2))
    second = world.invoice(terms.cut(world, acme, terms.SECOND, 3))
    terms.cut(world, acme, terms.NEW, 1, lost=terms.LOST, start=terms.SECOND.end)
    (note,) = CreditNote.objects.filter(invoice=second)
    assert note.issuer_number == "CN-000001", "a series of its own"
    assert note.charges == [] and note.total_micro > 200 * CENT, "nothing comes under the minimum"
    assert terms.problems_of(second, first) == []


@pytest.mark.parametrize(
    ("closings", "opened"),
    [
        ([(0, 4)], (4, 10)),
        ([(-2, 4)], (4, 10)),
        ([(-2, 0)], (0, 10)),
        ([(4, 10)], (0, 4)),
        ([(4, 12)], (0, 4)),
        ([(4, 6)], (0, 10)),
        ([(4, 4)], (0, 10)),
        ([(0, 0)], (0, 10)),
        ([(-1, 2), (3, 10)], (2, 3)),
        ([(-1, 2), (4, 6), (8, None)], (2, 8)),
        ([(0, 10)], (0, 0)),
        ([(-1, None)], (0, 0)),
        ([(10, 11)], (0, 10)),
    ],
)
def test_the_open_time_of_a_period_ends_and_begins_at_its_very_moments(
    world: World, closings: list[tuple[int, int | None]], opened: tuple[int, int]
) -> None:
    acme = world.tenant("acme")

    def at(hour: int) -> datetime:
        return BEGINS + timedelta(hours=hour)

    for closed, reopened in closings:
        Closing.objects.create(
            tenant=acme, closed_at=at(closed), reopened_at=None if reopened is None else at(reopened)
        )
    assert open_ms(acme, at(0), at(10)) == tuple(ms(at(hour)) for hour in opened)


def test_the_forecast_and_the_running_cost_of_a_closed_tenant_end_with_its_closing() -> None:
    with told() as year:
        year.after(10 * 24)
        year.close()
        year.after(5 * 24)
        due = _half_up(Fraction(LEAST * 10, 31))
        forecast = month_forecasts.month_forecast(year.tenant, year.clock.now())
        running = running_costs.running_cost(year.tenant, year.clock.now())
        assert forecast.cost is not None and running is not None
        assert forecast.cost.expected.total_micro == running.charged.total_micro == due
