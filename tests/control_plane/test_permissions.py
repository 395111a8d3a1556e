"""Who may call what: every address by method and standing, and no address shows one tenant another's."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from pytest_django.plugin import DjangoDbBlocker

from control_plane.access import actions as access
from control_plane.outbox import in_request
from control_plane.placement import driving, planning
from control_plane.topics import actions as topics
from control_plane.topics import queries as topic_queries
from control_plane.topics.models import Topic
from tenants.models import Membership, OrganisationMember, Tenant
from tenants.roles import ORGANISATION_TABLE, TABLE, OrganisationPermission, Permission, Standing
from tests.control_plane.hostile import some_of
from tests.control_plane.rows_of_a_module import rows_of_a_module
from tests.control_plane.steps import walk
from tests.control_plane.world import (
    ACTOR,
    House,
    call,
    make_house,
    make_organisation,
    make_person,
    with_verifying_key,
)

pytestmark = pytest.mark.django_db

S = Standing
EVERYBODY = frozenset(Standing)
PEOPLE = frozenset({S.OWNER, S.ADMIN, S.DEVELOPER, S.BILLING, S.AUDITOR})
WRITERS = frozenset({S.OWNER, S.ADMIN, S.DEVELOPER, S.KEY})
OPERATOR = frozenset({S.OPERATOR})
OF_TENANTS = sorted(EVERYBODY - OPERATOR)
USAGE = PEOPLE | {S.KEY, S.OPERATOR}
INVOICES = frozenset({S.OWNER, S.ADMIN, S.BILLING, S.AUDITOR, S.KEY, S.VERIFYING_KEY, S.OPERATOR})
VERIFIERS = frozenset({S.OWNER, S.ADMIN, S.BILLING, S.AUDITOR})
ACCESS_READERS = frozenset({S.OWNER, S.ADMIN, S.DEVELOPER, S.AUDITOR, S.KEY, S.OPERATOR})
AUDITORS = frozenset({S.OWNER, S.ADMIN, S.AUDITOR, S.OPERATOR})
ACCESS_WRITERS = frozenset({S.OWNER, S.ADMIN, S.KEY})
WEBHOOK_READERS = frozenset({S.OWNER, S.ADMIN, S.AUDITOR, S.OPERATOR})
BUDGET_WRITERS = frozenset({S.OWNER, S.ADMIN, S.BILLING, S.OPERATOR})
WEBHOOK_WRITERS = frozenset({S.OWNER, S.ADMIN})
# The developer is no member of the organisation, and hears that there is none.
ORGANISATION_READERS = PEOPLE
ORGANISATION_WRITERS = frozenset({S.OWNER, S.ADMIN, S.DEVELOPER})
ORGANISATION_OWNERS = frozenset({S.OWNER, S.DEVELOPER})
ORGANISATION_AUDITORS = frozenset({S.OWNER, S.ADMIN, S.AUDITOR, S.DEVELOPER})
ORGANISATION = "v1/organisations/<str:organisation>"

MAY = {
    ("GET", "v1/whoami"): EVERYBODY,
    ("GET", "v1/tenants"): EVERYBODY,
    ("POST", "v1/tenants"): PEOPLE,
    ("POST", "v1/sign-out"): PEOPLE,
    ("GET", "v1/tenants/<str:tenant>"): EVERYBODY,
    ("PATCH", "v1/tenants/<str:tenant>"): frozenset({S.OWNER, S.OPERATOR}),
    ("DELETE", "v1/tenants/<str:tenant>"): frozenset({S.OWNER, S.OPERATOR}),
    ("POST", "v1/tenants/<str:tenant>/reopen"): frozenset({S.OWNER, S.OPERATOR}),
    ("POST", "v1/tenants/<str:tenant>/suspend"): OPERATOR,
    ("GET", "v1/tenants/<str:tenant>/terms"): INVOICES,
    ("PUT", "v1/tenants/<str:tenant>/terms"): OPERATOR,
    ("PATCH", "v1/tenants/<str:tenant>/terms"): OPERATOR,
    ("GET", "v1/tenants/<str:tenant>/terms/history"): INVOICES,
    ("POST", "v1/tenants/<str:tenant>/terms/preview"): OPERATOR,
    ("POST", "v1/tenants/<str:tenant>/resume"): OPERATOR,
    ("GET", "v1/people"): PEOPLE | OPERATOR,
    ("GET", "v1/people/<str:person>"): PEOPLE | OPERATOR,
    ("PATCH", "v1/people/<str:person>"): frozenset({S.OWNER, S.ADMIN}),
    ("DELETE", "v1/people/<str:person>"): frozenset({S.OWNER, S.ADMIN}),
    ("GET", "v1/invitations"): PEOPLE | OPERATOR,
    ("POST", "v1/invitations"): frozenset({S.OWNER, S.ADMIN}),
    ("DELETE", "v1/invitations/<str:invitation>"): frozenset({S.OWNER, S.ADMIN}),
    ("POST", "v1/join"): PEOPLE,
    ("GET", "v1/organisations"): PEOPLE,
    ("POST", "v1/organisations"): PEOPLE,
    ("GET", ORGANISATION): ORGANISATION_READERS,
    ("PATCH", ORGANISATION): ORGANISATION_WRITERS,
    ("DELETE", ORGANISATION): ORGANISATION_OWNERS,
    ("GET", f"{ORGANISATION}/members"): ORGANISATION_READERS,
    ("GET", f"{ORGANISATION}/members/<str:person>"): ORGANISATION_READERS,
    ("PATCH", f"{ORGANISATION}/members/<str:person>"): ORGANISATION_WRITERS,
    ("DELETE", f"{ORGANISATION}/members/<str:person>"): ORGANISATION_WRITERS,
    ("GET", f"{ORGANISATION}/invitations"): ORGANISATION_READERS,
    ("POST", f"{ORGANISATION}/invitations"): ORGANISATION_WRITERS,
    ("DELETE", f"{ORGANISATION}/invitations/<str:invitation>"): ORGANISATION_WRITERS,
    ("GET", f"{ORGANISATION}/tenants"): ORGANISATION_READERS,
    ("GET", f"{ORGANISATION}/tenants/<str:tenant>"): ORGANISATION_READERS,
    ("POST", f"{ORGANISATION}/tenants/<str:tenant>"): ORGANISATION_OWNERS,
    ("DELETE", f"{ORGANISATION}/tenants/<str:tenant>"): ORGANISATION_OWNERS,
    ("GET", f"{ORGANISATION}/audit"): ORGANISATION_AUDITORS,
    ("GET", f"{ORGANISATION}/audit/export"): ORGANISATION_AUDITORS,
    ("GET", f"{ORGANISATION}/audit/head"): ORGANISATION_READERS,
    ("POST", "v1/password"): PEOPLE,
    ("GET", "v1/sign-ins"): PEOPLE,
    ("DELETE", "v1/sign-ins"): PEOPLE,
    ("DELETE", "v1/sign-ins/<str:sign_in>"): PEOPLE,
    ("GET", "v1/email"): PEOPLE,
    ("POST", "v1/email/change"): PEOPLE,
    ("DELETE", "v1/email/change"): PEOPLE,
    ("POST", "v1/email/confirm"): PEOPLE,
    ("GET", "v1/second-factors"): PEOPLE,
    ("POST", "v1/second-factors/codes"): PEOPLE,
    ("POST", "v1/second-factors/codes/confirm"): PEOPLE,
    ("GET", "v1/second-factors/<str:factor>"): PEOPLE,
    ("POST", "v1/second-factors/<str:factor>/remove"): PEOPLE,
    ("GET", "v1/recovery-codes"): PEOPLE,
    ("POST", "v1/recovery-codes"): PEOPLE,
    ("GET", "v1/topics"): EVERYBODY,
    ("POST", "v1/topics"): WRITERS,
    ("POST", "v1/topics:batch"): WRITERS,
    ("GET", "v1/topics/<str:name>"): EVERYBODY,
    ("PATCH", "v1/topics/<str:name>"): WRITERS,
    ("DELETE", "v1/topics/<str:name>"): WRITERS,
    ("GET", "v1/topics/<str:name>/durability"): EVERYBODY,
    ("GET", "v1/topics/<str:name>/hot-keys"): frozenset({S.OWNER, S.ADMIN, S.DEVELOPER, S.KEY}),
    ("GET", "v1/topics/<str:name>/history"): EVERYBODY,
    ("POST", "v1/topics/<str:name>/restore"): WRITERS,
    ("GET", "v1/bin/access"): ACCESS_READERS,
    ("GET", "v1/bin/topics"): EVERYBODY,
    ("GET", "v1/bin/topics/<str:topic>"): EVERYBODY,
    ("DELETE", "v1/bin/topics/<str:topic>"): WRITERS,
    ("POST", "v1/bin/topics/<str:topic>/restore"): WRITERS,
    ("GET", "v1/keys"): frozenset({S.OWNER, S.ADMIN, S.DEVELOPER, S.AUDITOR, S.KEY, S.OPERATOR}),
    ("POST", "v1/keys"): WRITERS,
    ("GET", "v1/keys:verifying"): VERIFIERS,
    ("POST", "v1/keys:verifying"): VERIFIERS,
    ("GET", "v1/keys/<str:key>"): frozenset({S.OWNER, S.ADMIN, S.DEVELOPER, S.AUDITOR, S.KEY, S.OPERATOR}),
    ("DELETE", "v1/keys/<str:key>"): WRITERS,
    ("POST", "v1/keys/<str:key>/rotate"): WRITERS,
    ("POST", "v1/keys/<str:key>/restore"): WRITERS,
    ("GET", "v1/service-accounts"): ACCESS_READERS,
    ("POST", "v1/service-accounts"): ACCESS_WRITERS,
    ("GET", "v1/service-accounts/<str:account>"): ACCESS_READERS,
    ("DELETE", "v1/service-accounts/<str:account>"): ACCESS_WRITERS,
    ("POST", "v1/service-accounts/<str:account>/restore"): ACCESS_WRITERS,
    ("GET", "v1/service-accounts/<str:account>/limits"): (PEOPLE - {S.BILLING}) | {S.KEY, S.OPERATOR},
    ("PUT", "v1/service-accounts/<str:account>/limits"): ACCESS_WRITERS | OPERATOR,
    ("DELETE", "v1/service-accounts/<str:account>/limits"): ACCESS_WRITERS | OPERATOR,
    ("GET", "v1/service-account-limits"): (PEOPLE - {S.BILLING}) | {S.KEY, S.OPERATOR},
    ("GET", "v1/service-account-limits/default"): PEOPLE | {S.KEY, S.OPERATOR},
    ("PUT", "v1/service-account-limits/default"): ACCESS_WRITERS | OPERATOR,
    ("DELETE", "v1/service-account-limits/default"): ACCESS_WRITERS | OPERATOR,
    ("GET", "v1/principal-groups"): ACCESS_READERS,
    ("POST", "v1/principal-groups"): ACCESS_WRITERS,
    ("GET", "v1/principal-groups/<str:group>"): ACCESS_READERS,
    ("PATCH", "v1/principal-groups/<str:group>"): ACCESS_WRITERS,
    ("DELETE", "v1/principal-groups/<str:group>"): ACCESS_WRITERS,
    ("GET", "v1/principal-groups/<str:group>/history"): ACCESS_READERS,
    ("POST", "v1/principal-groups/<str:group>/restore"): ACCESS_WRITERS,
    ("GET", "v1/access"): ACCESS_READERS,
    ("GET", "v1/access/history"): ACCESS_READERS,
    ("POST", "v1/access/restore"): ACCESS_WRITERS,
    ("PATCH", "v1/access"): ACCESS_WRITERS,
    ("GET", "v1/access/check"): ACCESS_READERS,
    ("GET", "v1/access/who"): ACCESS_READERS,
    ("GET", "v1/access/reports"): AUDITORS,
    ("GET", "v1/access/reports/<str:month>"): AUDITORS,
    ("GET", "v1/access/reports/<str:month>/csv"): AUDITORS,
    ("GET", "v1/access/report-mails"): AUDITORS,
    ("PATCH", "v1/access/report-mails"): frozenset({S.OWNER, S.ADMIN}),
    ("GET", "v1/acls"): ACCESS_READERS,
    ("POST", "v1/acls"): ACCESS_WRITERS,
    ("POST", "v1/acls:preset"): ACCESS_WRITERS,
    ("GET", "v1/acls/<str:acl>"): ACCESS_READERS,
    ("DELETE", "v1/acls/<str:acl>"): ACCESS_WRITERS,
    ("POST", "v1/acls/<str:acl>/restore"): ACCESS_WRITERS,
    ("GET", "v1/quotas"): PEOPLE | {S.KEY, S.OPERATOR},
    ("PATCH", "v1/quotas"): OPERATOR,
    ("GET", "v1/quotas/preview"): PEOPLE | {S.KEY, S.OPERATOR},
    ("GET", "v1/plans"): EVERYBODY,
    ("POST", "v1/plans"): OPERATOR,
    ("GET", "v1/budgets"): PEOPLE | {S.KEY, S.OPERATOR},
    ("POST", "v1/budgets"): BUDGET_WRITERS,
    ("GET", "v1/budgets/<str:budget>"): PEOPLE | {S.KEY, S.OPERATOR},
    ("PATCH", "v1/budgets/<str:budget>"): BUDGET_WRITERS,
    ("DELETE", "v1/budgets/<str:budget>"): BUDGET_WRITERS,
    ("GET", "v1/webhooks"): WEBHOOK_READERS,
    ("POST", "v1/webhooks"): WEBHOOK_WRITERS,
    ("GET", "v1/webhooks/<str:webhook>"): WEBHOOK_READERS,
    ("PATCH", "v1/webhooks/<str:webhook>"): WEBHOOK_WRITERS,
    ("DELETE", "v1/webhooks/<str:webhook>"): WEBHOOK_WRITERS,
    ("GET", "v1/webhooks/<str:webhook>/attempts"): WEBHOOK_READERS,
    ("POST", "v1/webhooks/<str:webhook>/ping"): WEBHOOK_WRITERS,
    ("POST", "v1/webhooks/<str:webhook>/resume"): WEBHOOK_WRITERS,
    ("POST", "v1/webhooks/<str:webhook>/rotate"): WEBHOOK_WRITERS,
    ("GET", "v1/audit"): frozenset({S.OWNER, S.ADMIN, S.AUDITOR, S.OPERATOR}),
    ("GET", "v1/audit/export"): frozenset({S.OWNER, S.ADMIN, S.AUDITOR, S.OPERATOR}),
    ("GET", "v1/audit/head"): EVERYBODY,
    ("GET", "v1/audit-topic"): WEBHOOK_READERS,
    ("PATCH", "v1/audit-topic"): WEBHOOK_WRITERS,
    ("DELETE", "v1/audit-topic"): WEBHOOK_WRITERS,
    ("GET", "v1/cluster"): OPERATOR,
    ("GET", "v1/cluster/losses"): OPERATOR,
    ("POST", "v1/cluster/losses"): OPERATOR,
    ("GET", "v1/cluster/brokers"): OPERATOR,
    ("GET", "v1/cluster/brokers/<int:broker>"): OPERATOR,
    ("DELETE", "v1/cluster/brokers/<int:broker>"): OPERATOR,
    ("POST", "v1/cluster/brokers/<int:broker>/drain"): OPERATOR,
    ("DELETE", "v1/cluster/brokers/<int:broker>/drain"): OPERATOR,
    ("POST", "v1/cluster/rebalance"): OPERATOR,
    ("GET", "v1/cluster/moves"): OPERATOR,
    ("DELETE", "v1/cluster/moves/<str:move>"): OPERATOR,
    ("POST", "v1/cluster/leaders"): OPERATOR,
    ("GET", "v1/cluster/features"): OPERATOR,
    ("PATCH", "v1/cluster/features"): OPERATOR,
    ("GET", "v1/placement/plans"): OPERATOR,
    ("POST", "v1/placement/plans"): OPERATOR,
    ("GET", "v1/placement/plans/<str:plan>"): OPERATOR,
    ("DELETE", "v1/placement/plans/<str:plan>"): OPERATOR,
    ("POST", "v1/placement/plans/<str:plan>/confirm"): OPERATOR,
    ("GET", "v1/placement/cells"): OPERATOR,
    ("POST", "v1/placement/cells"): OPERATOR,
    ("GET", "v1/placement/cells/<str:cell>"): OPERATOR,
    ("PATCH", "v1/placement/cells/<str:cell>"): OPERATOR,
    ("DELETE", "v1/placement/cells/<str:cell>"): OPERATOR,
    ("GET", "v1/placement/balancer"): OPERATOR,
    ("PATCH", "v1/placement/balancer"): OPERATOR,
    ("GET", "v1/placement/load"): OPERATOR,
    ("GET", "v1/placement/hot"): OPERATOR,
    ("GET", "v1/all-organisations"): OPERATOR,
    ("GET", "v1/all-organisations/<str:organisation>"): OPERATOR,
    ("GET", "v1/hot-partitions"): EVERYBODY,
    ("GET", "v1/usage"): USAGE,
    ("GET", "v1/usage/forecast"): USAGE,
    ("GET", "v1/usage/anomalies"): USAGE,
    ("GET", "v1/usage/what-if"): USAGE,
    ("GET", "v1/prices"): USAGE,
    ("GET", "v1/availability"): USAGE,
    ("GET", "v1/sla/<str:month>"): USAGE,
    ("GET", "v1/sla/<str:month>/pdf"): USAGE,
    ("GET", "v1/billing/sla-exclusions"): OPERATOR,
    ("POST", "v1/billing/sla-exclusions"): OPERATOR,
    ("GET", "v1/billing/sla-exclusions/<str:exclusion>"): OPERATOR,
    ("DELETE", "v1/billing/sla-exclusions/<str:exclusion>"): OPERATOR,
    ("GET", "v1/costs"): USAGE,
    ("GET", "v1/invoices"): INVOICES,
    ("GET", "v1/invoices/<str:invoice>"): INVOICES,
    ("GET", "v1/invoices/<str:invoice>/evidence"): INVOICES,
    ("GET", "v1/invoices/<str:invoice>/payment"): INVOICES,
    ("GET", "v1/invoices/<str:invoice>/evidence-bundle"): INVOICES,
    ("GET", "v1/invoices/<str:invoice>/pdf"): INVOICES,
    ("GET", "v1/credit-notes/<str:credit_note>/pdf"): INVOICES,
    ("GET", "v1/billing/focus"): INVOICES,
    ("GET", "v1/payments"): INVOICES,
    ("GET", "v1/billing-account"): INVOICES,
    ("GET", "v1/billing-account/address"): INVOICES,
    ("PUT", "v1/billing-account/address"): frozenset({S.OWNER, S.ADMIN, S.BILLING}),
    ("GET", "v1/payment-method"): INVOICES,
    ("POST", "v1/payment-method/page"): frozenset({S.OWNER, S.ADMIN, S.BILLING}),
    ("POST", "v1/billing/invoices/<str:invoice>/credit-notes"): OPERATOR,
    ("GET", "v1/billing/receivables"): OPERATOR,
    ("POST", "v1/billing/receivables/<str:invoice>/paid"): OPERATOR,
    ("POST", "v1/billing/receivables/<str:invoice>/refunded"): OPERATOR,
    ("POST", "v1/billing/receivables/<str:invoice>/uncollectible"): OPERATOR,
    ("POST", "v1/billing/receivables/<str:invoice>/void"): OPERATOR,
    ("POST", "v1/billing/receivables/<str:invoice>/retry"): OPERATOR,
    ("GET", "v1/billing/reconciliation"): OPERATOR,
    ("POST", "v1/billing/reconciliation"): OPERATOR,
    ("GET", "v1/credit-notes"): INVOICES,
    ("GET", "v1/credit-notes/<str:credit_note>"): INVOICES,
    ("GET", "v1/coupons"): OPERATOR,
    ("POST", "v1/coupons"): OPERATOR,
    ("GET", "v1/coupons/<str:coupon>"): OPERATOR,
    ("DELETE", "v1/coupons/<str:coupon>"): OPERATOR,
    ("POST", "v1/redeemed-coupons"): frozenset({S.OWNER, S.ADMIN, S.BILLING}),
    ("GET", "v1/billing/costs"): OPERATOR,
    ("POST", "v1/billing/costs"): OPERATOR,
    ("GET", "v1/billing/cost-imports"): OPERATOR,
    ("POST", "v1/billing/cost-imports"): OPERATOR,
    ("DELETE", "v1/billing/cost-imports/<str:cost_import>"): OPERATOR,
    ("GET", "v1/billing/what-if"): OPERATOR,
    ("GET", "v1/margins/topics"): OPERATOR,
    ("GET", "v1/cost-tags"): USAGE,
    ("GET", "v1/cost-tags/<str:kind>/<str:name>"): USAGE,
    ("PUT", "v1/cost-tags/<str:kind>/<str:name>"): frozenset({S.OWNER, S.ADMIN, S.BILLING, S.OPERATOR}),
    ("GET", "v1/billing/costs/<str:cost>"): OPERATOR,
    ("PATCH", "v1/billing/costs/<str:cost>"): OPERATOR,
    ("DELETE", "v1/billing/costs/<str:cost>"): OPERATOR,
    ("GET", "v1/margins"): OPERATOR,
    ("GET", "v1/price-books"): EVERYBODY,
    ("POST", "v1/price-books"): OPERATOR,
    ("GET", "v1/billing/chain"): INVOICES,
    ("POST", "v1/billing/cuts"): OPERATOR,
    ("GET", "v1/billing/cuts/<str:cut>"): OPERATOR,
    ("POST", "v1/billing/cuts/<str:cut>/finalize"): OPERATOR,
    ("GET", "v1/billing/drafts"): OPERATOR,
    ("GET", "v1/billing/data-sets"): OPERATOR,
}
"""Every address that demands a credential, with those who may. The same is checked against the addresses there are."""
FREE = {
    *("v1/sign-up", "v1/sign-up/finish", "v1/sign-in", "v1/password/forgot", "v1/password/reset"),
    "v1/email/take-back",
    *("v1/anchors", "v1/anchors/<str:day>"),
    "v1/openapi.json",
    "hooks/stripe",
    "healthz",
    "readyz",
    "metrics",
}
"""For everybody."""
ABOUT_NO_TENANT = {
    "v1/whoami",
    "v1/tenants",
    "v1/sign-out",
    "v1/join",
    "v1/organisations",
    "v1/price-books",
    "v1/plans",
    "v1/password",
    "v1/sign-ins",
    "v1/sign-ins/<str:sign_in>",
    *("v1/email", "v1/email/change", "v1/email/confirm", "v1/recovery-codes", "v1/second-factors"),
    *("v1/second-factors/codes", "v1/second-factors/codes/confirm"),
    *("v1/second-factors/<str:factor>", "v1/second-factors/<str:factor>/remove"),
}
"""The tenant that the caller names is not looked at."""


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker and no broker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    monkeypatch.setattr(driving, "ASK_S", 0.01)
    monkeypatch.setattr(planning, "ASK_S", 0.01)
    monkeypatch.setattr(topic_queries, "ASK_S", 0.01)


def routes(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        else:
            yield route, pattern


def addresses() -> set[tuple[str, str]]:
    found = set()
    for route, pattern in routes(get_resolver().url_patterns):
        if not route.startswith("v1/") and route not in FREE:
            continue  # the console's pages have a table of their own
        view = getattr(pattern.callback, "view_class", None)
        methods = [m.upper() for m in ("get", "post", "put", "patch", "delete") if hasattr(view, m)]
        found |= {(method, route) for method in methods or ["GET"]}
    return found


@dataclass(frozen=True, kw_only=True)
class _World:
    """A house with one thing of each kind, and a stranger."""

    house: House
    stranger: House
    ids: dict[str, str]
    """The part of an address -> the thing's id."""

    def path(self, route: str) -> str:
        for name, value in self.ids.items():
            route = route.replace(name, value)
        return f"/{route}"


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[_World]:
    with rows_of_a_module(django_db_blocker):
        house = with_verifying_key(make_house("acme"))
        stranger = with_verifying_key(make_house("other"))
        yield _World(house=house, stranger=stranger, ids=_things(house))


