"""Access lists, groups of principals, service accounts and their keys over REST: what they do, what they refuse."""

from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.plugin import DjangoDbBlocker

from control_plane.access import actions as key_actions
from control_plane.access import list_actions, queries
from control_plane.access.models import AclEntry, TenantAccessList
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from control_plane.brokers.view import ClusterView, KeySeen, TenantSeen
from control_plane.outbox import in_request
from control_plane.outbox.models import Delivery
from control_plane.reconciliation import reconcile as reconciliation
from control_plane.topics import actions as topics
from penstock.contract import limits
from penstock.contract.errors import NotFound
from penstock.rules.access import AccessList
from penstock.rules.access_document import access_list_digest, access_list_json
from tenants.models import ApiKey, Membership, Person, ServiceAccount, Tenant
from tenants.roles import Role, Standing
from tests.control_plane.rows_of_a_module import rows_of_a_module
from tests.control_plane.world import ACTOR, House, call, make_house

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker and no broker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[House]:
    with rows_of_a_module(django_db_blocker):
        house = make_house("acme")
        yield house


@pytest.fixture
def house(made: House) -> House:
    return deepcopy(made)


def owner(house: House, method: str, path: str, body: Any = None) -> Any:
    """The answer's body; it must be no refusal."""
    answer = call(method, f"/v1/{path}", body, token=house.credentials[Standing.OWNER])
    assert answer.status < 300, answer.body
    return answer.body


def refused(house: House, method: str, path: str, body: Any = None, *, token: str = "") -> tuple[int, str]:
    answer = call(method, f"/v1/{path}", body, token=token or house.credentials[Standing.OWNER])
    assert answer.status >= 400, answer.body
    return answer.status, answer.body["detail"]


def account(house: House, name: str = "billing") -> str:
    return str(owner(house, "POST", "service-accounts", {"name": name})["id"])


def key_of(house: House, account_id: str, **given: Any) -> tuple[str, str]:
    """(id, text)"""
    made = owner(house, "POST", "keys", {"name": "app", "service_account": account_id, **given})
    return made["id"], made["key"]


def entry(effect: str, principal: str, **given: Any) -> dict[str, Any]:
    return {"effect": effect, "principal": principal, "resource": "topic", **given}


def person(house: House, role: Role) -> str:
    return f"person:{Membership.objects.get(tenant=house.tenant, role=role).person.public_id}"


# -- entries --------------------------------------------------------------------------------------------


def test_an_entry_is_stored_audited_and_delivered_as_a_whole_list(house: House) -> None:
    principal = f"service_account:{account(house)}"
    assert owner(house, "GET", "access")["generation"] == 0
    wanted = entry(
        "allow", principal, name="orders.", pattern="prefix", operations=["produce"], addresses=["10.0.0.0/8"]
    )
    made = owner(house, "POST", "acls", wanted)
    assert made["text"] == f"allow {principal} produce on topic orders.* from 10.0.0.0/8"
    assert made["delivered"] is False and made["token"]["generation"] == 1
    row = TenantAccessList.objects.get(tenant=house.tenant)
    assert Delivery.objects.filter(
        kind=list_actions.KIND_ACCESS, object_id=row.public_id, generation=1
    ).exists()
    assert AuditEntry.objects.filter(action="acl.create", object_id=made["id"]).exists()
    assert owner(house, "POST", "acls", wanted)["id"] == made["id"], "no entry stands twice"
    assert TenantAccessList.objects.get(tenant=house.tenant).generation == 1
    assert [one["id"] for one in owner(house, "GET", "acls")["items"]] == [made["id"]]
    assert owner(house, "GET", f"acls?principal={principal}")["items"]
    assert owner(house, "GET", "acls?principal=everyone")["items"] == []
    owner(house, "DELETE", f"acls/{made['id']}")
    assert owner(house, "GET", "access") | {"default": "allow", "acls": 0, "generation": 2} == owner(
        house, "GET", "access"
    )


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"resource": "topic"}, 400, "name: required of a literal topic"),
        ({"name": "x", "operations": ["alter", "read"]}, 400, "'read' of a topic"),
        ({"name": "x", "addresses": ["10.0.0.1/8"]}, 400, "host bits"),
        ({"resource": "tenant", "name": "x"}, 400, "no name"),
        (
            {"name": "x", "principal": "service_account:sa_other"},
            404,
            "'service_account:sa_other' does not exist",
        ),
        ({"name": "x", "until": "tomorrow"}, 400, "no such field"),
        (
            {"name": "secrets*"},
            400,
            "no topic can be called 'secrets*'; for all that begin so leave the * out",
        ),
        ({"name": "of ann", "pattern": "prefix"}, 400, "no topic can be called 'of ann'"),
        ({"name": "orders", "addresses": ["2001:db8::1%eth0"]}, 400, "has a zone"),
    ],
)
def test_an_entry_that_means_nothing_is_refused(
    house: House, given: dict[str, Any], status: int, words: str
) -> None:
    found, detail = refused(house, "POST", "acls", {**entry("deny", "everyone"), **given})
    assert found == status and words in detail
    assert not AclEntry.objects.exists()


