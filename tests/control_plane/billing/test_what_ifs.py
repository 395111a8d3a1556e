"""Every tenant's last invoiced period by another price book: who would pay more, and together."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from billing import previews, price_actions, what_ifs
from billing.models import Invoice, PriceBook
from payments import actions as payment_actions
from penstock.contract.errors import NotFound
from penstock.rules import rating
from tenants.roles import Standing
from tests.control_plane.billing.world import STANDARD_1, TESTER, Part, World
from tests.control_plane.world import call, make_house


def book(name: str, **changes: object) -> PriceBook:
    return price_actions.publish_price_book(
        TESTER,
        document={**STANDARD_1, "name": name, "version": 1, **changes},
        effective_from=timezone.now() + timedelta(days=300),
        now=timezone.now(),
    )


@pytest.fixture
def billed(world: World) -> tuple[int, int]:
    """The totals of a small and of a large tenant; a third one has no invoice."""
    totals = []
    for name, messages in (("small", 2_000), ("large", 30_000)):
        tenant = world.tenant(name)
        parts = [Part(topic=name, first=0, end=messages, size=1_000_000)]
        cut = world.cut(tenant, parts)
        world.covered(cut, parts)
        world.spark()
        world.bill()
        totals.append(world.invoice(cut).total_micro or 0)
    world.tenant("new")
    return totals[0], totals[1]


def test_the_tenant_that_would_pay_most_more_comes_first(billed: tuple[int, int]) -> None:
    dear = [
        {**meter, "free": 0, "tiers": [{"up_to": None, "unit_price": "1.000000000000"}]}
        for meter in STANDARD_1["meters"]
    ]
    row = book("dear", meters=dear)
    found = what_ifs.what_if_of_all(rating.PriceBook.read(row.document), datetime.now(UTC))
    assert [one.tenant.name for one in found.tenants] == ["large", "small"]
    assert found.billed_micro == sum(billed) and (found.dearer, found.cheaper, found.left_out) == (2, 0, 0)
    assert found.preview_micro == (2_000 + 30_000 + 2) * 1_000_000
    same = what_ifs.what_if_of_all(rating.PriceBook.read(STANDARD_1), datetime.now(UTC))
    assert [one.difference_micro for one in same.tenants] == [0, 0]


def test_tenants_that_can_be_compared_are_chosen_before_great_ones_of_another_currency(
    billed: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_ifs, "TENANTS_MAX", 1)
    yen = PriceBook.objects.get(pk=book("yen", currency="JPY", minor_digits=0).pk)
    Invoice.objects.filter(tenant__name="large").update(price_book=yen)
    found = what_ifs.what_if_of_all(rating.PriceBook.read(STANDARD_1), datetime.now(UTC))
    assert [one.tenant.name for one in found.tenants] == ["small"]
    assert (found.left_out, found.in_other_currencies, found.billed_micro) == (1, 0, billed[0])


def test_other_currencies_are_shown_and_in_no_sum(billed: tuple[int, int]) -> None:
    row = book("euros", currency="EUR")
    found = what_ifs.what_if_of_all(rating.PriceBook.read(row.document), datetime.now(UTC))
    assert (found.billed_micro, found.preview_micro, found.in_other_currencies) == (0, 0, 2)


def test_the_greatest_invoices_are_rated_and_the_rest_is_counted(
    billed: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_ifs, "TENANTS_MAX", 1)
    found = what_ifs.what_if_of_all(rating.PriceBook.read(STANDARD_1), datetime.now(UTC))
    assert ([one.tenant.name for one in found.tenants], found.left_out) == (["large"], 1)


def test_an_invoice_that_was_taken_back_is_compared_with_nothing(billed: tuple[int, int]) -> None:
    large = Invoice.objects.get(tenant__name="large")
    payment_actions.open_receivable(large)
    payment_actions.void(TESTER, large, reason="sent to the wrong company")
    found = what_ifs.what_if_of_all(rating.PriceBook.read(STANDARD_1), datetime.now(UTC))
    assert [one.tenant.name for one in found.tenants] == ["small"]
    with pytest.raises(NotFound, match="no period was invoiced yet"):
        previews.last_periods(large.tenant, now=datetime.now(UTC))


def test_rest_is_for_operators_and_names_a_published_book(billed: tuple[int, int]) -> None:
    token = make_house("ops").credentials[Standing.OPERATOR]
    sha256 = PriceBook.objects.order_by("pk")[0].sha256
    answer = call("GET", f"/v1/billing/what-if?price_book_sha256={sha256}", token=token)
    assert (answer.status, answer.body["difference_micro"], len(answer.body["tenants"])) == (200, 0, 2)
    assert call("GET", "/v1/billing/what-if", token=token).status == 400
    assert call("GET", f"/v1/billing/what-if?price_book_sha256={'0' * 64}", token=token).status == 404
