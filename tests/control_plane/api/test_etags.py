"""If-Match: a change is made only of what its caller read, and a condition is never passed over."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connections

from control_plane.outbox import in_request
from control_plane.topics import actions as topics
from control_plane.topics import observed
from control_plane.topics.models import Topic
from tenants.models import Membership
from tenants.roles import Standing
from tests.control_plane.api.document import document as openapi_document
from tests.control_plane.world import ACTOR, Answer, House, call, make_house, make_organisation

pytestmark = pytest.mark.django_db


WHAT = [
    *("topic", "key", "quotas", "tenant", "person"),
    *("organisation", "member", "tenant of an organisation"),
]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker and no broker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture
def house() -> House:
    house = make_house("acme")
    topics.create_topic(ACTOR, house.tenant, name="orders", partitions=1, settings={})
    return house


def asked(house: House, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    """As whoever may: operators change limits and suspend, owners the rest."""
    for_operators = path.startswith(("/v1/quotas", "/v1/tenants")) and method != "GET"
    token = house.credentials[Standing.OPERATOR if for_operators else Standing.OWNER]
    return call(method, path, body, token=token, tenant=house.tenant, **headers)


def changes(house: House) -> dict[str, tuple[str, list[tuple[str, str, Any]]]]:
    """What can be changed: its address, and changes that each succeed in this order."""
    person = Membership.objects.get(tenant=house.tenant, role="developer").person.public_id
    key = call("POST", "/v1/keys", {"name": "x"}, token=house.credentials[Standing.OWNER]).body["id"]
    tenant = f"/v1/tenants/{house.tenant.public_id}"
    made = make_organisation(house, "acme")
    organisation = f"/v1/organisations/{made.public_id}"
    auditor = Membership.objects.get(tenant=house.tenant, role="auditor").person.public_id
    member = f"{organisation}/members/{auditor}"
    return {
        "topic": (
            "/v1/topics/orders",
            [("PATCH", "/v1/topics/orders", {"partitions": 2}), ("DELETE", "/v1/topics/orders", None)],
        ),
        "key": (f"/v1/keys/{key}", [("DELETE", f"/v1/keys/{key}", None)]),
        "quotas": (
            "/v1/quotas",
            [("PATCH", "/v1/quotas", {"partitions_max": 7}), ("PATCH", "/v1/quotas", {"partitions_max": 8})],
        ),
        "tenant": (tenant, [("POST", f"{tenant}/suspend", None), ("POST", f"{tenant}/resume", None)]),
        "organisation": (
            organisation,
            [
                ("PATCH", organisation, {"display_name": "Acme Limited"}),
                ("PATCH", organisation, {"name": "acme-ltd"}),
                ("DELETE", organisation, None),
            ],
        ),
        "member": (
            member,
            [("PATCH", member, {"role": "admin"}), ("DELETE", member, None)],
        ),
        "tenant of an organisation": (
            tenant,
            [("POST", f"{organisation}{tenant[3:]}", None), ("DELETE", f"{organisation}{tenant[3:]}", None)],
        ),
        "person": (
            f"/v1/people/{person}",
            [
                ("PATCH", f"/v1/people/{person}", {"role": "admin"}),
                ("DELETE", f"/v1/people/{person}", None),
            ],
        ),
    }


@pytest.mark.parametrize("what", WHAT)
def test_a_change_is_made_only_of_what_was_read(house: House, what: str) -> None:
    address, steps = changes(house)[what]
    tag = ""
    for method, path, body in steps:
        read = asked(house, "GET", address)
        tag = read.headers["ETag"]
        stale = asked(house, method, path, body, If_Match='"stale"')
        assert (stale.status, stale.body["code"]) == (412, "precondition_failed"), stale.body
        assert tag in stale.body["detail"]
        assert asked(house, "GET", address).body == read.body, "nothing was changed"
        done = asked(house, method, path, body, If_Match=f'"other", {tag}')
        assert done.status in (200, 202, 204), done.body
        if done.status != 204:
            assert done.headers["ETag"] != tag
    again = asked(house, *steps[0], If_Match=tag)
    assert again.status in (404, 412)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("what", ["topic", "person", "member"])
def test_of_many_changes_of_what_was_read_one_is_made(house: House, what: str) -> None:
    address, steps = changes(house)[what]
    tag = asked(house, "GET", address).headers["ETag"]
    # Of a member who is an auditor that is no change.
    fourth = "auditor" if what == "person" else "admin"
    bodies: list[Any] = [{"role": role} for role in ("admin", "billing", fourth, "owner")]
    if what == "topic":
        bodies = [{"partitions": partitions} for partitions in (2, 3, 4, 5)]
    barrier = Barrier(len(bodies))

    def change(body: Any) -> int:
        try:
            barrier.wait(30)
            return asked(house, "PATCH", steps[0][1], body, If_Match=tag).status
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(bodies)) as pool:
        statuses = sorted(pool.map(change, bodies))
    assert statuses[0] in (200, 202) and statuses[1:] == [412] * 3


@pytest.mark.parametrize("what", WHAT)
def test_without_a_condition_and_with_a_star_everything_is_as_before(house: House, what: str) -> None:
    _, steps = changes(house)[what]
    assert asked(house, *steps[0], If_Match="*").status in (200, 202)
    if len(steps) > 1:
        assert asked(house, *steps[1]).status in (200, 202, 204)


def test_what_is_observed_of_an_object_does_not_make_a_tag_stale(house: House) -> None:
    tag = asked(house, "GET", "/v1/topics/orders").headers["ETag"]
    topic = Topic.objects.get()
    observed.put_condition(topic.public_id, "delivery", "x", "y")
    assert asked(house, "PATCH", "/v1/topics/orders", {"partitions": 2}, If_Match=tag).status == 202


def test_the_answer_to_a_creation_has_the_tag_of_the_next_change(house: House) -> None:
    made = asked(house, "POST", "/v1/topics", {"name": "other"})
    tag = made.headers["ETag"]
    assert asked(house, "PATCH", "/v1/topics/other", {"partitions": 2}, If_Match=tag).status == 202
    assert asked(house, "DELETE", "/v1/topics/other", If_Match=tag).status == 412
    assert asked(house, "DELETE", "/v1/topics/none", If_Match=tag).status == 404


@pytest.mark.parametrize("given", ["", "3", '"3', '"3";"4"', "W/3", '"' + "x" * 2000 + '"'])
def test_what_is_no_tag_is_refused(house: House, given: str) -> None:
    answer = asked(house, "PATCH", "/v1/topics/orders", {"partitions": 2}, If_Match=given)
    assert (answer.status, answer.body["fields"].keys()) == (400, {"If-Match"})


def test_a_weak_tag_never_matches(house: House) -> None:
    tag = asked(house, "GET", "/v1/topics/orders").headers["ETag"]
    assert asked(house, "DELETE", "/v1/topics/orders", If_Match=f"W/{tag}").status == 412


def test_a_condition_that_an_address_does_not_take_is_refused(house: House) -> None:
    answer = asked(house, "POST", "/v1/topics", {"name": "other"}, If_Match="*")
    assert answer.status == 400 and "takes no condition" in answer.body["detail"]
    assert asked(house, "GET", "/v1/topics/orders", If_Match='"0"').status == 200


def test_the_document_tells_of_conditions_where_they_are_heeded() -> None:
    document, heeded = openapi_document(), set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if not any(parameter["name"] == "If-Match" for parameter in operation.get("parameters", ())):
                continue
            assert "412" in operation["responses"], path
            told = operation["responses"].get("200", {}).get("headers", {})
            assert "204" in operation["responses"] or "ETag" in told, (method, path)
            heeded.add((method, path))
    assert heeded == {
        ("post", "/v1/email/change"),
        ("delete", "/v1/email/change"),
        ("patch", "/v1/topics/{name}"),
        ("delete", "/v1/topics/{name}"),
        ("delete", "/v1/keys/{key}"),
        ("delete", "/v1/service-accounts/{account}"),
        ("patch", "/v1/principal-groups/{group}"),
        ("delete", "/v1/principal-groups/{group}"),
        ("patch", "/v1/access"),
        ("patch", "/v1/access/report-mails"),
        ("delete", "/v1/acls/{acl}"),
        ("post", "/v1/topics/{name}/restore"),
        ("post", "/v1/access/restore"),
        ("post", "/v1/acls/{acl}/restore"),
        ("post", "/v1/principal-groups/{group}/restore"),
        ("post", "/v1/service-accounts/{account}/restore"),
        ("patch", "/v1/webhooks/{webhook}"),
        ("delete", "/v1/webhooks/{webhook}"),
        ("patch", "/v1/billing/costs/{cost}"),
        ("delete", "/v1/billing/costs/{cost}"),
        ("put", "/v1/billing-account/address"),
        ("put", "/v1/cost-tags/{kind}/{name}"),
        ("patch", "/v1/budgets/{budget}"),
        ("delete", "/v1/budgets/{budget}"),
        ("patch", "/v1/audit-topic"),
        ("delete", "/v1/audit-topic"),
        ("patch", "/v1/quotas"),
        ("patch", "/v1/organisations/{organisation}"),
        ("delete", "/v1/organisations/{organisation}"),
        ("patch", "/v1/organisations/{organisation}/members/{person}"),
        ("delete", "/v1/organisations/{organisation}/members/{person}"),
        ("post", "/v1/organisations/{organisation}/tenants/{tenant}"),
        ("delete", "/v1/organisations/{organisation}/tenants/{tenant}"),
        ("patch", "/v1/tenants/{tenant}"),
        ("delete", "/v1/tenants/{tenant}"),
        ("post", "/v1/tenants/{tenant}/reopen"),
        ("put", "/v1/tenants/{tenant}/terms"),
        ("patch", "/v1/tenants/{tenant}/terms"),
        ("post", "/v1/tenants/{tenant}/suspend"),
        ("post", "/v1/tenants/{tenant}/resume"),
        ("patch", "/v1/people/{person}"),
        ("delete", "/v1/people/{person}"),
        ("put", "/v1/service-account-limits/default"),
        ("delete", "/v1/service-account-limits/default"),
        ("put", "/v1/service-accounts/{account}/limits"),
        ("delete", "/v1/service-accounts/{account}/limits"),
        ("post", "/v1/placement/plans/{plan}/confirm"),
        ("patch", "/v1/placement/cells/{cell}"),
        ("delete", "/v1/placement/cells/{cell}"),
    }