def test_another_tenants_principal_does_not_exist(house: House) -> None:
    other = make_house("other")
    theirs = [f"service_account:{account(other)}", person(other, Role.OWNER)]
    group = owner(other, "POST", "principal-groups", {"name": "all", "members": theirs})["id"]
    for principal in (*theirs, f"group:{group}"):
        assert refused(house, "POST", "acls", entry("allow", principal, name="x"))[0] == 404
        assert refused(house, "POST", "principal-groups", {"name": "g", "members": [principal]})[0] == 404


def test_a_million_entries_are_stopped_at_the_limit(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ACLS_PER_TENANT_MAX", 2)
    for name in ("a", "b"):
        owner(house, "POST", "acls", entry("deny", "everyone", name=name))
    status, detail = refused(house, "POST", "acls", entry("deny", "everyone", name="c"))
    assert status == 422 and "would have 3 entries, at most 2 allowed" in detail
    assert AclEntry.objects.count() == 2


def test_a_preset_adds_its_entries_together(house: House) -> None:
    principal = f"service_account:{account(house)}"
    made = owner(house, "POST", "acls:preset", {
        "preset": "consumer", "principal": principal, "name": "orders.", "pattern": "prefix", "group_prefix": "billing",
    })  # fmt: skip
    assert [one["text"] for one in made["items"]] == [
        f"allow {principal} consume, describe on topic orders.*",
        f"allow {principal} consume, describe on group billing*",
    ]


# -- groups ---------------------------------------------------------------------------------------------


def test_groups_in_a_circle_are_refused_with_the_circle_named(house: House) -> None:
    ids = {}
    for name in ("a", "b"):
        ids[name] = owner(house, "POST", "principal-groups", {"name": name})["id"]
    owner(house, "PATCH", f"principal-groups/{ids['a']}", {"members": [f"group:{ids['b']}"]})
    status, detail = refused(
        house, "PATCH", f"principal-groups/{ids['b']}", {"members": [f"group:{ids['a']}"]}
    )
    assert status == 400 and "in a circle: " in detail and " holds " in detail
    assert owner(house, "GET", f"principal-groups/{ids['b']}")["members"] == []
    status, detail = refused(house, "DELETE", f"principal-groups/{ids['b']}")
    assert (status, detail) == (409, "group 'b': member of the group 'a'; take it out first")
    assert "everyone" in refused(house, "PATCH", f"principal-groups/{ids['b']}", {"members": ["everyone"]})[1]


def test_a_group_that_entries_name_stays_and_they_are_named(house: House) -> None:
    group = owner(house, "POST", "principal-groups", {"name": "team"})["id"]

    def answer() -> Any:
        found = call("DELETE", f"/v1/principal-groups/{group}", token=house.credentials[Standing.OWNER])
        return found.status, found.body

    entries = [
        owner(house, "POST", "acls", entry("allow", f"group:{group}", name=f"orders-{number}"))["id"]
        for number in range(12)
    ]
    status, body = answer()
    assert (status, body["code"], body["title"]) == (409, "in_use", "It is in use")
    assert body["detail"] == (
        f"group 'team': named by entries {', '.join(entries[:10])} and 2 more; delete what names it first"
    )
    for one in entries[1:]:
        owner(house, "DELETE", f"acls/{one}")
    assert f"named by entry {entries[0]};" in answer()[1]["detail"]
    assert AclEntry.objects.filter(principal=f"group:{group}").count() == 1
    owner(house, "DELETE", f"acls/{entries[0]}")
    owner(house, "DELETE", f"principal-groups/{group}")


def test_a_group_that_an_entry_names_is_not_deleted(house: House) -> None:
    group = owner(house, "POST", "principal-groups", {"name": "a"})["id"]
    made = owner(house, "POST", "acls", entry("deny", f"group:{group}", name="x"))
    assert made["id"] in refused(house, "DELETE", f"principal-groups/{group}")[1]
    owner(house, "DELETE", f"acls/{made['id']}")
    owner(house, "DELETE", f"principal-groups/{group}")


# -- what follows from the list -------------------------------------------------------------------------


def test_who_may_and_why_not_is_answered(house: House) -> None:
    sa = account(house)
    principal = f"service_account:{sa}"
    key, _ = key_of(house, sa, scopes=[{"name": "orders.", "pattern": "prefix"}])
    made = owner(house, "POST", "acls", entry("allow", principal, name="orders.", pattern="prefix"))
    owner(house, "PATCH", "access", {"default": "deny"})
    asked = "operation=consume&resource=topic&name="
    found = owner(house, "GET", f"access/check?key={key}&{asked}orders.eu")
    assert (found["allowed"], found["entry"]["id"], found["name"]) == (True, made["id"], "billing")
    found = owner(house, "GET", f"access/check?key={key}&{asked}pay")
    assert (found["allowed"], found["scopes_grant"]) == (False, False)
    assert "no scope of the key grants consume" in found["reason"]
    found = owner(house, "GET", f"access/check?principal={person(house, Role.DEVELOPER)}&{asked}orders.eu")
    assert not found["allowed"] and "no entry allows consume" in found["reason"]
    who = owner(house, "GET", f"access/who?{asked}orders.eu")["principals"]
    assert [one["name"] for one in who if one["allowed"]] == ["billing"]
    assert {one["name"] for one in who} == {
        "billing",
        *(f"{r}@acme.example" for r in ("owner", "admin", "developer")),
    }
    owner(house, "DELETE", f"keys/{key}")
    assert "revoked" in owner(house, "GET", f"access/check?key={key}&{asked}orders.eu")["reason"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("operation=consume&resource=topic&name=x", "key: either this or a principal"),
        ("principal=everyone&operation=consume&resource=topic&name=x", "principal"),
        ("principal=person:x&resource=topic&name=x", "operation: required"),
        ("principal=person:x&operation=eat&resource=topic&name=x", "'eat' of a topic"),
        ("principal=person:x&operation=consume&resource=topic", "name: required"),
    ],
)
def test_a_question_that_means_nothing_is_refused(house: House, query: str, words: str) -> None:
    status, detail = refused(house, "GET", f"access/check?{query}")
    assert status == 400 and words in detail


