"""Limits of service accounts beside their tenant's: set, shown, delivered, and gone with the account."""

from collections.abc import Callable
from typing import Any

import pytest

from control_plane.access import list_actions
from control_plane.access.actions import create_key
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from penstock.contract import limits
from penstock.contract.errors import Forbidden, InvalidRequest, LimitExceeded, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules.principal_limits import EVERY_ACCOUNT, PrincipalLimits, limits_digest
from quotas import account_actions as actions
from quotas import account_queries as queries
from quotas.models import AccountLimits
from tenants.models import ServiceAccount, Tenant
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, House, call, make_house, make_tenant

pytestmark = pytest.mark.django_db


def account_of(tenant: Tenant, name: str = "robot") -> ServiceAccount:
    return list_actions.create_account(ACTOR, tenant, name=name)


def as_operator(house: House, method: str, path: str, body: dict[str, Any] | None = None, **more: str) -> Any:
    token = house.credentials[Standing.OPERATOR]
    return call(method, f"/v1/{path}", body, token=token, tenant=house.tenant, **more)


def test_limits_of_an_account_are_set_shown_and_removed() -> None:
    house = make_house("acme")
    account = account_of(house.tenant)
    path = f"service-accounts/{account.public_id}/limits"
    before = as_operator(house, "GET", path)
    assert before.body["produce_bytes_per_s"] is None and before.body["effective"]["produce_bytes_per_s"] == 0
    made = as_operator(house, "PUT", path, {"produce_bytes_per_s": 1_000, "requests_per_s": 0})
    assert made.status == 202, "no broker runs here"
    assert made.body["effective"] == {
        "produce_bytes_per_s": 1_000,
        "consume_bytes_per_s": 0,
        "requests_per_s": 0,
    }
    assert made.body["token"]["object"] == house.tenant.public_id
    listed = as_operator(house, "GET", "service-account-limits").body["items"]
    assert [(row["service_account"], row["produce_bytes_per_s"]) for row in listed] == [
        (account.public_id, 1_000)
    ]
    stale = as_operator(house, "PUT", path, {"requests_per_s": 5}, **{"If-Match": before.headers["ETag"]})
    assert stale.status == 412
    gone = as_operator(house, "DELETE", path, **{"If-Match": made.headers["ETag"]})
    assert gone.status == 202 and gone.body["produce_bytes_per_s"] is None
    assert as_operator(house, "GET", "service-account-limits").body["items"] == []
    entries = AuditEntry.objects.filter(object_id=account.public_id, action__startswith="account_limits")
    assert [entry.action for entry in entries.order_by("sequence")] == [
        "account_limits.set",
        "account_limits.remove",
    ]


def test_owners_and_admins_set_limits_and_developers_and_bound_keys_do_not() -> None:
    house = make_house("acme")
    path = f"/v1/service-accounts/{account_of(house.tenant).public_id}/limits"
    for number, standing in enumerate((Standing.OWNER, Standing.ADMIN, Standing.KEY), start=1):
        token = house.credentials[standing]
        assert call("PUT", path, {"requests_per_s": number}, token=token).status == 202, standing
    for standing in (Standing.DEVELOPER, Standing.BILLING, Standing.AUDITOR, Standing.BOUND_KEY):
        assert call("DELETE", path, token=house.credentials[standing]).status == 403, standing
    assert AccountLimits.objects.get().requests_per_s == 3


def test_a_key_of_a_service_account_changes_no_limit_that_its_account_has() -> None:
    tenant = make_tenant("acme")
    own, other = account_of(tenant, "own"), account_of(tenant, "other")
    key, _ = create_key(ACTOR, tenant, name="own's", account=own)
    by_key = Actor(kind=ActorKind.KEY, id=key.public_id)
    actions.set_account_limits(ACTOR, tenant, own, {"requests_per_s": 5})
    actions.set_account_limits(ACTOR, tenant, None, {"requests_per_s": 9, "produce_bytes_per_s": 500})
    before = queries.limits_on_brokers(tenant)
    changes: list[Callable[[], Tenant]] = [
        lambda: actions.set_account_limits(by_key, tenant, own, {"requests_per_s": 50}),
        lambda: actions.remove_account_limits(by_key, tenant, own),
        lambda: actions.set_account_limits(by_key, tenant, None, {"requests_per_s": 9}),
        lambda: actions.remove_account_limits(by_key, tenant, None),
    ]
    for change in changes:
        with pytest.raises(Forbidden, match="own: a service account does not change its own limits"):
            change()
    assert queries.limits_on_brokers(tenant) == before
    # What its account does not have is not its own.
    actions.set_account_limits(by_key, tenant, other, {"requests_per_s": 1})
    actions.set_account_limits(by_key, tenant, None, {"requests_per_s": 8, "produce_bytes_per_s": 500})
    assert queries.limits_of_account(tenant, own).effective == PrincipalLimits(
        requests_per_s=5, produce_bytes_per_s=500
    )