@pytest.fixture
def world(made: _World) -> _World:
    return deepcopy(made)


def binned(house: House) -> Topic:
    """A topic in the recycle bin."""
    made = topics.create_topic(ACTOR, house.tenant, name="orders-before", partitions=1, settings={})
    made.on_brokers, made.binned_at = True, timezone.now()
    made.purge_at = made.binned_at + timedelta(days=7)
    made.save()
    return made


def _things(house: House) -> dict[str, str]:
    topic = topics.create_topic(ACTOR, house.tenant, name="orders", partitions=1, settings={})
    key, _ = access.create_key(ACTOR, house.tenant, name="other")
    somebody, _ = make_person("somebody@acme.example")
    Membership.objects.create(tenant=house.tenant, person=somebody, role="developer")
    organisation = make_organisation(house, house.tenant.name, owning=True)
    OrganisationMember.objects.create(organisation=organisation, person=somebody, role="auditor")
    return {
        "<str:organisation>": organisation.public_id,
        "<str:person>": somebody.public_id,
        "<str:invitation>": "ivt_none",
        "<str:sign_in>": "sin_none",
        "<str:factor>": "sf_0",
        "<str:tenant>": house.tenant.public_id,
        "<str:name>": topic.name,
        "<str:topic>": binned(house).public_id,
        "<str:key>": key.public_id,
        "<str:invoice>": "inv_none",
        "<str:cut>": "cut_none",
        "<str:account>": "sa_none",
        "<str:group>": "grp_none",
        "<str:acl>": "acl_none",
        "<str:webhook>": "whk_none",
        "<str:budget>": "bud_none",
        "<int:broker>": "1",
        "<str:move>": "mov_none",
        "<str:plan>": "plc_none",
        "<str:cell>": "none",
        "<str:cost>": "cost_none",
        "<str:cost_import>": "cim_none",
        "<str:kind>": "topic",
        "<str:month>": "2026-01",
        "<str:exclusion>": "exc_none",
    }


