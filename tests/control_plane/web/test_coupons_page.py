"""The operators' page of coupons: made, given to a tenant, ended; wrong input is said at its field."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from billing.coupon_models import Coupon, CouponRedemption
from billing.models import TenantTerms
from control_plane.audit.models import AuditEntry
from penstock.contract.ids import SYSTEM_TENANT
from tenants.actions import create_operator
from tests.control_plane.billing.world import TESTER
from tests.control_plane.world import House, make_house

pytestmark = pytest.mark.django_db
NOW = datetime.now(UTC).replace(microsecond=0)
GIVEN = {
    "code": "SPRING-7Q2M",
    "kind": "percent",
    "value": "12.5",
    "currency": "USD",
    "days": "90",
    "uses_max": "2",
    "from_at": f"{NOW - timedelta(days=1):%Y-%m-%dT%H:%M:%S}",
    "until_at": f"{NOW + timedelta(days=9):%Y-%m-%dT%H:%M:%S}",
    "reason": "Spring 2027",
}


@pytest.fixture
def client() -> Client:
    client = Client()
    client.post("/operator/sign-in", {"token": create_operator(TESTER, name="op", tenant=SYSTEM_TENANT)})
    return client


@pytest.fixture
def house() -> House:
    return make_house("acme")


def text(client: Client, path: str, given: dict[str, Any] | None = None, status: int = 200) -> str:
    answer = client.get(path) if given is None else client.post(path, given)
    assert answer.status_code == status, answer.content
    return answer.content.decode()


def test_a_coupon_is_made_given_and_ended(client: Client, house: House) -> None:
    assert "No coupons yet" in text(client, "/operator/coupons")
    text(client, "/operator/coupons/new", GIVEN, 302)
    row = Coupon.objects.get()
    assert (row.basis_points, row.amount_micro, row.currency, row.days) == (1_250, 0, "", 90)
    assert (row.from_at, row.until_at) == (NOW - timedelta(days=1), NOW + timedelta(days=9))
    shown = text(client, "/operator/coupons")
    assert "12.5 %" in shown and "0 of 2" in shown and "open" in shown
    page = "/operator/coupons/of/SPRING-7Q2M"
    text(client, page, {"tenant": "acme"}, 302)
    assert CouponRedemption.objects.get().tenant == house.tenant
    discounts = TenantTerms.objects.get(tenant=house.tenant).document["discounts"]
    assert [one["basis_points"] for one in discounts] == [1_250]
    assert "redeemed the coupon before" in text(client, page, {"tenant": house.tenant.public_id}, 422)
    assert "is not there" in text(client, page, {"tenant": "nobody"}, 422)
    assert ">acme<" in text(client, page)
    text(client, f"{page}/end", {}, 302)
    assert "Give it to a tenant" not in text(client, page)
    actions = AuditEntry.objects.filter(action__startswith="coupon.").order_by("pk")
    assert list(actions.values_list("action", flat=True)) == ["coupon.create", "coupon.redeem", "coupon.end"]


def test_an_amount_has_its_currency_and_its_coins(client: Client) -> None:
    text(client, "/operator/coupons/new", GIVEN | {"kind": "amount", "value": "500", "currency": "JPY"}, 302)
    row = Coupon.objects.get()
    assert (row.basis_points, row.amount_micro, row.currency) == (0, 500_000_000, "JPY")
    assert "500 JPY" in text(client, "/operator/coupons")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"code": "short"}, "6 to 40 of A to Z"),
        ({"value": "100.01"}, "At most 100 percent"),
        ({"value": "1.234"}, "with up to 2 places"),
        ({"value": "0"}, "greater than or equal"),
        ({"days": "5"}, "is not within 31 to 3660"),
        ({"until_at": GIVEN["from_at"]}, "after from_at"),
        ({"currency": "EUX", "kind": "amount"}, "Choose one of these"),
        ({"reason": "x" * 300}, ""),
    ],
)
def test_a_wrong_coupon_is_not_made(client: Client, wrong: dict[str, str], said: str) -> None:
    assert said in text(client, "/operator/coupons/new", GIVEN | wrong, 422)
    assert not Coupon.objects.exists()


def test_only_operators_see_coupons(house: House) -> None:
    for path in ("/operator/coupons", "/operator/coupons/new", "/operator/coupons/of/SPRING-7Q2M"):
        assert Client().get(path).status_code == 302
    assert Client().post("/operator/coupons/new", GIVEN).status_code in (302, 403)
    assert not Coupon.objects.exists()


def test_an_unknown_coupon_is_not_there(client: Client) -> None:
    assert client.get("/operator/coupons/of/NOTHING-1").status_code == 404
    assert client.post("/operator/coupons/of/NOTHING-1/end").status_code == 404
