"""Every list of REST, page by page: whatever comes and goes between, with cursors of its own, in few queries."""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django.plugin import DjangoDbBlocker

from billing.models import Cut, CutUsage
from control_plane.brokers import client as broker_client
from control_plane.placement.models import Move, MoveState
from control_plane.rest.tenant_rates import tenant_rates
from control_plane.topics.models import Topic
from penstock.contract.limits import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX
from tenants.roles import Standing
from tests.control_plane.api.document import document as openapi_document
from tests.control_plane.api.lists import (
    BEGINNING,
    LISTS,
    Cluster,
    Listed,
    brokers,
    cluster,
    moves,
    topics,
)
from tests.control_plane.api.lists_of_billing import invoices, usage
from tests.control_plane.hostile import some_of
from tests.control_plane.rows_of_a_module import rows_of_a_module, undone
from tests.control_plane.steps import walk
from tests.control_plane.world import Answer, House, call, make_house

pytestmark = pytest.mark.django_db

VOLATILE = {"age_s", "last_used_at", "of_tenant_percent", "replaced_at", "restorable_until"}
"""What changes between two requests by itself, or with another item that comes."""

NO_LISTS = {
    "/v1/whoami",
    "/v1/anchors",
    "/v1/cluster",
    "/v1/cluster/features",
    "/v1/prices",
    "/v1/tenants/{tenant}/terms",
    "/v1/billing/what-if",
    "/v1/usage/forecast",
    "/v1/sla/{month}",
    "/v1/usage/anomalies",
    "/v1/usage/what-if",
    "/v1/invoices/{invoice}",
    "/v1/invoices/{invoice}/evidence",
    "/v1/billing/reconciliation",
    "/v1/credit-notes/{credit_note}",
    "/v1/billing/cuts/{cut}",
    "/v1/cluster/brokers/{broker}",
    "/v1/placement/plans/{plan}",
    "/v1/placement/cells/{cell}",
    "/v1/placement/load",
    "/v1/keys/{key}",
    "/v1/access",
    "/v1/access/who",
    "/v1/acls/{acl}",
    "/v1/principal-groups/{group}",
    "/v1/budgets/{budget}",
    "/v1/webhooks/{webhook}",
    "/v1/webhooks/{webhook}/attempts",
    "/v1/quotas/preview",
    "/v1/tenants/{tenant}",
    "/v1/organisations/{organisation}/tenants/{tenant}",
    "/v1/topics/{name}",
    "/v1/bin/topics/{topic}",
    "/v1/topics/{name}/durability",
    "/v1/topics/{name}/hot-keys",
}
"""One object each, of which something is a list: it is shown whole."""


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Cluster, Any]]:
    with cluster() as both:
        yield both


@pytest.fixture
def said(running: tuple[Cluster, Any], monkeypatch: pytest.MonkeyPatch) -> Cluster:
    said, client = running
    said.described.Clear()
    said.moves.Clear()
    monkeypatch.setattr(broker_client, "client", lambda: client)
    return said


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[House]:
    with rows_of_a_module(django_db_blocker):
        house = make_house("acme")
        yield house


@pytest.fixture
def house(made: House) -> House:
    return deepcopy(made)


Read = Callable[..., Answer]


@pytest.fixture
def read(house: House) -> Read:
    """A page of a list, by who reads it here."""

    def page(path: str, *query: str) -> Answer:
        listed = LISTS[path]
        asked = "&".join(text for text in (listed.query, *query) if text)
        where = re.sub(r"\{\w+\}", listed.of or house.tenant.public_id, path)
        return call("GET", f"{where}?{asked}", token=house.credentials[listed.by], tenant=house.tenant)

    return page


def told(answer: Answer) -> list[str]:
    """The items as texts, of which equal ones are the same item."""
    assert answer.status == 200, answer.body
    return [
        json.dumps({name: value for name, value in item.items() if name not in VOLATILE}, sort_keys=True)
        for item in answer.body["items"]
    ]


def rest_of(read: Read, path: str, cursor: str | None, limit: int) -> list[str]:
    """All items behind the cursor."""
    found: list[str] = []
    while cursor is not None:
        page = read(path, f"limit={limit}", f"cursor={cursor}")
        assert 1 <= len(page.body["items"]) <= limit
        found += told(page)
        cursor = page.body["next"]
    return found


def refused(answer: Answer, field: str) -> bool:
    return (answer.status, answer.body["code"]) == (400, "invalid_request") and field in answer.body["fields"]


