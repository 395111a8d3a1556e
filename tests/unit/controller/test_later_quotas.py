"""Limits that brokers of Penstock 0.1 do not know are left out until every broker knows them."""

import json
from dataclasses import replace

import pytest

from data_plane.controller import tenants
from data_plane.metadata import model
from data_plane.metadata.features import LEASES
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Put
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TenantId
from penstock.contract.limits import REQUESTS_PER_S_MAX
from penstock.rules.budgets import MONTH, NOTIFY, Budget
from penstock.rules.principal_limits import EVERY_ACCOUNT, PrincipalLimits

LATER = {
    "connections_max": 3,
    "groups_max": 4,
    "requests_per_s": 5,
    "connection_attempts_per_s": 6,
    "rate_burst_ms": 700,
    "rate_floor_percent": 8,
    "storage_bytes_max": 9,
    "kept_bytes_max": 11,
    "broker_processor_ms_per_s": 10,
}
WANTED = model.TenantQuotas(produce_bytes_per_s=7, partitions_max=9, **LATER)


def stored(level: int) -> dict[str, int]:
    image = ClusterImage()
    image.level = level
    (change,) = tenants.put_tenant(image, "acme", generation=1, quotas=WANTED).changes
    assert isinstance(change, Put)
    found: dict[str, int] = json.loads(change.value)["quotas"]
    return found


def test_below_the_level_brokers_get_what_the_release_before_reads() -> None:
    assert stored(LEASES - 1) == {"produce_bytes_per_s": 7, "partitions_max": 9}


def test_from_the_level_on_they_get_all_of_it() -> None:
    assert stored(LEASES) == {"produce_bytes_per_s": 7, "partitions_max": 9, **LATER}


ROBOT = "service_account:sa_1"
PRINCIPALS = {ROBOT: PrincipalLimits(requests_per_s=3), EVERY_ACCOUNT: PrincipalLimits()}


def image_of(level: int) -> ClusterImage:
    image = ClusterImage()
    image.level = level
    return image


def record_of(change: tenants.Transaction) -> model.TenantRecord:
    (put,) = change.changes
    assert isinstance(put, Put)
    return model.TenantRecord.decode(put.value)


def test_limits_of_principals_come_with_the_tenants_and_are_left_out_below_the_level() -> None:
    for level, found in ((LEASES, PRINCIPALS), (LEASES - 1, {})):
        change = tenants.put_tenant(
            image_of(level), "acme", generation=1, quotas=WANTED, principals=PRINCIPALS
        )
        assert record_of(change).principals == found
    (plain,) = tenants.put_tenant(image_of(LEASES), "acme", generation=1, quotas=WANTED).changes
    assert isinstance(plain, Put) and b"principals" not in plain.value, "brokers before can read it"


def test_limits_of_principals_stay_without_quotas_and_go_with_quotas_that_name_none() -> None:
    image = image_of(LEASES)
    image.tenants[TenantId("acme")] = model.TenantRecord(tenant=TenantId("acme"), principals=PRINCIPALS)
    assert record_of(tenants.put_tenant(image, "acme", suspended=True)).principals == PRINCIPALS
    assert record_of(tenants.put_tenant(image, "acme", quotas=WANTED)).principals == {}


@pytest.mark.parametrize(
    ("principal", "limits"),
    [
        ("", PrincipalLimits()),
        ("group:grp_1", PrincipalLimits()),
        ("everyone", PrincipalLimits()),
        (ROBOT, PrincipalLimits(requests_per_s=REQUESTS_PER_S_MAX + 1)),
    ],
)
def test_limits_of_principals_that_cannot_be_are_refused(principal: str, limits: PrincipalLimits) -> None:
    with pytest.raises(InvalidRequest):
        tenants.put_tenant(image_of(LEASES), "acme", quotas=WANTED, principals={principal: limits})


@pytest.mark.parametrize("level", [LEASES - 1, LEASES])
def test_two_budgets_of_one_id_are_refused_and_two_of_one_name_are_not(level: int) -> None:
    image = ClusterImage()
    image.level = level
    budget = Budget(
        budget_id="b1", name="prod", period=MONTH, amount=5, unit="messages", policy=NOTIFY, message_in=1
    )
    for budget_id, is_refused in (("b1", True), ("b2", False)):
        budgets = [budget, replace(budget, budget_id=budget_id)]
        if is_refused:
            with pytest.raises(InvalidRequest, match="budgets: two of them have the same id"):
                tenants.put_tenant(image, "acme", generation=1, quotas=WANTED, budgets=budgets)
        else:
            assert tenants.put_tenant(image, "acme", generation=1, quotas=WANTED, budgets=budgets).changes