def test_every_address_has_its_line_in_the_table() -> None:
    assert {(method, route) for method, route in addresses() if route not in FREE} == MAY.keys()


def test_every_permission_has_its_line() -> None:
    assert TABLE.keys() == set(Permission)
    assert ORGANISATION_TABLE.keys() == set(OrganisationPermission)


@pytest.mark.parametrize(("method", "route"), sorted(MAY))
def test_those_may_who_may_and_another_tenants_things_are_not_found(
    method: str, route: str, world: _World
) -> None:
    with walk() as step:
        for standing in some_of(OF_TENANTS, 1):
            with step(f"{standing} of another tenant"):
                _find_nothing_of_another_tenant(method, route, world, standing)
        if (method, route) == ("DELETE", "v1/tenants/<str:tenant>"):
            # The first one who may would close it, and the others' keys would be refused.
            Tenant.objects.filter(pk=world.house.tenant.pk).update(protected=True)
        heard = {}
        for standing in Standing:
            with step(standing):
                heard[standing] = _let_in_those_who_may(
                    method, route, world.house, world.path(route), standing
                )
        if method == "GET":
            for standing in some_of(list(Standing), 1):
                with step(f"HEAD as {standing}"):
                    _answer_a_head_as_a_get(world.house, world.path(route), standing, heard[standing])