def test_a_key_sees_and_changes_over_rest_what_the_list_allows(house: House) -> None:
    sa = account(house)
    _, text = key_of(house, sa)
    for name in ("orders", "secrets"):
        topics.create_topic(ACTOR, house.tenant, name=name, partitions=1, settings={})
    for given in (
        entry("deny", f"service_account:{sa}", name="secrets"),
        entry(
            "deny",
            f"service_account:{sa}",
            name="",
            pattern="prefix",
            operations=["create", "alter", "delete"],
        ),
    ):
        owner(house, "POST", "acls", given)
    seen = call("GET", "/v1/topics", token=text).body["items"]
    assert [topic["name"] for topic in seen] == ["orders"]
    assert call("GET", "/v1/topics/secrets", token=text).status == 404
    for method, path, body in (
        ("POST", "topics", {"name": "new"}),
        ("POST", "topics:batch", {"topics": [{"name": "new"}]}),
        ("PATCH", "topics/orders", {"partitions": 2}),
        ("DELETE", "topics/orders", None),
    ):
        assert refused(house, method, path, body, token=text)[0] == 403, path
    assert call("DELETE", "/v1/topics/secrets", token=text).status == 404
    owner(
        house, "POST", "acls", {"effect": "deny", "principal": f"service_account:{sa}", "resource": "tenant"}
    )
    for method, path, body in (
        ("GET", "keys", None), ("POST", "keys", {"name": "x"}), ("GET", "acls", None), ("GET", "usage", None),
    ):  # fmt: skip
        assert refused(house, method, path, body, token=text)[0] == 403, path


