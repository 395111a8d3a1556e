"""Coupons: made and ended by operators, redeemed once by a tenant within its time and number, and a discount then."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from billing import coupon_actions, price_actions, terms_actions
from billing.coupon_models import Coupon, CouponRedemption
from billing.models import TenantTerms
from control_plane.audit.models import AuditEntry
from penstock.contract.errors import AlreadyExists, InvalidRequest, NotFound
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane.billing.test_terms import FIRST, SECOND, change, cut, hours_ago, terms
from tests.control_plane.billing.world import TESTER, World
from tests.control_plane.world import call, make_house
from web.views.operator_coupons import state_of

CODE = "SPRING-7Q2M"
MOMENT = timedelta(microseconds=1)
REFUSED = "no coupon of this code can be redeemed"


def make(**changes: Any) -> Coupon:
    values: dict[str, Any] = {
        "code": CODE, "basis_points": 2_000, "amount_micro": 0, "currency": "", "days": 90, "uses_max": 2,
        "reason": "spring", "from_at": hours_ago(100), "until_at": hours_ago(-100),
    } | changes  # fmt: skip
    return coupon_actions.make_coupon(TESTER, **values)


def redeem(tenant: Tenant, code: str = CODE, at: datetime | None = None) -> Any:
    return coupon_actions.redeem(TESTER, tenant, code, at or hours_ago(20))


@pytest.fixture
def acme(world: World) -> Tenant:
    return world.tenant("acme")


def test_a_redeemed_coupon_lowers_the_next_invoice(world: World, acme: Tenant) -> None:
    price_actions.begin_chains(10)
    make()
    redeem(acme)
    first = world.invoice(cut(world, acme, FIRST, 5))
    second = world.invoice(cut(world, acme, SECOND, 3))
    assert first.charges == []
    assert [(one["name"], one["amount_micro"], one["reason"]) for one in second.charges] == [
        (f"coupon_{CODE}", -800_000, "spring"), (f"coupon_{CODE}", -600_000, "spring"),
    ]  # fmt: skip
    assert AuditEntry.objects.filter(action="coupon.redeem", tenant=acme.public_id).count() == 1


def test_a_tenant_redeems_a_coupon_once_and_keeps_its_other_terms(acme: Tenant) -> None:
    make()
    change(acme, terms(), at=hours_ago(30))
    redeem(acme)
    with pytest.raises(AlreadyExists, match="once"):
        redeem(acme)
    now = terms_actions.terms_of(acme).document
    assert [one["id"] for one in now["discounts"]] == ["di_1", f"coupon_{CODE}"]
    assert now["credits"] == terms()["credits"] and now["tax"] == terms()["tax"]


def test_a_coupon_is_used_as_often_as_it_says(world: World, acme: Tenant) -> None:
    make(uses_max=1)
    redeem(acme)
    with pytest.raises(InvalidRequest, match=REFUSED):
        redeem(world.tenant("other"))
    assert CouponRedemption.objects.count() == 1


@pytest.mark.parametrize(
    ("code", "hours"), [("NOTHING-HERE", 20), (CODE, 101), (CODE, -101), (CODE.lower(), 20)]
)
def test_what_cannot_be_redeemed_is_refused_in_one_way(acme: Tenant, code: str, hours: int) -> None:
    make()
    with pytest.raises(InvalidRequest, match=REFUSED):
        redeem(acme, code, hours_ago(hours))
    assert not TenantTerms.objects.exists() and not CouponRedemption.objects.exists()


def test_a_closed_tenant_gets_no_coupon(world: World, acme: Tenant) -> None:
    make()
    Tenant.objects.filter(pk=acme.pk).update(closed_at=hours_ago(30))
    with pytest.raises(InvalidRequest, match="acme is closed"):
        redeem(acme)
    assert not CouponRedemption.objects.exists()


def test_a_coupons_page_tells_what_becomes_of_who_redeems_it_now(acme: Tenant) -> None:
    row = make(uses_max=1)
    assert [state_of(coupon_actions.coupon_of(CODE), at) for at in (row.from_at, row.until_at - MOMENT)] == [
        "open"
    ] * 2
    assert state_of(row, row.from_at - MOMENT) == "not yet" and state_of(row, row.until_at) == "over"
    redeem(acme)
    assert state_of(coupon_actions.coupon_of(CODE), hours_ago(20)) == "used up"
    assert state_of(coupon_actions.end_coupon(TESTER, CODE, hours_ago(10)), hours_ago(5)) == "ended"


def test_an_ended_coupon_is_refused_and_who_has_it_keeps_it(world: World, acme: Tenant) -> None:
    make()
    redeem(acme)
    ended = coupon_actions.end_coupon(TESTER, CODE, hours_ago(10))
    assert coupon_actions.end_coupon(TESTER, CODE, hours_ago(9)).ended_at == ended.ended_at
    with pytest.raises(InvalidRequest, match=REFUSED):
        redeem(world.tenant("other"))
    assert terms_actions.terms_of(acme).document["discounts"]
    with pytest.raises(NotFound):
        coupon_actions.end_coupon(TESTER, "NOTHING-HERE", hours_ago(9))


@pytest.mark.parametrize("how", ["dropped", "lowered", "moved", "invented"])
def test_what_a_tenant_redeemed_stays_in_its_terms_until_it_is_over(acme: Tenant, how: str) -> None:
    make()
    make(code="SUMMER-99")
    redeem(acme)
    redeem(acme, "SUMMER-99")
    had = terms_actions.terms_of(acme).document["discounts"]
    wanted = {
        "dropped": had[1:],
        "lowered": [had[0] | {"basis_points": 1_999}, had[1]],
        "moved": had[::-1],
        "invented": [*had, had[0] | {"id": "coupon_MINE"}],
    }[how]
    said = "take another" if how == "invented" else "they must stay, in this order"
    with pytest.raises(InvalidRequest, match=said):
        change(acme, terms(discounts=wanted), at=hours_ago(10))
    change(acme, terms(discounts=[*terms()["discounts"], *had]), at=hours_ago(10))
    change(acme, terms(discounts=[]), at=hours_ago(-24 * 90))
    assert terms_actions.terms_of(acme).document["discounts"] == []


def test_discounts_that_are_over_make_room(acme: Tenant) -> None:
    make(days=31, from_at=hours_ago(24 * 40))
    make(code="SUMMER-99")
    redeem(acme, at=hours_ago(24 * 32))
    redeem(acme, "SUMMER-99", at=hours_ago(20))
    assert [one["id"] for one in terms_actions.terms_of(acme).document["discounts"]] == ["coupon_SUMMER-99"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"code": "abc"}, "code"),
        ({"code": "has space"}, "code"),
        ({"amount_micro": 5}, "percentage"),
        ({"basis_points": 0}, "percentage"),
        ({"basis_points": 0, "amount_micro": 5}, "currency"),
        ({"basis_points": 0, "amount_micro": 5_005_000, "currency": "USD"}, "whole coins"),
        ({"days": 30}, "days"),
        ({"uses_max": 0}, "uses_max"),
        ({"until_at": hours_ago(100)}, "until_at"),
        (
            {
                "until_at": datetime.max.replace(tzinfo=UTC),
                "from_at": datetime.max.replace(tzinfo=UTC) - timedelta(1),
            },
            "until_ms",
        ),
    ],
)
def test_a_coupon_that_cannot_be_is_refused_by_name(
    world: World, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidRequest, match=named):
        make(**changes)
    make()
    with pytest.raises(AlreadyExists):
        make()


def test_rest_makes_shows_redeems_and_ends_one(world: World) -> None:
    house = make_house("acme")
    operator, owner = house.credentials[Standing.OPERATOR], house.credentials[Standing.OWNER]
    body = {
        "code": CODE, "amount_micro": 5_000_000, "currency": "USD", "days": 90, "uses_max": 2, "reason": "spring",
        "from_at": "2026-01-01T00:00:00Z", "until_at": "2999-01-01T00:00:00Z",
    }  # fmt: skip
    made = call("POST", "/v1/coupons", body, token=operator)
    assert (made.status, made.body["used"]) == (201, 0), made.body
    assert call("POST", "/v1/coupons", body, token=operator).status == 409
    redeemed = call("POST", "/v1/redeemed-coupons", {"code": f" {CODE.lower()} "}, token=owner)
    assert redeemed.status == 201 and redeemed.body["discount"]["amount_micro"] == 5_000_000, redeemed.body
    assert call("POST", "/v1/redeemed-coupons", {"code": CODE}, token=owner).status == 409
    assert call("GET", f"/v1/coupons/{CODE}", token=operator).body["used"] == 1
    assert call("DELETE", f"/v1/coupons/{CODE}", token=operator).body["ended_at"]
    refused = call(
        "POST", "/v1/redeemed-coupons", {"code": CODE}, token=make_house("other").credentials[Standing.OWNER]
    )
    assert refused.status == 400 and REFUSED in refused.body["detail"]