def _let_in_those_who_may(method: str, route: str, house: House, path: str, standing: Standing) -> int:
    """The status of the answer."""
    tenant = house.tenant if standing is S.OPERATOR else None
    answer = call(method, path, {}, token=house.credentials[standing], tenant=tenant)
    if standing in MAY[method, route]:
        # What is asked for may be wrong or not there; the caller is let through to hear it.
        assert answer.status not in (401, 403), answer.body
    elif (method, route) == ("POST", "v1/sign-out"):
        assert answer.status == 400
    else:
        assert answer.status == 403, (answer.status, answer.body)
    return answer.status


def _answer_a_head_as_a_get(house: House, path: str, standing: Standing, status: int) -> None:
    """The length and the ETag of a HEAD tell of what is shown."""
    tenant = house.tenant if standing is S.OPERATOR else None
    head = call("HEAD", path, token=house.credentials[standing], tenant=tenant)
    assert (head.status, head.body) == (status, b"")


def _find_nothing_of_another_tenant(method: str, route: str, world: _World, standing: Standing) -> None:
    """In `test_isolation` are those who may ask; those who may not hear the same of a tenant that they name."""
    house, path, token = world.house, world.path(route), world.stranger.credentials[standing]
    named = call(method, path, {}, token=token, tenant=house.tenant)
    if route in ABOUT_NO_TENANT:
        assert house.tenant.public_id not in repr(named.body)
    elif MAY[method, route] == OPERATOR and (
        ("<" not in route and route != "v1/quotas")
        or route.startswith(
            ("v1/all-organisations", "v1/billing", "v1/cluster", "v1/coupons", "v1/placement")
        )
    ):
        assert named.status == 403
    elif route.startswith(ORGANISATION) and standing in (S.KEY, S.BOUND_KEY, S.VERIFYING_KEY):
        assert named.status == 403, "no key has to do with organisations"
    else:
        assert named.status == 404, (named.status, named.body)
    if "<" in route and standing in MAY[method, route]:
        assert call(method, path, {}, token=token).status == 404