def test_a_list_that_would_lock_its_last_administrator_out_is_refused(house: House) -> None:
    sa = account(house)
    _, text = key_of(house, sa)
    locking = {"effect": "deny", "principal": "everyone", "resource": "tenant", "operations": ["alter"]}
    status, detail = refused(house, "POST", "acls", locking, token=text)
    assert (
        status == 403
        and f"allow service_account:{sa} to alter the tenant first, or sign in as an owner" in detail
    )
    assert refused(house, "PATCH", "access", {"default": "deny"}, token=text)[0] == 403
    assert not AclEntry.objects.exists() and owner(house, "GET", "access")["default"] == "allow"
    # An owner acts by their role, so that they can undo it.
    made = owner(house, "POST", "acls", locking)
    assert refused(house, "POST", "acls", entry("allow", "everyone", name="x"), token=text)[0] == 403
    owner(house, "DELETE", f"acls/{made['id']}")


# -- service accounts and keys --------------------------------------------------------------------------


def test_a_key_of_an_account_outlives_who_made_it_and_is_never_theirs(house: House) -> None:
    sa = account(house)
    key, text = key_of(house, sa)
    row = ApiKey.objects.get(public_id=key)
    assert queries.owner_of(row) == f"service_account:{sa}" and row.maker is None
    made = call("POST", "/v1/keys", {"name": "child"}, token=text).body
    assert made["principal"] == f"service_account:{sa}", "not the person's who made the first"
    shown = owner(house, "GET", f"keys/{key}")
    assert (shown["service_account"], shown["made_by"]) == (sa, None)


def test_only_who_writes_access_makes_or_exchanges_keys_of_accounts(house: House) -> None:
    sa = account(house)
    key, _ = key_of(house, sa)
    developer = house.credentials[Standing.DEVELOPER]
    body = {"name": "x", "service_account": sa}
    assert refused(house, "POST", "keys", body, token=developer)[0] == 403
    assert refused(house, "POST", f"keys/{key}/rotate", {}, token=developer)[0] == 403
    mine = call("POST", "/v1/keys", {"name": "mine"}, token=developer).body["id"]
    assert "belongs to another principal" in refused(house, "POST", f"keys/{mine}/rotate", {})[1]


