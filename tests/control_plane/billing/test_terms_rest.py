"""REST of a tenant's terms: who sees and sets them, conditions, dry runs with a cost, and previews."""

from datetime import UTC, datetime

import pytest

from billing import price_actions
from billing.models import TenantTerms
from billing.terms_actions import change_terms
from control_plane.audit import queries as audit
from tenants.roles import Standing
from tests.control_plane.billing.test_terms import FIRST, SECOND, cut, grant, terms
from tests.control_plane.billing.world import STANDARD_1, TESTER, TODAY, World
from tests.control_plane.world import Answer, House, call, make_house


@pytest.fixture
def house(world: World) -> House:
    return make_house("acme")


def path(house: House, rest: str = "") -> str:
    return f"/v1/tenants/{house.tenant.public_id}/terms{rest}"


def put(house: House, body: object, query: str = "", **headers: str) -> Answer:
    token = house.credentials[Standing.OPERATOR]
    return call("PUT", path(house) + query, body, token=token, **headers)


def wanted(**changes: object) -> dict[str, object]:
    return {**terms(), "price_book_sha256": None, **changes}


def get(house: House, rest: str = "", standing: Standing = Standing.OWNER) -> Answer:
    return call("GET", path(house, rest), token=house.credentials[standing])


def test_an_operator_sets_terms_and_the_tenant_reads_them(house: House) -> None:
    before = get(house)
    assert (before.body["revision"], before.body["discounts"], before.body["tax"]) == (0, [], None)
    changed = put(house, wanted(), If_Match=before.headers["ETag"])
    assert changed.status == 200, changed.body
    read = get(house)
    assert read.body == changed.body and read.headers["ETag"] == changed.headers["ETag"]
    assert read.body["credits"] == terms()["credits"]
    assert put(house, wanted(), If_Match=before.headers["ETag"]).status == 412
    assert put(house, wanted()).body["revision"] == 1, "the same again changes nothing"
    assert [e.action for e in audit.entries(house.tenant.public_id)].count("terms.change") == 1


def test_a_patch_leaves_what_it_does_not_name(house: House) -> None:
    put(house, wanted())
    token = house.credentials[Standing.OPERATOR]
    changed = call("PATCH", path(house), {"tax": None}, token=token, If_Match=get(house).headers["ETag"])
    assert changed.status == 200, changed.body
    assert changed.body["tax"] is None and changed.body["credits"] == terms()["credits"]
    assert call("PATCH", path(house), {}, token=token, If_Match='"stale"').status == 412
    assert call("PATCH", path(house), {}, token=token).body["revision"] == 2


def test_the_history_has_each_change(house: House) -> None:
    put(house, wanted())
    put(house, wanted(tax=None))
    shown = get(house, "/history").body["items"]
    assert [(one["revision"], one["tax"] is None) for one in shown] == [(1, False), (2, True)]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"discounts": []}, "credits"),
        (wanted(price_book_sha256="ab"), "price_book_sha256"),
        (wanted(credits=[grant(), grant()]), "twice"),
        (wanted(credits=[{**grant(), "surprise": 1}]), "surprise"),
        (wanted(tax={"country": "Germany"}), "tax"),
    ],
)
def test_terms_that_cannot_be_are_refused_by_name(house: House, body: object, named: str) -> None:
    answer = put(house, body)
    assert answer.status == 400 and named in str(answer.body), answer.body
    assert not TenantTerms.objects.exists()


def test_a_dry_run_says_what_the_last_period_would_have_cost(world: World, house: House) -> None:
    house.tenant.__class__.objects.filter(pk=house.tenant.pk).update(
        created_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    house.tenant.refresh_from_db()
    none = put(house, wanted(), "?dry_run=true")
    assert none.body["monthly_cost_change"] is None and "no period" in none.body["monthly_cost_reason"]
    cut(world, house.tenant, FIRST, 5)
    cut(world, house.tenant, SECOND, 3)
    answer = put(house, wanted(), "?dry_run=true")
    # 7.00 USD, less a tenth, less 4.00 of credit, with tax: 2.74.
    assert answer.body["monthly_cost_change"] == "-4.26", answer.body
    assert "cost 7.00 USD; with these terms and prices 2.74 USD" in answer.body["monthly_cost_reason"]
    assert {one["field"] for one in answer.body["changes"][0]["fields"]} == {"terms"}
    assert not TenantTerms.objects.exists()


def test_a_preview_shows_each_line_and_its_difference(world: World, house: House) -> None:
    operator = house.credentials[Standing.OPERATOR]

    def preview(body: object) -> Answer:
        return call("POST", path(house, "/preview"), body, token=operator)

    assert preview({}).status == 404, "nothing was invoiced"
    house.tenant.__class__.objects.filter(pk=house.tenant.pk).update(
        created_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    house.tenant.refresh_from_db()
    cut(world, house.tenant, FIRST, 5)
    cut(world, house.tenant, SECOND, 3)
    book = {**STANDARD_1, "format": 2, "version": 9, "fees": [{"fee": "support", "month": "0.5"}],
            "meters": [{**one, "model": "graduated"} for one in STANDARD_1["meters"]]}  # fmt: skip
    answer = preview({"document": book, "terms": terms(), "periods": 2})
    assert answer.status == 200, answer.body
    first, second = answer.body["periods"]
    assert first["period_end"] == second["period_start"]
    lines = {(one["kind"], one["name"]): one["difference_micro"] for one in second["lines"]}
    assert lines["usage", "messages_in"] == 0 and ("fee", "support") in lines
    assert sum(one["difference_micro"] for one in second["lines"]) == second["difference_micro"]
    assert preview({"price_book_sha256": "ab" * 32}).status == 404
    assert preview({"periods": 13}).status == 400
    assert not TenantTerms.objects.exists()


def test_a_tenant_reads_its_prices_and_what_the_period_costs_so_far(world: World, house: House) -> None:
    house.tenant.__class__.objects.filter(pk=house.tenant.pk).update(
        created_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    house.tenant.refresh_from_db()
    price_actions.begin_chains(10)
    change_terms(
        TESTER, house.tenant.public_id, terms=terms(), price_book_sha256=None,
        now=datetime(2026, 1, 2, tzinfo=UTC),
    )  # fmt: skip
    cut(world, house.tenant, FIRST, 5)
    world.day(house.tenant, "orders", TODAY, "messages_in", 3_000)
    world.day(house.tenant, "orders", TODAY, "bytes_in", 3_000_000)
    world.spark()
    world.bill()
    answer = call("GET", "/v1/prices", token=house.credentials[Standing.KEY])
    assert answer.status == 200, answer.body
    body = answer.body
    assert body["price_book"]["name"] == "standard" and body["discounts"][0]["id"] == "di_1"
    # 2,000 messages above the allowance and 3 MB are 7.00, less a tenth, less 4.00 of credit, with tax.
    assert body["total_micro"] == 2_740_000
    assert body["total_micro"] == sum(one["amount_micro"] for one in [*body["lines"], *body["charges"]])
    assert body["credits_left"] == [{"grant": "cr_1", "left_micro": 0}]
