"""The audit log is found by actor, object, action, outcome and time, in pages, and only by its own tenant."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor

from control_plane.access import actions as access
from control_plane.audit import actions, queries
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from control_plane.topics import actions as topics
from penstock.contract.audit_entries import ChainCheck
from penstock.contract.invariant import InvariantBroken
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, House, call, make_house

pytestmark = pytest.mark.django_db

ANN = Actor(kind=ActorKind.PERSON, id="usr_ann")
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def house() -> House:
    return make_house("acme")


def asked(house: House, query: str) -> list[dict[str, Any]]:
    answer = call("GET", f"/v1/audit?limit=1000&{query}", token=house.credentials[Standing.AUDITOR])
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.body["items"]
    return found


def actions_of(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["action"] for entry in entries]


def test_entries_are_found_by_who_what_and_how_it_went(house: House) -> None:
    tenant = house.tenant
    topics.create_topic(ANN, tenant, name="orders", partitions=1, settings={})
    topics.update_topic(ACTOR, tenant, "orders", partitions=2)
    with transaction.atomic():
        actions.record(ANN, tenant=tenant.public_id, action="key.create", object_id="k", outcome="refused")
    assert actions_of(asked(house, "actor=usr_ann")) == ["topic.create", "key.create"]
    assert actions_of(asked(house, "kind=topic")) == ["topic.create", "topic.update"]
    assert actions_of(asked(house, "kind=topic&actor=usr_ann")) == ["topic.create"]
    assert actions_of(asked(house, "outcome=refused")) == ["key.create"]
    assert len(asked(house, "outcome=done")) == AuditEntry.objects.filter(tenant=tenant.public_id).count() - 1
    assert actions_of(asked(house, "action=topic.update")) == ["topic.update"]
    assert asked(house, "actor=usr_none") == [] and asked(house, "action=topic") == []


def test_a_name_finds_all_objects_that_had_it_and_all_entries_about_them(house: House) -> None:
    tenant = house.tenant
    topics.create_topic(ACTOR, tenant, name="orders", partitions=1, settings={})
    topics.create_topic(ACTOR, tenant, name="other", partitions=1, settings={})
    topics.delete_topic(ACTOR, tenant, "orders")
    topics.create_topic(ACTOR, tenant, name="orders", partitions=1, settings={})
    access.create_key(ACTOR, tenant, name="orders")
    found = asked(house, "name=orders&kind=topic")
    assert actions_of(found) == ["topic.create", "topic.delete", "topic.create"]
    assert len({entry["object_id"] for entry in found}) == 2
    assert actions_of(asked(house, "name=orders"))[-1] == "key.create"
    assert asked(house, "name=") == [] and asked(house, "name=ord") == []


def test_a_range_of_time_holds_its_beginning_and_not_its_end(house: House) -> None:
    tenant = house.tenant.public_id
    with transaction.atomic():
        rows = actions.record_all(
            ACTOR, tenant=tenant, entries=[actions.Entry(action="x.y", object_id=str(n)) for n in range(4)]
        )
    for hours, row in enumerate(rows):
        AuditEntry.objects.filter(pk=row.pk).update(at=BEGINNING + timedelta(hours=hours))
    found = asked(house, "from=2026-01-01T01:00:00Z&to=2026-01-01T03:00:00Z")
    assert [entry["object_id"] for entry in found] == ["1", "2"]
    newest = asked(house, "from=2026-01-01&to=2026-01-02&order=newest")
    assert [entry["object_id"] for entry in newest] == ["3", "2", "1", "0"]


@pytest.mark.parametrize("order", ["oldest", "newest"])
def test_pages_go_through_entries_of_one_moment_without_gap_or_repetition(house: House, order: str) -> None:
    with transaction.atomic():
        actions.record_all(
            ACTOR,
            tenant=house.tenant.public_id,
            entries=[actions.Entry(action="x.y", object_id=str(n)) for n in range(25)],
        )
    token = house.credentials[Standing.OWNER]
    found: list[str] = []
    cursor = ""
    while True:
        page = call("GET", f"/v1/audit?kind=x&order={order}&limit=4{cursor}", token=token).body
        found += [entry["object_id"] for entry in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    expected = [str(n) for n in range(25)]
    assert found == (expected if order == "oldest" else expected[::-1])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("outcome=maybe", "outcome"),
        ("order=random", "order"),
        ("from=yesterday", "from"),
        ("to=2026-13-01", "to"),
        (f"name={'x' * 256}", "name"),
        ("person=usr_ann", "person"),
    ],
)
def test_a_search_that_cannot_be_is_refused(house: House, query: str, field: str) -> None:
    answer = call("GET", f"/v1/audit?{query}", token=house.credentials[Standing.OWNER])
    assert (answer.status, list(answer.body["fields"])) == (400, [field])


def test_a_search_finds_nothing_of_another_tenant(house: House) -> None:
    other = make_house("other")
    topic = topics.create_topic(ANN, other.tenant, name="secret-plans", partitions=1, settings={})
    for query in ("name=secret-plans", f"object={topic.public_id}", "actor=usr_ann"):
        assert asked(other, query) and asked(house, query) == [], query


@pytest.mark.parametrize("field", ["outcome", "times", "object_name", "object_kind"])
def test_what_an_entry_is_found_by_cannot_be_altered_unseen(house: House, field: str) -> None:
    tenant = house.tenant.public_id
    altered: dict[str, Any] = {"outcome": "refused", "times": 7, "object_name": "x", "object_kind": "x"}
    assert queries.first_break(tenant) is None
    AuditEntry.objects.filter(tenant=tenant, sequence=2).update(**{field: altered[field]})
    assert queries.first_break(tenant) == 2


def test_the_logs_own_member_of_an_entry_is_not_an_actions(house: House) -> None:
    with pytest.raises(InvariantBroken, match="log's own"), transaction.atomic():
        actions.record(ACTOR, tenant="tn_1", action="x.y", object_id="", after={"audit": {}})


def test_entries_of_an_earlier_release_are_chained_as_before_and_become_findable(house: House) -> None:
    tenant = house.tenant.public_id
    topics.create_topic(ANN, house.tenant, name="orders", partitions=1, settings={})
    # As the release before writes them: the database fills in the rest.
    AuditEntry.objects.filter(tenant=tenant).update(object_kind="", object_name="", times=1, outcome="done")
    assert queries.first_break(tenant) is None
    assert asked(house, "kind=topic") == []
    written = AuditEntry.objects.filter(tenant=tenant).count()
    assert (actions.classify(), actions.classify()) == (written, 0)
    assert actions_of(asked(house, "kind=topic&name=orders")) == ["topic.create"]
    assert queries.first_break(tenant) is None


@pytest.mark.django_db(transaction=True)
def test_the_upgrade_makes_entries_findable_and_the_way_back_keeps_the_chain() -> None:
    house = make_house("acme")
    topics.create_topic(ANN, house.tenant, name="orders", partitions=1, settings={})
    last = queries.head(house.tenant.public_id)
    try:
        MigrationExecutor(connection).migrate([("audit", "0001_initial")])
    finally:
        MigrationExecutor(connection).migrate([("audit", "0002_find_entries")])
    assert actions_of(asked(house, "kind=topic&name=orders")) == ["topic.create"]
    assert queries.first_break(house.tenant.public_id) is None
    assert queries.head(house.tenant.public_id) == last


def exported(house: House, query: str) -> list[dict[str, Any]]:
    answer = call("GET", f"/v1/audit/export?{query}", token=house.credentials[Standing.AUDITOR])
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in answer.body.splitlines()]


def test_an_export_is_verified_without_the_service_and_goes_on_where_it_stopped(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "_READ_AT_ONCE", 3)
    topics.create_topic(ANN, house.tenant, name="orders", partitions=1, settings={})
    with transaction.atomic():
        actions.record(ANN, tenant=house.tenant.public_id, action="a.b", object_id="", outcome="refused")
    check = ChainCheck(house.tenant.public_id)
    whole = exported(house, "")
    assert [check.problem(entry) for entry in whole] == [""] * len(whole) and len(whole) >= 5
    assert (check.sequence, check.hash) == queries.head(house.tenant.public_id)
    found: list[dict[str, Any]] = []
    while some := exported(house, f"limit=4&after={found[-1]['sequence'] if found else 0}"):
        found += some
    assert found == whole
    assert exported(house, f"after={check.sequence}") == []


def test_an_export_shows_what_the_database_holds_so_that_alterations_show(house: House) -> None:
    AuditEntry.objects.filter(tenant=house.tenant.public_id, sequence=2).update(outcome="refused")
    check = ChainCheck(house.tenant.public_id)
    first, second = exported(house, "limit=2")
    assert check.problem(first) == "" and "outcome" in check.problem(second)


@pytest.mark.parametrize(
    "query", ["after=-1", "after=x", "limit=0", "limit=10001", "after=1&after=2", "from=1"]
)
def test_an_export_that_cannot_be_is_refused(house: House, query: str) -> None:
    answer = call("GET", f"/v1/audit/export?{query}", token=house.credentials[Standing.OWNER])
    assert answer.status == 400 and list(answer.body["fields"]) == [query.partition("=")[0]]