def test_a_deleted_account_takes_its_keys_and_entries_along(house: House) -> None:
    sa = account(house)
    key, text = key_of(house, sa)
    group = owner(house, "POST", "principal-groups", {"name": "g", "members": [f"service_account:{sa}"]})[
        "id"
    ]
    owner(house, "POST", "acls", entry("allow", f"service_account:{sa}", name="x"))
    assert "does not delete itself" in refused(house, "DELETE", f"service-accounts/{sa}", token=text)[1]
    assert call("DELETE", f"/v1/service-accounts/{sa}", token=house.credentials[Standing.OWNER]).status == 204
    assert ApiKey.objects.get(public_id=key).revoked_at is not None
    assert call("GET", "/v1/topics", token=text).status == 401
    assert not AclEntry.objects.exists()
    assert owner(house, "GET", f"principal-groups/{group}")["members"] == []
    assert refused(house, "GET", f"service-accounts/{sa}")[0] == 404
    assert account(house) != sa, "the name is free"


def test_a_name_is_taken_once(house: House) -> None:
    account(house)
    assert refused(house, "POST", "service-accounts", {"name": "billing"})[0] == 409
    owner(house, "POST", "principal-groups", {"name": "g"})
    assert refused(house, "POST", "principal-groups", {"name": "g"})[0] == 409
    for kind, look_alike in (("service-accounts", "b\u0456lling"), ("principal-groups", "\uff47")):
        status, detail = refused(house, "POST", kind, {"name": look_alike})
        assert status == 400 and ("look alike" in detail or "NFKC" in detail)


def test_an_exchanged_key_overlaps_with_the_new_one(house: House) -> None:
    scopes = [{"resource": "topic", "name": "orders", "pattern": "literal", "operations": ["produce"]}]
    key, text = key_of(house, account(house), scopes=scopes)
    before = timezone.now()
    made = owner(house, "POST", f"keys/{key}/rotate", {"overlap_s": 60})
    assert made["id"] != key and made["replaces"]["id"] == key
    assert made["scopes"] == [
        {"resource": "topic", "name": "orders", "operations": ["produce"], "pattern": "literal"}
    ]
    assert made["principal"] == made["replaces"]["principal"]
    ends = ApiKey.objects.get(public_id=key).expires_at
    assert ends is not None and 59 <= (ends - before).total_seconds() <= 120
    for one in (text, made["key"]):
        assert call("GET", "/v1/topics", token=one).status == 200
    assert refused(house, "POST", f"keys/{key}/rotate", {"overlap_s": 31 * 86_400})[0] == 400


def test_an_exchanged_key_is_not_prolonged(house: House) -> None:
    ends = (timezone.now() + timedelta(days=1)).isoformat()
    key, _ = key_of(house, account(house), expires_at=ends)
    made = owner(house, "POST", f"keys/{key}/rotate", {"overlap_s": 60})
    assert made["expires_at"] == ends


def test_a_key_does_not_remove_the_entry_that_lets_it_change_the_list(house: House) -> None:
    principal = f"service_account:{account(house)}"
    _, text = key_of(house, principal.partition(":")[2])
    own = owner(house, "POST", "acls", {"effect": "allow", "principal": principal, "resource": "tenant"})
    owner(house, "PATCH", "access", {"default": "deny"})
    status, detail = refused(house, "DELETE", f"acls/{own['id']}", token=text)
    assert status == 403 and "would lock the key" in detail
    assert AclEntry.objects.filter(public_id=own["id"]).exists()
    owner(house, "DELETE", f"acls/{own['id']}")


def test_a_key_exchanges_itself_while_it_is_used(house: House) -> None:
    key, text = key_of(house, account(house))
    made = call("POST", f"/v1/keys/{key}/rotate", {"overlap_s": 0}, token=text)
    assert made.status in (201, 202), made.body
    assert call("GET", "/v1/topics", token=text).status == 401, "it ended at once"
    assert call("GET", "/v1/topics", token=made.body["key"]).status == 200
    assert "no longer valid" in refused(house, "POST", f"keys/{key}/rotate", {})[1]