def _schema(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def test_every_address_that_answers_with_a_list_is_here_and_takes_a_cursor() -> None:
    document, with_lists = openapi_document(), set()
    for path, operations in document["paths"].items():
        content = operations.get("get", {}).get("responses", {}).get("200", {}).get("content")
        if content is None or "application/json" not in content:
            continue
        answer = _schema(document, content["application/json"]["schema"])
        assert answer["type"] == "object", path
        properties = {name: _schema(document, one) for name, one in answer["properties"].items()}
        if any(one.get("type") == "array" for one in properties.values()):
            with_lists.add(path)
        if path in LISTS:
            taken = {parameter["name"] for parameter in operations["get"]["parameters"]}
            assert {"items", "next"} <= properties.keys() and {"cursor", "limit"} <= taken, path
    assert with_lists == LISTS.keys() | NO_LISTS


@pytest.mark.parametrize("path", LISTS)
def test_a_list_comes_in_pages_with_cursors_of_its_own_and_in_as_few_queries_for_many_items(
    path: str, house: House, said: Cluster, read: Read
) -> None:
    LISTS[path].fill(house, said, range(10, 30))
    with walk() as step:
        with step("page by page while others come"):
            _read_page_by_page(path, house, said, read)
        with step("cursors that it did not give out"), undone():
            _refuse_cursors_of_others(path, house, said, read)
        with step("queries for many items"):
            _ask_as_often_for_many_as_for_few(path, house, said, read)


def _read_page_by_page(path: str, house: House, said: Cluster, read: Read) -> None:
    listed = LISTS[path]
    whole = read(path, f"limit={PAGE_ITEMS_MAX}")
    before = told(whole)
    assert len(set(before)) == len(before) >= 20 * listed.a_number and whole.body["next"] is None
    assert rest_of(read, path, read(path, "limit=1").body["next"], 7) == before[1:]
    exact = read(path, f"limit={len(before)}")
    assert told(exact) == before and exact.body["next"] is None
    first = read(path, "limit=7")
    listed.fill(house, said, range(10))
    listed.fill(house, said, range(30, 40))
    found = told(first) + rest_of(read, path, first.body["next"], 7)
    assert len(set(found)) == len(found)
    assert [item for item in found if item in set(before)] == before


def _refuse_cursors_of_others(path: str, house: House, said: Cluster, read: Read) -> None:
    own = read(path, "limit=1").body["next"]
    other = "/v1/topics" if path != "/v1/topics" else "/v1/audit"
    LISTS[other].fill(house, said, range(100, 103))
    foreign = read(other, "limit=1").body["next"]
    assert own and foreign
    # One class reads them for all lists.
    nonsense = some_of(("", "x", "MSAx", "%f0%9f%90%9f"), 1)
    for cursor in (foreign, *nonsense, *some_of((own[:-1], "A" + own, own + "A"), 1)):
        answer = read(path, f"cursor={cursor}")
        assert refused(answer, "cursor"), (cursor, answer.body)
    for limit in some_of(("0", "-1", "1001", "x", "", "1.0"), 2):
        assert refused(read(path, f"limit={limit}"), "limit"), limit
    assert read(path, f"cursor={own}").status == 200


def _ask_as_often_for_many_as_for_few(path: str, house: House, said: Cluster, read: Read) -> None:
    listed: Listed = LISTS[path]

    def queries() -> list[str]:
        tenant_rates.forget_all()  # after some seconds it is read again, which no list should be blamed for
        with CaptureQueriesContext(connection) as caught:
            found = read(path, f"limit={PAGE_ITEMS_MAX}")
        assert found.status == 200, found.body
        counts.append(len(found.body["items"]))
        return [query["sql"] for query in caught.captured_queries]

    counts: list[int] = []
    few = queries()
    listed.fill(house, said, range(40, 200))
    many = queries()
    assert counts[-1] == counts[0] + 160 * listed.a_number
    assert len(many) == len(few), "\n".join(sorted({sql[:200] for sql in many}))


@pytest.mark.parametrize("path", ["/v1/topics", "/v1/cluster/brokers"])
def test_what_goes_between_two_pages_hides_nothing_else(
    path: str, house: House, said: Cluster, read: Read
) -> None:
    LISTS[path].fill(house, said, range(30))
    before = told(read(path))
    first = read(path, "limit=10")
    # Of the first page: its first item, and the one that the cursor names. Of the second: its first.
    gone = (0, 9, 10)
    Topic.objects.filter(public_id__in=[f"top_{n}" for n in gone]).delete()
    for n in reversed(gone):
        if said.described.brokers:
            del said.described.brokers[n]
    assert rest_of(read, path, first.body["next"], 10) == before[11:]


def test_a_cursor_is_of_one_question_and_one_tenant(house: House, said: Cluster) -> None:
    theirs = make_house("theirs")
    topics(house, said, range(3))
    topics(theirs, said, range(10, 13))
    owner = house.credentials[Standing.OWNER]
    cursor = call("GET", "/v1/topics?limit=1", token=owner).body["next"]
    stranger = theirs.credentials[Standing.OWNER]
    assert refused(call("GET", f"/v1/topics?cursor={cursor}", token=stranger), "cursor")
    asked = "/v1/audit?action=key.create"
    cursor = call("GET", f"{asked}&limit=1", token=owner).body["next"]
    assert call("GET", f"{asked}&cursor={cursor}", token=owner).status == 200
    assert refused(call("GET", f"/v1/audit?cursor={cursor}", token=owner), "cursor")


@pytest.mark.parametrize("path", ["/v1/cluster/brokers", "/v1/cluster/losses", "/v1/cluster/moves"])
def test_brokers_are_not_asked_for_a_page_that_cannot_be(
    path: str, house: House, said: Cluster, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    LISTS[path].fill(house, said, range(3))
    monkeypatch.setattr(broker_client, "client", lambda: pytest.fail("the brokers were asked"))
    assert refused(read(path, "cursor=x"), "cursor") and refused(read(path, "limit=0"), "limit")


def test_brokers_are_asked_about_moves_only_where_the_page_has_one_that_is_open(
    house: House, said: Cluster, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves(house, said, range(4))
    Move.objects.filter(partition__lt=2).update(state=MoveState.DONE)
    del said.moves.moves[:2]
    first = read("/v1/cluster/moves", "limit=2")
    assert [item["progress"] for item in first.body["items"]] == [[], []]
    assert [len(item["progress"]) for item in read("/v1/cluster/moves", "limit=3").body["items"]] == [0, 0, 1]
    monkeypatch.setattr(broker_client, "client", lambda: pytest.fail("the brokers were asked"))
    assert read("/v1/cluster/moves", "limit=2").body == first.body


@pytest.mark.parametrize("by", ["", "topic", "day", "topic,day", "day,topic"])
def test_usage_is_paged_however_it_is_grouped(by: str, house: House, said: Cluster) -> None:
    usage(house, said, range(20))
    invoices(house, said, range(1))
    # The cut may be imported a moment before the day that it belongs to.
    CutUsage.objects.create(
        cut=Cut.objects.get(invoice__isnull=False),
        tenant=house.tenant,
        topic_id="f" * 32,
        topic="billed-alone",
        partition=0,
        log_generation=1,
        day=BEGINNING.date() + timedelta(days=7),
        meter="messages_in",
        quantity=3,
        first_offset=0,
        end_offset=3,
    )

    def page(*query: str) -> Answer:
        asked = "&".join((f"by={by}", *query))
        return call("GET", f"/v1/usage?{asked}", token=house.credentials[Standing.OWNER])

    whole = page().body["items"]
    number = {"": 1, "topic": 11, "day": 3}.get(by, 21)
    assert len(whole) == number and sum(item["meters"]["messages_in"]["billed"] for item in whole) == 3
    assert sum(item["meters"]["messages_in"]["quantity"] for item in whole) == sum(range(20)) + (
        3 if by else 0
    )
    found, cursor = [], ""
    for _ in range(number):
        answer = page("limit=1", *([f"cursor={cursor}"] if cursor else []))
        found += answer.body["items"]
        cursor = answer.body["next"]
    assert found == whole and cursor is None


def test_usage_takes_days_and_the_moments_at_which_they_begin(house: House, said: Cluster) -> None:
    usage(house, said, range(4))

    def asked(query: str) -> Answer:
        return call("GET", f"/v1/usage?by=day&{query}", token=house.credentials[Standing.OWNER])

    day = BEGINNING.date() + timedelta(days=1)
    by_day = asked(f"from={day}")
    assert by_day.status == 200
    for moment in (f"{day}T00:00:00Z", f"{day}T02:00:00%2B02:00"):
        assert asked(f"from={moment}").body["items"] == by_day.body["items"], moment
    refused = asked(f"from={day}T12:30:00Z")
    assert refused.status == 400 and "within a day" in refused.body["detail"]
    assert asked("to=yesterday").status == 400


def test_a_page_has_so_many_items_where_nothing_is_said(house: House, said: Cluster, read: Read) -> None:
    for path, fill in (("/v1/topics", topics), ("/v1/cluster/brokers", brokers)):
        fill(house, said, range(PAGE_ITEMS_DEFAULT + 1))
        page = read(path)
        assert len(page.body["items"]) == PAGE_ITEMS_DEFAULT and page.body["next"]