def test_brokers_get_the_limits_of_each_beneath_those_of_one() -> None:
    tenant, other = make_tenant("acme"), make_tenant("other")
    one, two = account_of(tenant, "one"), account_of(tenant, "two")
    account_of(other, "one")
    actions.set_account_limits(ACTOR, tenant, None, {"produce_bytes_per_s": 500, "requests_per_s": 9})
    actions.set_account_limits(ACTOR, tenant, one, {"produce_bytes_per_s": 2_000})
    actions.set_account_limits(ACTOR, tenant, two, {"requests_per_s": 0})
    assert queries.limits_on_brokers(tenant) == {
        EVERY_ACCOUNT: PrincipalLimits(produce_bytes_per_s=500, requests_per_s=9),
        f"service_account:{one.public_id}": PrincipalLimits(produce_bytes_per_s=2_000, requests_per_s=9),
        f"service_account:{two.public_id}": PrincipalLimits(produce_bytes_per_s=500),
    }
    assert queries.limits_on_brokers(other) == {}, "an account of the same name has none"
    assert queries.principal_limits_by_tenant() == {tenant.public_id: queries.limits_on_brokers(tenant)}
    # The row of each changes what those with limits of their own take from it.
    actions.remove_account_limits(ACTOR, tenant, None)
    assert queries.limits_on_brokers(tenant)[f"service_account:{two.public_id}"] == PrincipalLimits()


def test_the_tenants_generation_rises_with_each_change_and_not_without_one() -> None:
    tenant = make_tenant("acme")
    account = account_of(tenant)
    before = Tenant.objects.get(pk=tenant.pk).generation
    first = actions.set_account_limits(ACTOR, tenant, account, {"requests_per_s": 1})
    again = actions.set_account_limits(ACTOR, tenant, account, {"requests_per_s": 1})
    assert (first.generation, again.generation) == (before + 1, before + 1)
    assert actions.remove_account_limits(ACTOR, tenant, account).generation == before + 2
    assert actions.remove_account_limits(ACTOR, tenant, account).generation == before + 2


def test_a_deleted_account_takes_its_limits_along_and_a_restored_one_has_none() -> None:
    tenant = make_tenant("acme")
    account = account_of(tenant)
    actions.set_account_limits(ACTOR, tenant, account, {"requests_per_s": 1})
    generation = Tenant.objects.get(pk=tenant.pk).generation
    list_actions.end_account(ACTOR, tenant, account)
    assert not AccountLimits.objects.exists() and queries.limits_on_brokers(tenant) == {}
    assert Tenant.objects.get(pk=tenant.pk).generation == generation + 1
    with pytest.raises(NotFound):
        actions.set_account_limits(ACTOR, tenant, account, {"requests_per_s": 1})


def test_limits_of_another_tenants_account_are_not_set() -> None:
    tenant, other = make_tenant("acme"), make_tenant("other")
    with pytest.raises(NotFound):
        actions.set_account_limits(ACTOR, tenant, account_of(other), {"requests_per_s": 1})
    assert not AccountLimits.objects.exists()


def test_limits_of_a_suspended_tenant_are_set() -> None:
    tenant = make_tenant("acme")
    Tenant.objects.filter(pk=tenant.pk).update(suspended=True)
    actions.set_account_limits(ACTOR, tenant, account_of(tenant), {"requests_per_s": 1})
    assert queries.own_limits(tenant).count() == 1


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"requests_per_s": None},
        {"requests_per_s": -1},
        {"produce_bytes_per_s": limits.PRODUCE_BYTES_PER_S_MAX + 1},
        {"consume_bytes_per_s": limits.CONSUME_BYTES_PER_S_MAX + 1},
        {"requests_per_s": limits.REQUESTS_PER_S_MAX + 1},
    ],
)
def test_limits_that_cannot_be_are_refused(wanted: dict[str, int | None]) -> None:
    tenant = make_tenant("acme")
    for account in (account_of(tenant), None):
        with pytest.raises(InvalidRequest):
            actions.set_account_limits(ACTOR, tenant, account, wanted)
    assert not AccountLimits.objects.exists()


def test_the_services_own_accounts_are_not_limited() -> None:
    service = Tenant.objects.filter(public_id=SYSTEM_TENANT).first() or Tenant.objects.create(
        public_id=SYSTEM_TENANT, name="service"
    )
    with pytest.raises(InvalidRequest, match="neither suspended nor limited"):
        actions.set_account_limits(ACTOR, service, None, {"requests_per_s": 1})


def test_so_many_accounts_have_limits_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PRINCIPAL_LIMITS_PER_TENANT_MAX", 1)
    tenant = make_tenant("acme")
    one, two = account_of(tenant, "one"), account_of(tenant, "two")
    actions.set_account_limits(ACTOR, tenant, one, {"requests_per_s": 1})
    with pytest.raises(LimitExceeded, match="1 service accounts have limits of their own, and no more may"):
        actions.set_account_limits(ACTOR, tenant, two, {"requests_per_s": 1})
    actions.set_account_limits(ACTOR, tenant, one, {"requests_per_s": 2})
    actions.set_account_limits(ACTOR, tenant, None, {"requests_per_s": 2})


def test_the_digest_names_principals_and_limits_in_any_order() -> None:
    one, two = PrincipalLimits(requests_per_s=1), PrincipalLimits(produce_bytes_per_s=1)
    assert limits_digest({"a": one, "b": two}) == limits_digest({"b": two, "a": one})
    assert (
        len(
            {
                limits_digest({}),
                limits_digest({"a": one}),
                limits_digest({"a": two}),
                limits_digest({"b": one}),
            }
        )
        == 4
    )
