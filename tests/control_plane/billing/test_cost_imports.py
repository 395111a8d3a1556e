"""FOCUS exports are taken in once, replace what their source had, and are undone."""

import threading
from datetime import UTC, datetime

import pytest
from django.db import connections

from billing import cost_imports, margins, unit_cost_actions
from billing.cost_imports import TakenIn
from billing.unit_cost_models import CostImport, CostSource, InfrastructureCost
from control_plane.audit.models import AuditEntry
from penstock.contract.errors import InUse
from tenants.roles import Standing
from tests.control_plane.billing.world import TESTER
from tests.control_plane.world import call, make_house

NOW = datetime(2026, 12, 2, tzinfo=UTC)
HEADER = "BillingCurrency,ChargePeriodStart,ChargePeriodEnd,EffectiveCost,ServiceCategory,ServiceName\n"


def text(*costs: tuple[str, str], month: int = 11) -> str:
    """(service, cost) of a month."""
    return HEADER + "".join(
        f"USD,2026-{month}-03T00:00:00Z,2026-{month}-04T00:00:00Z,{cost},Compute,{service}\n"
        for service, cost in costs
    )


def taken(*costs: tuple[str, str], source: str = "aws", month: int = 11) -> TakenIn:
    return cost_imports.take_in_export(
        TESTER, source, text(*costs, month=month), cost_column="EffectiveCost", now=NOW
    )


def stored() -> dict[str, int]:
    return dict(InfrastructureCost.objects.order_by("name").values_list("name", "price_micro"))


@pytest.mark.django_db
def test_the_same_export_again_changes_nothing_and_a_fuller_one_replaces_it() -> None:
    first = taken(("EC2", "1.0000004"), ("S3", "2"))
    assert (first.created, first.row.totals, first.row.rows) == (2, {"USD": 3_000_000}, 2)
    again = taken(("S3", "2.0"), ("EC2", "1.0000004"))
    assert (again.is_new, again.row.pk, again.unchanged) == (False, first.row.pk, 2)
    assert CostImport.objects.count() == 1
    fuller = taken(("EC2", "5"), ("Lambda", "1"))
    assert (fuller.created, fuller.changed, fuller.removed) == (1, 1, 1)
    assert stored() == {"EC2": 5_000_000, "Lambda": 1_000_000}
    back = taken(("EC2", "1.0000004"), ("S3", "2"))
    assert back.is_new and stored() == {"EC2": 1_000_000, "S3": 2_000_000}, "an older one again counts again"


@pytest.mark.django_db
def test_an_undone_import_brings_back_what_it_replaced_the_newest_first() -> None:
    first, second = taken(("EC2", "1"), ("S3", "2")), taken(("EC2", "5"))
    taken(("EC2", "9"), source="others")
    december = taken(("EC2", "7"), month=12)
    with pytest.raises(InUse, match=second.row.public_id):
        cost_imports.undo(TESTER, first.row.public_id, NOW)
    ids = set(InfrastructureCost.objects.values_list("public_id", flat=True))
    cost_imports.undo(TESTER, second.row.public_id, NOW)
    cost_imports.undo(TESTER, second.row.public_id, NOW)
    rows = InfrastructureCost.objects.filter(source="aws", from_at__month=11).order_by("name")
    assert [(row.name, row.price_micro) for row in rows] == [("EC2", 1_000_000), ("S3", 2_000_000)]
    assert rows[0].public_id in ids, "it is the cost that it was"
    cost_imports.undo(TESTER, first.row.public_id, NOW)
    assert set(InfrastructureCost.objects.values_list("source", "price_micro")) == {
        ("others", 9_000_000),
        ("aws", 7_000_000),
    }
    cost_imports.undo(TESTER, december.row.public_id, NOW)
    assert AuditEntry.objects.filter(action="infrastructure_cost.undo_import").count() == 3
    assert taken(("EC2", "5")).is_new, "what was undone may be taken in again"


@pytest.mark.django_db
def test_a_cost_that_was_given_another_month_since_comes_back_once() -> None:
    taken(("EC2", "1"))
    second = taken(("EC2", "5"))
    row = InfrastructureCost.objects.get()
    moved = {"from_at": datetime(2026, 12, 3, tzinfo=UTC), "until_at": datetime(2026, 12, 4, tzinfo=UTC)}
    unit_cost_actions.change(TESTER, row, moved)
    cost_imports.undo(TESTER, second.row.public_id, NOW)
    back = InfrastructureCost.objects.get()
    assert (back.public_id, back.price_micro, back.from_at.month) == (row.public_id, 1_000_000, 11)


@pytest.mark.django_db
def test_a_month_whose_rows_cost_nothing_any_more_has_nothing_left() -> None:
    taken(("EC2", "1"))
    taken(("EC2", "7"), month=12)
    nothing = taken(("EC2", "2"), ("EC2", "-2"))
    assert (nothing.removed, nothing.row.months, nothing.row.costs) == (1, ["2026-11"], 0)
    assert stored() == {"EC2": 7_000_000}
    assert not taken(("EC2", "0")).is_new
    cost_imports.undo(TESTER, nothing.row.public_id, NOW)
    assert InfrastructureCost.objects.count() == 2


@pytest.mark.django_db
def test_what_was_taken_in_is_what_a_months_margins_divide() -> None:
    taken(("EC2", "1.000000499"), ("S3", "0.0000005"), ("Lambda", "0.333333333"))
    report = margins.margins("2026-11", NOW)
    assert report.total.cost_micro == 1_333_334  # 1.333334332 of the file


@pytest.mark.django_db(transaction=True)
def test_first_imports_of_one_source_at_the_same_time_are_one() -> None:
    together = threading.Barrier(3)
    done: list[TakenIn] = []

    def run() -> None:
        try:
            together.wait()
            done.append(taken(("EC2", "1"), ("S3", "2")))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(one.is_new for one in done) == [False, False, True]
    assert InfrastructureCost.objects.count() == 2 and CostSource.objects.count() == 1


@pytest.mark.django_db
def test_rest_takes_an_export_in_once_and_names_row_and_column() -> None:
    house = make_house("acme")
    token = house.credentials[Standing.OPERATOR]
    path, body = "/v1/billing/cost-imports", {"source": "aws", "csv": text(("EC2", "1"))}
    assert call("POST", f"{path}?dry_run=true", body, token=token).status == 200 and not stored()
    made = call("POST", path, body, token=token)
    assert (made.status, made.body["created"], made.body["months"]) == (201, 1, ["2026-11"])
    again = call("POST", path, body, token=token)
    assert (again.status, again.body["id"]) == (200, made.body["id"])
    wrong = call("POST", path, body | {"csv": text(("EC2", "much"))}, token=token)
    assert wrong.status == 400 and "row 2, column EffectiveCost" in wrong.body["detail"]
    assert call("POST", path, {"source": "aws"}, token=token).status == 400
    assert call("POST", path, body, token=house.credentials[Standing.OWNER]).status == 403
    (item,) = call("GET", path, token=token).body["items"]
    assert call("DELETE", f"{path}/{item['id']}", token=token).status == 204 and not stored()
    assert call("GET", path, token=token).body["items"][0]["undone_at"]
    assert call("DELETE", f"{path}/cim_nothing", token=token).status == 404
