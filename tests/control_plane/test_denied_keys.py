"""Who is denied cannot change what denies: every way over REST by which a key could free its own principal.

The principal `till` may not touch the topics `secrets` (an entry names it) and `payroll` (an entry names a group that
holds it), while the list allows what no entry denies. Its key may change the list, groups, accounts and keys: but it
gives no one a right that it does not have itself.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.plugin import DjangoDbBlocker

from control_plane.access import queries
from control_plane.audit.models import AuditEntry
from control_plane.audit.tallies import tallies
from control_plane.outbox import in_request
from control_plane.rest.urls import urlpatterns
from control_plane.topics import actions as topics
from tenants.models import ApiKey, Membership
from tenants.roles import Permission, Role, Standing
from tests.control_plane.rows_of_a_module import rows_of_a_module
from tests.control_plane.world import ACTOR, House, call, make_house

pytestmark = pytest.mark.django_db

MANAGED = {Permission.ACCESS_WRITE, Permission.KEYS_WRITE, Permission.ACCOUNT_LIMITS_WRITE}
GIVES_NO_MORE = (
    "gives no right that it does not have",
    "makes keys for accounts that may no more than it",
    "does not change its own limits",
)


@dataclass(frozen=True, kw_only=True)
class Denied:
    """A tenant with the denied principal, what denies it, and what could free it."""

    house: House
    key: str = field(repr=False)
    """The text of the key of `till`, without scopes."""
    ids: dict[str, str]

    def owner(self, method: str, path: str, body: Any = None) -> Any:
        answer = call(method, f"/v1/{path}", body, token=self.house.credentials[Standing.OWNER])
        assert answer.status < 300, answer.body
        return answer.body

    def by_key(self, method: str, path: str, body: Any = None) -> Any:
        return call(method, f"/v1/{path.format(**self.ids)}", body, token=self.key)

    def rights(self) -> tuple[Any, ...]:
        """All that says who may do what."""
        keys = ApiKey.objects.filter(tenant=self.house.tenant).order_by("pk")
        return queries.access_list(self.house.tenant), tuple(keys.values_list("public_id", "revoked_at"))


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker and no broker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


def deny(principal: str, name: str) -> dict[str, Any]:
    return {"effect": "deny", "principal": principal, "resource": "topic", "name": name}


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Denied]:
    with rows_of_a_module(django_db_blocker):
        yield _made()


def _made() -> Denied:
    house = make_house("acme")
    denied = Denied(house=house, key="", ids={})
    owner, ids = denied.owner, denied.ids
    for name in ("till", "free", "gone", "narrow"):
        ids[name] = owner("POST", "service-accounts", {"name": name})["id"]
    till = f"service_account:{ids['till']}"
    first = owner("POST", "acls", deny("everyone", "nothing"))
    ids["before"] = str(AuditEntry.objects.get(action="acl.create", object_id=first["id"]).sequence)
    ids["group"] = owner("POST", "principal-groups", {"name": "blocked", "members": []})["id"]
    made_group = AuditEntry.objects.get(action="principal_group.create", object_id=ids["group"])
    ids["empty_group"] = str(made_group.sequence)
    owner("PATCH", f"principal-groups/{ids['group']}", {"members": [till]})
    ids["by_name"] = owner("POST", "acls", deny(till, "secrets"))["id"]
    ids["by_group"] = owner("POST", "acls", deny(f"group:{ids['group']}", "payroll"))["id"]
    for name in ("secrets", "payroll"):
        owner("POST", "acls", deny(f"service_account:{ids['narrow']}", name))
    for name in ("free", "gone"):
        key = owner("POST", "keys", {"name": name, "service_account": ids[name]})
        ids[f"key_of_{name}"] = key["id"]
    owner("DELETE", f"keys/{ids['key_of_gone']}")
    scoped = owner("POST", "keys", {"name": "part", "service_account": ids["till"], "topic_prefix": "orders"})
    ids["scoped"] = scoped["id"]
    binned = topics.create_topic(ACTOR, house.tenant, name="payroll", partitions=1, settings={})
    # Only a part is denied, so the key sees the topic.
    owner("DELETE", f"acls/{ids['by_group']}")
    part = {**deny(f"group:{ids['group']}", "payroll"), "operations": ["consume"]}
    ids["by_group"] = owner("POST", "acls", part)["id"]
    binned.on_brokers, binned.binned_at, binned.purge_at = True, timezone.now(), timezone.now()
    binned.save()
    ids["binned"] = binned.public_id
    owner("PUT", f"service-accounts/{ids['till']}/limits", {"requests_per_s": 10})
    ids["person"] = Membership.objects.get(tenant=house.tenant, role=Role.OWNER).person.public_id
    key = owner("POST", "keys", {"name": "till", "service_account": ids["till"]})
    ids["own"] = key["id"]
    return Denied(house=house, key=key["key"], ids=ids)


@pytest.fixture
def denied(made: Denied) -> Denied:
    return deepcopy(made)


# A method, an address and a body of the denied key's request. In bodies, names of `Denied.ids` in braces.
WAYS: list[tuple[str, str, Any]] = [
    ("DELETE", "acls/{by_name}", None),
    ("DELETE", "acls/{by_group}", None),
    ("DELETE", "acls/{by_name}?dry_run=true", None),
    ("POST", "access/restore", {"version": "{before}"}),
    ("PATCH", "principal-groups/{group}", {"members": []}),
    ("POST", "principal-groups/{group}/restore", {"version": "{empty_group}"}),
    ("POST", "keys", {"name": "mine", "service_account": "{free}"}),
    ("POST", "keys/{key_of_free}/rotate", {"overlap_s": 60}),
    ("POST", "keys/{key_of_gone}/restore", {}),
    ("PUT", "service-accounts/{till}/limits", {"requests_per_s": 0}),
    ("DELETE", "service-accounts/{till}/limits", None),
]
NARROW_ONLY = {
    ("POST", "acls"): "an entry that denies; one that allows is tried below where the default denies",
    ("POST", "acls:preset"): "as acls: tried below",
    ("POST", "acls/<str:acl>/restore"): "as acls: tried below",
    ("PATCH", "access"): "tried below",
    ("POST", "principal-groups"): "no entry names a new group",
    ("DELETE", "principal-groups/<str:group>"): "a group that an entry names stays",
    ("POST", "service-accounts"): "an account without a key does nothing",
    ("DELETE", "service-accounts/<str:account>"): "its keys end",
    ("POST", "service-accounts/<str:account>/restore"): "its keys stay revoked",
    ("DELETE", "keys/<str:key>"): "a right ends",
    ("PUT", "service-account-limits/default"): "tried with limits of accounts: an own limit goes before it",
    ("DELETE", "service-account-limits/default"): "the same",
}
"""What changes the list, accounts, keys or limits and is not in `WAYS`, with the reason."""


def filled(denied: Denied, body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    named = {
        name: text.format(**denied.ids) if isinstance(text, str) else text for name, text in body.items()
    }
    return {name: int(text) if name == "version" else text for name, text in named.items()}


@pytest.mark.parametrize(("method", "path", "body"), WAYS, ids=[f"{way[0]} {way[1]}" for way in WAYS])
def test_who_is_denied_does_not_free_itself(denied: Denied, method: str, path: str, body: Any) -> None:
    before = denied.rights()
    answer = denied.by_key(method, path, filled(denied, body))
    assert answer.status == 403, (answer.status, answer.body)
    assert any(words in answer.body["detail"] for words in GIVES_NO_MORE), answer.body["detail"]
    assert denied.rights() == before


def test_every_operation_on_lists_accounts_and_keys_is_tried_or_can_only_take_away() -> None:
    managing = {
        (method, str(pattern.pattern))
        for pattern in urlpatterns
        for method, permission in getattr(vars(pattern.callback)["view_class"], "permissions", {}).items()
        if permission in MANAGED and method != "GET"
    }
    tried = {
        (method, str(pattern.pattern))
        for method, path, _ in WAYS
        for pattern in urlpatterns
        if pattern.resolve(path.partition("?")[0].format_map(_Any()))
    }
    assert managing == {(method, path.removeprefix("v1/")) for method, path in tried} | NARROW_ONLY.keys()


class _Any(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "any"


def test_a_refusal_stands_in_the_counts_of_the_audit_log(denied: Denied) -> None:
    tallies().take()
    assert denied.by_key("DELETE", "acls/{by_name}").status == 403
    (counted,) = (row for row in tallies().take() if row.tenant == denied.house.tenant.public_id)
    assert (counted.outcome, counted.actor_id, counted.action) == (
        "refused",
        denied.ids["own"],
        "access.write",
    )


def test_a_topic_is_not_restored_under_a_name_that_is_not_denied(denied: Denied) -> None:
    answer = denied.by_key("POST", "bin/topics/{binned}/restore", {"name": "public"})
    assert answer.status == 403 and "called 'public' it would allow consume" in answer.body["detail"]
    assert denied.by_key("POST", "bin/topics/{binned}/restore", {}).status == 202


def test_an_account_of_its_own_is_no_way_around(denied: Denied) -> None:
    account = denied.by_key("POST", "service-accounts", {"name": "copy"}).body["id"]
    denied.owner("DELETE", f"service-accounts/{denied.ids['till']}/limits")
    wanted = {"name": "mine", "service_account": account}
    refused = denied.by_key("POST", "keys", wanted)
    assert refused.status == 403 and "makes keys for accounts that may no more" in refused.body["detail"]
    entries = [
        denied.by_key("POST", "acls", deny(f"service_account:{account}", name)).body["id"]
        for name in ("secrets", "payroll")
    ]
    assert denied.by_key("POST", "keys", wanted).status == 202, (
        "now it may no more than the key that makes it"
    )
    for entry in entries:
        answer = denied.by_key("DELETE", f"acls/{entry}")
        assert answer.status == 403 and f"to service_account:{account}" in answer.body["detail"]


def test_an_account_with_limits_makes_no_keys_for_others(denied: Denied) -> None:
    wanted = {"name": "mine", "service_account": denied.ids["narrow"]}
    refused = denied.by_key("POST", "keys", wanted)
    assert refused.status == 403 and "has limits of its own" in refused.body["detail"]
    denied.owner("DELETE", f"service-accounts/{denied.ids['till']}/limits")
    assert denied.by_key("POST", "keys", wanted).status == 202


def test_its_own_keys_stay_denied(denied: Denied) -> None:
    asked = "operation=consume&resource=topic&name=secrets"
    for path, body in (("keys", {"name": "child"}), ("keys/{scoped}/rotate", {}), ("keys/{own}/rotate", {})):
        answer = denied.by_key("POST", path, body)
        assert answer.status in (201, 202), answer.body
        check = denied.owner("GET", f"access/check?key={answer.body['id']}&{asked}")
        assert not check["allowed"] and check["entry"]["id"] == denied.ids["by_name"], check


@pytest.mark.parametrize(
    "change",
    [
        lambda denied: denied.by_key("PATCH", "access", {"default": "allow"}),
        lambda denied: denied.by_key("POST", "acls", {**deny("everyone", "orders"), "effect": "allow"}),
        lambda denied: denied.by_key(
            "POST", "acls:preset",
            {"preset": "consumer", "principal": "service_account:{till}".format(**denied.ids), "name": "orders",
             "group_prefix": "g"},
        ),
        lambda denied: denied.by_key("POST", "acls/{was_allowed}/restore"),
    ],
    ids=["the default", "an entry", "a preset", "an entry that was removed"],
)  # fmt: skip
def test_who_is_allowed_by_entries_alone_allows_nothing_else(
    denied: Denied, change: Callable[[Denied], Any]
) -> None:
    till = "service_account:{till}".format(**denied.ids)
    denied.owner("POST", "acls", {"effect": "allow", "principal": till, "resource": "tenant"})
    allowed = {**deny(till, "orders"), "effect": "allow"}
    denied.ids["was_allowed"] = denied.owner("POST", "acls", allowed)["id"]
    denied.owner("DELETE", "acls/{was_allowed}".format(**denied.ids))
    denied.owner("PATCH", "access", {"default": "deny"})
    before = denied.rights()
    answer = change(denied)
    assert answer.status == 403 and "gives no right that it does not have" in answer.body["detail"], (
        answer.body
    )
    assert denied.rights() == before


def test_an_account_does_not_come_back_without_what_denied_its_group(denied: Denied) -> None:
    """While it is away it is in no comparison, and a key of it would be made by someone who does not know."""
    free = "service_account:{free}".format(**denied.ids)
    group = denied.owner("POST", "principal-groups", {"name": "others", "members": [free]})["id"]
    entries = [
        denied.owner("POST", "acls", deny(f"group:{group}", name))["id"] for name in ("secrets", "payroll")
    ]
    assert denied.by_key("DELETE", f"acls/{entries[0]}").status == 403
    assert denied.by_key("DELETE", "service-accounts/{free}").status == 204
    assert denied.by_key("DELETE", f"acls/{entries[0]}").status == 202, "no one gains by it"
    before = denied.rights()
    answer = denied.by_key("POST", "service-accounts/{free}/restore")
    assert answer.status == 403 and "would come back with what" in answer.body["detail"], answer.body
    assert denied.rights() == before
    denied.owner("POST", "service-accounts/{free}/restore".format(**denied.ids))


def test_an_account_that_may_no_more_than_the_key_comes_back(denied: Denied) -> None:
    assert denied.by_key("DELETE", "service-accounts/{narrow}").status == 204
    assert denied.by_key("POST", "service-accounts/{narrow}/restore").status < 300


def test_what_it_may_itself_it_may_give(denied: Denied) -> None:
    till, free = (f"service_account:{denied.ids[name]}" for name in ("till", "free"))
    for name, resource in (("", "tenant"), ("orders", "topic")):
        entry = {"effect": "allow", "principal": till, "resource": resource}
        denied.owner("POST", "acls", entry | ({"name": name} if name else {}))
    denied.owner("PATCH", "access", {"default": "deny"})
    given = {**deny(free, "orders"), "effect": "allow", "operations": ["consume"]}
    assert denied.by_key("POST", "acls", given).status == 202
    refused = denied.by_key("POST", "acls", {**given, "name": "pay"})
    assert refused.status == 403 and "consume of topic pay to" in refused.body["detail"]


@pytest.mark.parametrize("role", Role)
def test_it_gives_no_more_to_people_of_any_role_who_may_have_another_one_tomorrow(
    denied: Denied, role: Role
) -> None:
    manages = {"effect": "allow", "principal": f"service_account:{denied.ids['till']}", "resource": "tenant"}
    denied.owner("POST", "acls", manages)
    denied.owner("PATCH", "access", {"default": "deny"})
    person = Membership.objects.get(tenant=denied.house.tenant, role=role).person.public_id
    given = {**deny(f"person:{person}", "pay"), "effect": "allow", "operations": ["consume"]}
    refused = denied.by_key("POST", "acls", given)
    assert refused.status == 403 and "gives no right that it does not have" in refused.body["detail"]


def test_the_answer_to_who_may_change_the_list_says_what_a_key_may_not_give(denied: Denied) -> None:
    asked = "operation=alter&resource=tenant"
    of_key = denied.owner("GET", "access/check?key={own}&".format(**denied.ids) + asked)
    assert of_key["allowed"] and "gives no right that it does not have" in of_key["reason"]
    free = denied.owner("GET", "access/check?principal=service_account:{free}&".format(**denied.ids) + asked)
    assert free["allowed"] and "gives no right" in free["reason"], "it may not touch `nothing` either"


def test_what_takes_away_is_not_refused(denied: Denied) -> None:
    assert denied.by_key("POST", "acls", deny("everyone", "orders")).status == 202
    assert denied.by_key("POST", "service-accounts", {"name": "new"}).status == 201
    assert denied.by_key("DELETE", "service-accounts/{free}").status == 204


def test_an_owner_changes_all_of_it_by_their_role(denied: Denied) -> None:
    denied.owner("DELETE", "acls/{by_name}".format(**denied.ids))
    denied.owner("POST", "keys", {"name": "x", "service_account": denied.ids["free"]})


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "webhooks", {"name": "w", "url": "https://example.com/w", "events": ["audit.*"]}),
        ("POST", "invitations", {"email": "new@example.com", "role": "owner"}),
        ("PATCH", "people/{person}", {"role": "developer"}),
    ],
)
def test_what_only_people_may_no_key_may(denied: Denied, method: str, path: str, body: Any) -> None:
    answer = denied.by_key(method, path, body)
    assert answer.status == 403 and "it takes a person who has signed in" in answer.body["detail"]