def test_scopes_limit_a_key_over_rest_too(house: House) -> None:
    for name in ("orders", "orders.eu", "pay"):
        topics.create_topic(ACTOR, house.tenant, name=name, partitions=1, settings={})
    _, text = key_of(
        house, account(house), scopes=[{"resource": "topic", "name": "orders", "operations": ["consume"]}]
    )
    seen = call("GET", "/v1/topics", token=text).body["items"]
    assert [topic["name"] for topic in seen] == ["orders"]
    for wrong in ({"resource": "queue"}, {"pattern": "literal"}, {"name": "x", "operations": ["alter"]}):
        assert refused(house, "POST", "keys", {"name": "k", "scopes": [wrong]})[0] == 400, wrong


# -- reconciliation -------------------------------------------------------------------------------------


def test_a_list_that_differs_on_the_brokers_is_delivered_again(house: House) -> None:
    owner(house, "POST", "acls", entry("deny", "everyone", name="x"))
    row = TenantAccessList.objects.get(tenant=house.tenant)
    TenantAccessList.objects.update(delivered_generation=row.generation)
    digest = access_list_digest(access_list_json(queries.access_list(house.tenant)))

    def look(seen: str) -> list[str]:
        tenant = TenantSeen(
            tenant=house.tenant.public_id, generation=1, produce_bytes_per_s=0, partitions_max=0, suspended=False,
            access_list_generation=row.generation, access_list_digest=seen,
        )  # fmt: skip
        view = ClusterView(
            cluster_id="c", controller=1, revision=9, brokers=(), tenants=(tenant,), feature_level=2
        )
        return [found.what for found in reconciliation.repair(view) if found.object_id == row.public_id]

    assert look(digest) == []
    assert look("") == ["the access list differs on the brokers"]
    assert TenantAccessList.objects.get(pk=row.pk).generation == row.generation + 1


