"""Dry runs and conditions, of every operation that changes what a tenant configures: derived from the table of
operations, so that a new one has to take a side."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.urls import get_resolver
from django.utils import timezone
from msgspec.structs import replace as replace_fields
from pytest_django.plugin import DjangoDbBlocker

from billing import chain_actions, cost_imports, price_actions, unit_cost_actions
from billing.models import PriceBook
from control_plane.access import list_actions
from control_plane.access.actions import create_key
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from control_plane.audit_topics import actions as audit_topics
from control_plane.outbox import delivery
from control_plane.topics import actions as topics
from control_plane.topics import queries as topic_queries
from control_plane.webhooks import actions as webhooks
from payments import actions as receivables
from penstock.rules import access as rules
from penstock.rules.timestamps import time_ms
from quotas.account_actions import set_account_limits
from quotas.models import Budget
from tenants import queries as tenants
from tenants.actions import revoke_key
from tenants.models import Membership, OrganisationMember, Tenant
from tenants.roles import Role, Standing
from tests.control_plane.all_rows import rows
from tests.control_plane.hostile import some_of
from tests.control_plane.payments.paying import credit, of_amount
from tests.control_plane.rows_of_a_module import rows_of_a_module
from tests.control_plane.steps import walk
from tests.control_plane.test_permissions import ABOUT_NO_TENANT, MAY, ORGANISATION, routes
from tests.control_plane.world import (
    ACTOR,
    House,
    call,
    everything_delivered,
    make_house,
    make_organisation,
    make_person,
    with_verifying_key,
)
from tests.golden.billing.documents import INVOICE

pytestmark = pytest.mark.django_db

ENTRY = {
    "effect": "allow",
    "principal": "everyone",
    "resource": "topic",
    "name": "orders",
    "pattern": "prefix",
    "operations": ["consume"],
}
COST = {
    "name": "fresh", "kind": "hosts", "amount": 3, "price_micro": 100, "per": "hour", "currency": "USD",
    "from_at": "2026-01-01T00:00:00Z",
}  # fmt: skip
EXCLUSION = {
    "tenant": None, "from_at": "2999-01-01T00:00:00Z", "until_at": "2999-01-01T01:00:00Z", "reason": "a drill",
}  # fmt: skip
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("PATCH", "v1/tenants/<str:tenant>"): {"deletion_protection": True},
    ("PUT", "v1/tenants/<str:tenant>/terms"): {
        "discounts": [],
        "credits": [],
        "tax": {"country": "DE", "region": "", "reverse_charge": True, "reason": "abroad", "rates": []},
        "price_book_sha256": None,
    },
    ("PATCH", "v1/tenants/<str:tenant>/terms"): {
        "tax": {"country": "FR", "region": "", "reverse_charge": True, "reason": "abroad", "rates": []}
    },
    ("POST", "v1/organisations"): {"name": "fresh"},
    ("PATCH", ORGANISATION): {"display_name": "Fresh"},
    ("DELETE", ORGANISATION): {},
    ("PATCH", f"{ORGANISATION}/members/<str:person>"): {"role": "billing"},
    ("DELETE", f"{ORGANISATION}/members/<str:person>"): {},
    ("POST", f"{ORGANISATION}/tenants/<str:tenant>"): {},
    ("DELETE", f"{ORGANISATION}/tenants/<str:tenant>"): {},
    ("POST", "v1/topics"): {"name": "fresh", "partitions": 2},
    ("PATCH", "v1/topics/<str:name>"): {"partitions": 3},
    ("DELETE", "v1/topics/<str:name>"): {},
    ("DELETE", "v1/bin/topics/<str:topic>"): {},
    ("POST", "v1/bin/topics/<str:topic>/restore"): {"name": "restored"},
    ("POST", "v1/keys"): {"name": "fresh"},
    ("POST", "v1/keys:verifying"): {"name": "fresh"},
    ("DELETE", "v1/keys/<str:key>"): {},
    ("POST", "v1/keys/<str:key>/rotate"): {"overlap_s": 60},
    ("POST", "v1/service-accounts"): {"name": "fresh"},
    ("DELETE", "v1/service-accounts/<str:account>"): {},
    ("PUT", "v1/service-accounts/<str:account>/limits"): {"requests_per_s": 7},
    ("DELETE", "v1/service-accounts/<str:account>/limits"): {},
    ("PUT", "v1/service-account-limits/default"): {"requests_per_s": 8},
    ("DELETE", "v1/service-account-limits/default"): {},
    ("POST", "v1/principal-groups"): {"name": "fresh", "members": []},
    ("PATCH", "v1/principal-groups/<str:group>"): {"members": []},
    ("DELETE", "v1/principal-groups/<str:group>"): {},
    ("PATCH", "v1/access"): {"default": "deny"},
    ("PATCH", "v1/access/report-mails"): {"to_owners": False},
    ("POST", "v1/acls"): ENTRY | {"name": "fresh"},
    ("POST", "v1/acls:preset"): {
        "preset": "producer",
        "principal": "everyone",
        "name": "fresh",
        "pattern": "prefix",
        "group_prefix": "fresh",
    },
    ("DELETE", "v1/acls/<str:acl>"): {},
    ("POST", "v1/topics/<str:name>/restore"): {"version": "<topic>"},
    ("POST", "v1/access/restore"): {"version": "<list>"},
    ("POST", "v1/acls/<str:acl>/restore"): {},
    ("POST", "v1/principal-groups/<str:group>/restore"): {},
    ("POST", "v1/service-accounts/<str:account>/restore"): {},
    ("POST", "v1/keys/<str:key>/restore"): {},
    ("POST", "v1/budgets"): {
        "name": "fresh",
        "period": "day",
        "measure": "bytes",
        "amount": 9,
        "policy": "notify",
    },
    ("PATCH", "v1/budgets/<str:budget>"): {"amount": 7},
    ("DELETE", "v1/budgets/<str:budget>"): {},
    ("POST", "v1/webhooks"): {"name": "fresh", "url": "https://hooks.example.com/", "events": ["audit.*"]},
    ("PATCH", "v1/webhooks/<str:webhook>"): {"state": "off"},
    ("DELETE", "v1/webhooks/<str:webhook>"): {},
    ("POST", "v1/webhooks/<str:webhook>/ping"): {},
    ("POST", "v1/webhooks/<str:webhook>/resume"): {"skip_waiting": True},
    ("POST", "v1/webhooks/<str:webhook>/rotate"): {"overlap_s": 60},
    ("PATCH", "v1/audit-topic"): {"retention_ms": 7_200_000},
    ("DELETE", "v1/audit-topic"): {},
    ("PATCH", "v1/quotas"): {"plan": "committed"},
    ("POST", "v1/plans"): {"name": "fresh", "limits": {"topics_max": 5}},
    ("POST", "v1/billing/receivables/<str:invoice>/paid"): {"reference": "bank 1"},
    ("POST", "v1/billing/receivables/<str:invoice>/refunded"): {"reference": "bank 2"},
    ("POST", "v1/billing/receivables/<str:invoice>/uncollectible"): {"reason": "insolvent"},
    ("POST", "v1/billing/receivables/<str:invoice>/void"): {"reason": "billed twice"},
    ("POST", "v1/billing/invoices/<str:invoice>/credit-notes"): {
        "reference": "T-1",
        "reason": "late support",
    },
    ("POST", "v1/billing/receivables/<str:invoice>/retry"): {},
    ("POST", "v1/billing/costs"): COST,
    ("POST", "v1/billing/sla-exclusions"): EXCLUSION,
    ("POST", "v1/billing/cost-imports"): {"source": "cloud", "costs": [COST]},
    ("DELETE", "v1/billing/cost-imports/<str:cost_import>"): {},
    ("PUT", "v1/billing-account/address"): {"country": "DE", "city": "Berlin"},
    ("PUT", "v1/cost-tags/<str:kind>/<str:name>"): {"tags": {"team": "fresh"}},
    ("PATCH", "v1/billing/costs/<str:cost>"): {"amount": 4},
    ("DELETE", "v1/billing/costs/<str:cost>"): {},
}
"""Operations with a dry run, each with a body that changes something."""
WITHOUT = {
    ("POST", "v1/topics:batch"): "each of its topics is made or refused on its own",
    **dict.fromkeys(
        [
            ("POST", "v1/tenants"),
            ("DELETE", "v1/tenants/<str:tenant>"),
            ("POST", "v1/tenants/<str:tenant>/reopen"),
            ("POST", "v1/tenants/<str:tenant>/suspend"),
            ("POST", "v1/tenants/<str:tenant>/resume"),
        ],
        "the life of a tenant, not its settings",
    ),
    **dict.fromkeys(
        [
            ("POST", "v1/sign-out"),
            ("PATCH", "v1/people/<str:person>"),
            ("DELETE", "v1/people/<str:person>"),
            ("POST", "v1/invitations"),
            ("DELETE", "v1/invitations/<str:invitation>"),
            ("POST", f"{ORGANISATION}/invitations"),
            ("DELETE", f"{ORGANISATION}/invitations/<str:invitation>"),
            ("POST", "v1/join"),
            ("POST", "v1/password"),
            ("DELETE", "v1/sign-ins"),
            ("DELETE", "v1/sign-ins/<str:sign_in>"),
            ("POST", "v1/email/change"),
            ("DELETE", "v1/email/change"),
            ("POST", "v1/email/confirm"),
            ("POST", "v1/second-factors/codes"),
            ("POST", "v1/second-factors/codes/confirm"),
            ("POST", "v1/second-factors/<str:factor>/remove"),
            ("POST", "v1/recovery-codes"),
        ],
        "people and their accounts",
    ),
    **dict.fromkeys(
        [one for one in MAY if one[0] != "GET" and one[1].startswith(("v1/cluster", "v1/placement"))],
        "the cluster's, no tenant's; what would move is a plan's to show",
    ),
    **dict.fromkeys(
        [
            ("POST", "v1/price-books"),
            ("POST", "v1/billing/cuts"),
            ("POST", "v1/billing/cuts/<str:cut>/finalize"),
        ],
        "billing; a cut has a dry run of its own, in its body",
    ),
    ("POST", "v1/tenants/<str:tenant>/terms/preview"): "it changes nothing, and says what terms would cost",
    **dict.fromkeys(
        [("POST", "v1/coupons"), ("DELETE", "v1/coupons/<str:coupon>")],
        "a coupon changes no tenant by itself",
    ),
    ("DELETE", "v1/billing/sla-exclusions/<str:exclusion>"): "withdrawn once, and what it excluded is shown",
    ("POST", "v1/redeemed-coupons"): "a code is redeemed once, and what it gives is said",
    ("POST", "v1/payment-method/page"): "it makes a page at Stripe, and changes nothing here",
    ("POST", "v1/billing/reconciliation"): "it compares and makes a report; no tenant's settings",
}
"""Operations without one, and why."""
NEVER_ALTERED = ("v1/bin/topics/<str:topic>", "v1/billing/cost-imports/<str:cost_import>")
"""What they name only comes and goes, so that no condition is needed."""
CONDITIONAL = sorted(
    (method, route) for method, route in BODIES if method != "POST" and route not in NEVER_ALTERED
)
CHANGING = sorted(one for one in MAY if one[0] != "GET")


def _receivables(tenant: Tenant) -> dict[str, str]:
    """Ids of invoices by what can be done with them: one that is open, an overpaid one, a wholly credited one, and one
    with a document."""
    if not PriceBook.objects.exists():
        price_actions.publish_first_price_book(timezone.now() - timedelta(days=365))
    price_actions.begin_chains(10)
    found = {}
    for name in ("paid", "refunded", "void", "credit-notes"):
        invoice = of_amount(tenant, 1_000_000)
        if name == "credit-notes":
            document = replace_fields(
                INVOICE,
                id=invoice.public_id,
                tenant=tenant.public_id,
                total_micro=invoice.total_micro,
                period_start_ms=time_ms(invoice.cut.period_start),
                period_end_ms=time_ms(invoice.cut.period_end),
            )
            chain_actions.append(tenant, invoice.public_id, document, timezone.now())
        receivables.open_receivable(invoice)
        found[name] = invoice.public_id
        if name == "refunded":
            receivables.mark_paid(ACTOR, invoice, reference="bank 0")
        if name in ("refunded", "void"):
            credit(invoice, 1_000_000)
        if name == "refunded":
            receivables.follow_credits(invoice.receivable.public_id)
    return found


class _World:
    """A house in which every kind of object is there once, and all of it is delivered."""

    def __init__(self) -> None:
        self.house: House = with_verifying_key(make_house("acme"))
        self.stranger: House = with_verifying_key(make_house("other"))
        tenant = self.house.tenant
        orders = topics.create_topic(ACTOR, tenant, name="orders", partitions=1, settings={})
        binned = topics.create_topic(ACTOR, tenant, name="binned", partitions=1, settings={})
        binned.on_brokers, binned.binned_at = True, timezone.now()
        binned.purge_at = binned.binned_at + timedelta(days=7)
        binned.save()
        owner = Membership.objects.get(tenant=tenant, role=Role.OWNER).person
        key, _ = create_key(Actor(kind=ActorKind.PERSON, id=owner.public_id), tenant, name="other")
        account = list_actions.create_account(ACTOR, tenant, name="robot")
        self.account_key, _ = create_key(ACTOR, tenant, name="robot's", account=account)
        self.member = f"service_account:{account.public_id}"
        _, self.holding = list_actions.create_group(ACTOR, tenant, name="robots", members=[self.member])
        entry = rules.preset(
            "read-only", principal=self.member, resource_name="orders", literal=False, group_prefix="robots"
        )[0]
        _, (acl,) = list_actions.add_acls(ACTOR, tenant, [entry])
        for limited in (account, None):
            set_account_limits(ACTOR, tenant, limited, {"produce_bytes_per_s": 1_000})
        webhook, _ = webhooks.create(
            ACTOR, tenant, name="siem", url="https://hooks.example.com/", events=["audit.*"]
        )
        budget = Budget.objects.create(
            tenant=tenant, name="b", period="month", measure="bytes", amount=1, thresholds=[], policy="notify"
        )
        audit_topics.change(ACTOR, tenant, state="on")
        everything_delivered()
        self.ids = {
            "<str:tenant>": tenant.public_id,
            "<str:name>": "orders",
            "<str:topic>": binned.public_id,
            "<str:key>": key.public_id,
            "<str:account>": account.public_id,
            "<str:group>": self.holding.public_id,
            "<str:acl>": acl.public_id,
            "<str:webhook>": webhook.public_id,
            "<str:budget>": budget.public_id,
            "<str:kind>": "topic",
            "<str:cost_import>": cost_imports.take_in(
                ACTOR, "before", [COST | {"from_at": timezone.now()}], now=timezone.now()
            ).row.public_id,
            "<str:cost>": unit_cost_actions.enter(ACTOR, COST | {"from_at": timezone.now()}).public_id,
        }
        self.acl = acl
        self.invoices = _receivables(tenant)
        empty = make_organisation(self.house, "empty")
        auditor = Membership.objects.get(tenant=tenant, role=Role.AUDITOR).person
        self.ids |= {"<str:person>": auditor.public_id, "<str:organisation>": empty.public_id}
        # None of those who ask: who names themselves leaves, which each member may.
        member, _ = make_person("member@acme.example")
        OrganisationMember.objects.create(organisation=empty, person=member, role=Role.AUDITOR.value)
        self.member_of_organisation = member.public_id
        self.owning = make_organisation(self.house, "owning")
        # What is restored was changed or removed before.
        self.versions = {
            "<topic>": AuditEntry.objects.get(tenant=tenant.public_id, object_id=orders.public_id).sequence
        }
        topics.update_topic(ACTOR, tenant, "orders", settings={"retention_ms": 3_600_000})
        removed, _ = create_key(Actor(kind=ActorKind.PERSON, id=owner.public_id), tenant, name="removed")
        revoke_key(ACTOR, removed)
        ended = list_actions.create_account(ACTOR, tenant, name="ended")
        list_actions.end_account(ACTOR, tenant, ended)
        _, group = list_actions.create_group(ACTOR, tenant, name="removed", members=[])
        list_actions.remove_group(ACTOR, tenant, group.public_id)
        _, (gone,) = list_actions.add_acls(ACTOR, tenant, [replace(acl.acl, name="removed")])
        self.versions["<list>"] = AuditEntry.objects.get(object_id=gone.public_id).sequence
        list_actions.remove_acl(ACTOR, tenant, gone.public_id)
        everything_delivered()
        self.removed = {
            **self.ids,
            "<str:key>": removed.public_id,
            "<str:account>": ended.public_id,
            "<str:group>": group.public_id,
            "<str:acl>": gone.public_id,
        }

    def path(self, route: str, method: str = "") -> str:
        ids = self.removed if route.endswith("/restore") else self.ids
        if (method, route) == ("DELETE", f"{ORGANISATION}/tenants/<str:tenant>"):
            # What is moved out is in; else the tenant stands alone.
            Tenant.objects.filter(pk=self.house.tenant.pk).update(organisation=self.owning)
            ids = ids | {"<str:organisation>": self.owning.public_id}
        if route.startswith(ORGANISATION):
            ids = ids | {"<str:person>": self.member_of_organisation}
        if route.startswith(("v1/billing/receivables", "v1/billing/invoices")):
            ids = {"<str:invoice>": self.invoices.get(route.rpartition("/")[2], self.invoices["paid"])}
        for name, value in ids.items():
            route = route.replace(name, value)
        return f"/{route}"

    def body(self, method: str, route: str) -> dict[str, Any]:
        """What changes something there."""
        body = BODIES[method, route]
        return {
            name: self.versions.get(value, value) if name == "version" else value
            for name, value in body.items()
        }

    def may(self, method: str, route: str) -> dict[str, Any]:
        """A credential that may do it, for `call`."""
        standing = Standing.OWNER if Standing.OWNER in MAY[method, route] else Standing.OPERATOR
        named = standing is Standing.OPERATOR and route not in ABOUT_NO_TENANT
        return {
            "token": self.house.credentials[standing],
            "tenant": self.house.tenant if named else None,
        }


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[_World]:
    with rows_of_a_module(django_db_blocker):
        yield _World()


@pytest.fixture
def world(made: _World, monkeypatch: pytest.MonkeyPatch) -> _World:
    def told(*_: object) -> bool:
        raise AssertionError("a dry run called a broker")

    monkeypatch.setattr(delivery, "deliver", told)
    monkeypatch.setattr(delivery, "deliver_all", told)
    monkeypatch.setattr(topic_queries, "ASK_S", 0.05)
    return deepcopy(made)


def test_every_changing_operation_has_a_dry_run_or_stands_among_the_exceptions() -> None:
    assert set(CHANGING) == BODIES.keys() | WITHOUT.keys()
    assert not BODIES.keys() & WITHOUT.keys()
    views = {
        route: getattr(pattern.callback, "view_class", None)
        for route, pattern in routes(get_resolver().url_patterns)
    }
    supporting = {
        (method, route) for method, route in CHANGING if method in getattr(views[route], "dry_run", ())
    }
    assert supporting == BODIES.keys()


@pytest.mark.parametrize(("method", "route"), sorted(BODIES))
def test_a_dry_run_shows_a_change_to_those_who_may_make_it_and_writes_nothing(
    method: str, route: str, world: _World
) -> None:
    path, body, who = world.path(route, method), world.body(method, route), world.may(method, route)
    before = rows()
    with walk() as step:
        with step("it says what would change"):
            shown = call(method, f"{path}?dry_run=true", body, **who, Idempotency_Key="once")
            assert shown.status == 200, shown.body
            assert shown.body["dry_run"] is True
            assert any(change["fields"] for change in shown.body["changes"])
            # Terms alone have a price: that of the last invoiced period under them.
            assert (shown.body["monthly_cost_change"] is None) == (not route.endswith("/terms"))
            assert shown.body["monthly_cost_reason"] or route.endswith("/terms")
            assert "penstock_" not in repr(shown.body)
        with step("anonymous"):
            assert call(method, f"{path}?dry_run=true", body).status == 401
        for standing in _callers(MAY[method, route]):
            with step(standing):
                tenant = world.house.tenant if standing is Standing.OPERATOR else None
                token = world.house.credentials[standing]
                answer = call(method, f"{path}?dry_run=true", body, token=token, tenant=tenant)
                if standing in MAY[method, route]:
                    assert answer.status not in (401, 403), answer.body
                else:
                    assert answer.status == 403, answer.body
        if route not in ABOUT_NO_TENANT:
            with step("the owner of another tenant"):
                token = world.stranger.credentials[Standing.OWNER]
                answer = call(method, f"{path}?dry_run=true", body, token=token, tenant=world.house.tenant)
                # What is for operators alone says so, of any tenant.
                assert answer.status == (403 if route.startswith("v1/billing/") else 404)
        if (method, route) in CONDITIONAL:
            with step("a change of what its caller read"):
                read = call("GET", path, **who)
                assert read.status == 200, read.body
                fresh = call(method, f"{path}?dry_run=true", body, **who, If_Match=read.headers["ETag"])
                assert fresh.status == 200, fresh.body
            with step("a change of what is another thing now"):
                stale = call(method, path, body, **who, If_Match='"stale"')
                assert (stale.status, stale.body["code"]) == (412, "precondition_failed")
        with step("after all of them"):
            assert rows() == before


def _callers(may: frozenset[Standing]) -> list[Standing]:
    """Two who may not and one who may, by chance: the permission is that of the change, which `test_permissions.py`
    shows of all.
    """
    others = sorted(set(Standing) - may)
    return [*some_of(others, min(2, len(others))), *some_of(sorted(may), 1)]


def test_a_dry_run_is_refused_where_there_is_none(world: _World) -> None:
    before = rows()
    with walk() as step:
        for method, route in sorted(WITHOUT):
            with step(f"{method} {route}"):
                path = world.path(route, method).replace("<int:broker>", "1")
                path = path.replace("<str:", "").replace(">", "")
                answer = call(method, f"{path}?dry_run=true", {}, **world.may(method, route))
                assert answer.status == 400, answer.body
                assert answer.body["detail"].startswith("dry_run: no such parameter")
        with step("after all of them"):
            assert rows() == before


def test_a_refusal_is_the_changes_own(world: _World) -> None:
    token = world.house.credentials[Standing.OWNER]
    before = rows()
    asked = {"name": "orders", "partitions": 1}
    dry = call("POST", "/v1/topics?dry_run=true", asked, token=token)
    assert (dry.status, dry.body["code"]) == (409, "already_exists")
    assert rows() == before
    assert call("POST", "/v1/topics?dry_run=perhaps", asked, token=token).status == 400


def test_what_goes_along_with_a_service_account_is_shown(world: _World) -> None:
    token = world.house.credentials[Standing.OWNER]
    path = f"{world.path('v1/service-accounts/<str:account>')}?dry_run=true"
    answer = call("DELETE", path, token=token)
    found = {(change["kind"], change["action"], change["id"]) for change in answer.body["changes"]}
    assert ("key", "revoke", world.account_key.public_id) in found
    assert ("acl", "delete", world.acl.public_id) in found
    assert ("principal_group", "change", world.holding.public_id) in found
    (group,) = (change for change in answer.body["changes"] if change["kind"] == "principal_group")
    assert group["fields"] == [{"field": "members", "before": [world.member], "after": []}]
    assert tenants.key(world.house.tenant, world.account_key.public_id).revoked_at is None


def test_a_change_after_its_dry_run_is_the_one_that_was_shown(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "deliver", lambda *_: True)
    token = world.house.credentials[Standing.OWNER]
    dry = call("PATCH", "/v1/topics/orders?dry_run=true", {"partitions": 3}, token=token)
    (change,) = dry.body["changes"]
    assert change["fields"] == [{"field": "partitions", "before": 1, "after": 3}]
    made = call("PATCH", "/v1/topics/orders?dry_run=false", {"partitions": 3}, token=token)
    assert made.body["partitions"] == 3


def test_a_change_of_a_group_changes_its_tag(world: _World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "deliver", lambda *_: True)
    token = world.house.credentials[Standing.OWNER]
    path = world.path("v1/principal-groups/<str:group>")
    read = call("GET", path, token=token).headers["ETag"]
    changed = call("PATCH", path, {"members": []}, token=token, If_Match=read)
    assert changed.status in (200, 202)
    assert call("GET", path, token=token).headers["ETag"] == changed.headers["ETag"] != read
    assert call("DELETE", path, token=token, If_Match=read).status == 412