def test_an_entry_made_between_a_lists_row_and_its_entries_is_no_drift(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner(house, "POST", "acls", entry("deny", "everyone", name="x"))
    row = TenantAccessList.objects.get(tenant=house.tenant)
    TenantAccessList.objects.update(delivered_generation=row.generation)
    access_list = queries.access_list
    tenant = TenantSeen(
        tenant=house.tenant.public_id, generation=1, produce_bytes_per_s=0, partitions_max=0, suspended=False,
        access_list_generation=row.generation,
        access_list_digest=access_list_digest(access_list_json(access_list(house.tenant))),
    )  # fmt: skip

    def after_a_change(tenant: Tenant) -> AccessList:
        with monkeypatch.context() as patch:
            patch.setattr(queries, "access_list", access_list)
            owner(house, "POST", "acls", entry("deny", "everyone", name="y"))
        return access_list(tenant)

    monkeypatch.setattr(queries, "access_list", after_a_change)
    view = ClusterView(
        cluster_id="c", controller=1, revision=9, brokers=(), tenants=(tenant,), feature_level=2
    )
    assert [found for found in reconciliation.repair(view) if found.object_id == row.public_id] == []
    assert TenantAccessList.objects.get(pk=row.pk).generation == row.generation + 1


@pytest.mark.parametrize(("level", "found"), [(1, []), (2, ["its owner differs on the brokers"])])
def test_brokers_get_owners_of_keys_once_they_keep_them(house: House, level: int, found: list[str]) -> None:
    key, _ = key_of(house, account(house))
    ApiKey.objects.filter(public_id=key).update(delivered_generation=1)
    row = ApiKey.objects.get(public_id=key)
    seen = KeySeen(
        key_id=row.key_id,
        tenant=house.tenant.public_id,
        revoked=False,
        expires_at_ms=0,
        generation=1,
        bindings=(),
    )
    tenant = TenantSeen(
        tenant=house.tenant.public_id, generation=1, produce_bytes_per_s=0, partitions_max=0, suspended=False
    )
    view = ClusterView(
        cluster_id="c",
        controller=1,
        revision=9,
        brokers=(),
        tenants=(tenant,),
        keys=(seen,),
        feature_level=level,
    )
    assert [one.what for one in reconciliation.repair(view) if one.object_id == key] == found


def test_a_check_says_what_a_key_with_scopes_meets_over_rest(house: House) -> None:
    scopes = [
        {"resource": "tenant", "operations": ["alter"]},
        {"resource": "topic", "name": "a", "operations": ["create"]},
    ]
    key, text = key_of(house, account(house), scopes=scopes)
    for asked in ("operation=alter&resource=tenant", "operation=create&resource=topic&name=a"):
        told = owner(house, "GET", f"access/check?key={key}&{asked}")
        assert told["scopes_grant"] and not told["allowed"] and "a key with scopes does not" in told["reason"]
    assert refused(house, "POST", "keys", {"name": "more"}, token=text)[0] == 403
    assert refused(house, "POST", "topics", {"name": "a", "partitions": 1}, token=text)[0] == 403


def test_a_check_says_that_the_tenant_is_closed(house: House) -> None:
    key, text = key_of(house, account(house))
    asked = f"access/check?key={key}&operation=produce&resource=topic&name=a"
    assert owner(house, "GET", asked)["allowed"]
    owner(house, "DELETE", f"tenants/{house.tenant.public_id}")
    told = owner(house, "GET", asked)
    assert (told["allowed"], told["reason"]) == (False, "the tenant is closed")
    assert refused(house, "GET", "topics", token=text)[0] == 401


def test_a_check_says_no_to_what_may_not_even_be_described(house: House) -> None:
    principal = f"service_account:{account(house)}"
    owner(house, "POST", "acls", entry("deny", principal, name="secrets", operations=["describe"]))
    asked = "operation=produce&resource=topic&name=secrets"
    assert not owner(house, "GET", f"access/check?principal={principal}&{asked}")["allowed"]
    found = owner(house, "GET", f"access/who?{asked}")["principals"]
    assert [one["allowed"] for one in found if one["principal"] == principal] == [False]


def test_no_key_is_made_of_an_account_that_is_deleted_meanwhile(house: House) -> None:
    gone = ServiceAccount.objects.get(public_id=account(house))
    owner(house, "DELETE", f"service-accounts/{gone.public_id}")
    person_id = person(house, Role.OWNER).removeprefix("person:")
    actor = Actor(kind=ActorKind.PERSON, id=person_id, request_id="", source="")
    with pytest.raises(NotFound, match="service account"):
        key_actions.create_key(actor, house.tenant, name="late", account=gone)
    assert not ApiKey.objects.filter(service_account=gone).exists()


@pytest.mark.parametrize("leaves", [True, False])
def test_who_leaves_is_in_no_group_and_entry_when_they_come_back(house: House, leaves: bool) -> None:
    left, billing = person(house, Role.DEVELOPER), f"service_account:{account(house)}"
    group = owner(house, "POST", "principal-groups", {"name": "team", "members": [left, billing]})["id"]
    owner(house, "POST", "acls", entry("allow", left, name="secrets"))
    kept = owner(house, "POST", "acls", entry("deny", billing, name="secrets"))["id"]
    before = owner(house, "GET", "access")["generation"]
    token = house.credentials[Standing.DEVELOPER if leaves else Standing.OWNER]
    answer = call("DELETE", f"/v1/people/{left.removeprefix('person:')}", token=token)
    assert answer.status < 300, answer.body
    Membership.objects.create(
        tenant=house.tenant,
        person=Person.objects.get(public_id=left.removeprefix("person:")),
        role=Role.DEVELOPER,
    )
    assert owner(house, "GET", f"principal-groups/{group}")["members"] == [billing]
    assert [one["id"] for one in owner(house, "GET", "acls")["items"]] == [kept]
    assert owner(house, "GET", "access")["generation"] == before + 1, "brokers get it"
    actions = AuditEntry.objects.filter(tenant=house.tenant.public_id).order_by("-sequence")[:4]
    assert {one.action for one in actions} >= {"acl.delete", "principal_group.change"}
