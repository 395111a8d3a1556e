"""Refusals and sensitive reads are entries too: counted by the minute, bounded, and at no cost for the request."""

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from control_plane.access import actions as access
from control_plane.audit import chaining, queries, writing
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry, AuditTally
from control_plane.audit.tallies import MORE, Counted, Tallies, Tally, merged, tallies
from control_plane.topics import actions as topics
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.limits import AUDIT_TALLIES_MAX
from tenants import audited
from tenants.models import ApiKey, Membership
from tenants.roles import Permission, Standing
from tests.control_plane.world import ACTOR, PASSWORD, House, call, make_house

pytestmark = pytest.mark.django_db

MINUTE = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LATER = MINUTE + timedelta(minutes=5)


@pytest.fixture
def house() -> House:
    made = make_house("acme")
    topics.create_topic(ACTOR, made.tenant, name="orders", partitions=1, settings={})
    return made


def counted() -> list[tuple[str, str, str, str, int]]:
    """What this process has counted and not written: tenant, outcome, kind of actor, action, times."""
    return sorted(
        (one.tenant, one.outcome, one.actor_kind, one.action, tally.times)
        for one, tally in tallies().take().items()
    )


def chained(tenant: str) -> list[AuditEntry]:
    """What was counted, as entries of the tenant's log."""
    writing.write_down(tallies())
    chaining.chain_tallies(timezone.now() + timedelta(minutes=3))
    return list(queries.entries(tenant).exclude(after={}).filter(object_id="").order_by("sequence"))


# -- what is counted -----------------------------------------------------------------------------------


def test_a_refusal_is_an_entry_with_how_often_it_was(house: House) -> None:
    billing = house.credentials[Standing.BILLING]
    for _ in range(3):
        assert call("POST", "/v1/topics", {"name": "x"}, token=billing).status == 403
    (entry,) = chained(house.tenant.public_id)
    person = Membership.objects.get(tenant=house.tenant, role="billing").person
    assert (entry.actor_kind, entry.actor_id, entry.action) == ("person", person.public_id, "topic.write")
    assert (entry.outcome, entry.times, entry.object_kind, entry.source) == (
        "refused",
        3,
        "topic",
        "127.0.0.1",
    )
    assert entry.after["audit"]["times"] == 3 and entry.after["audit"]["minute"].endswith(":00+00:00")
    assert queries.first_break(house.tenant.public_id) is None
    found = call("GET", "/v1/audit?outcome=refused", token=house.credentials[Standing.OWNER]).body["items"]
    assert [(item["action"], item["times"]) for item in found] == [("topic.write", 3)]


@pytest.mark.parametrize(
    ("path", "standing", "action"),
    [
        ("/v1/keys", Standing.OWNER, "key.read"),
        ("/v1/acls", Standing.OWNER, "access.read"),
        ("/v1/people", Standing.BILLING, "person.read"),
        ("/v1/audit", Standing.AUDITOR, "audit.read"),
        ("/v1/audit/export", Standing.AUDITOR, "audit.read"),
        ("/v1/topics", Standing.OPERATOR, "topic.read"),
    ],
)
def test_a_sensitive_read_is_counted(house: House, path: str, standing: Standing, action: str) -> None:
    named = house.tenant if standing is Standing.OPERATOR else None
    assert call("GET", path, token=house.credentials[standing], tenant=named).status == 200
    kind = "operator" if standing is Standing.OPERATOR else "person"
    assert counted() == [(house.tenant.public_id, "done", kind, action, 1)]


@pytest.mark.parametrize("path", ["/v1/topics", "/v1/usage", "/v1/audit/head", "/v1/keys?cursor=x"])
def test_an_ordinary_read_and_one_that_failed_are_not_counted(house: House, path: str) -> None:
    call("GET", path, token=house.credentials[Standing.OWNER])
    assert counted() == []


def test_pages_of_the_console_count_as_rest_does(house: House) -> None:
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.BILLING]
    assert client.get("/t/acme/people").status_code == 200
    assert client.get("/t/acme/audit").status_code == 403
    assert client.get("/t/acme").status_code == 200
    tenant = house.tenant.public_id
    assert counted() == [
        (tenant, "done", "person", "person.read", 1),
        (tenant, "refused", "person", "audit.read", 1),
    ]


def test_a_key_that_is_not_valid_any_more_or_has_another_secret_is_counted_for_its_tenant(
    house: House,
) -> None:
    key, text = access.create_key(ACTOR, house.tenant, name="gone")
    _, other = access.create_key(ACTOR, house.tenant, name="other")
    wrong = type(text)(env=text.env, key_id=text.key_id, secret=other.secret).reveal()
    ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now())
    for token in (text.reveal(), wrong):
        assert call("GET", "/v1/topics", token=token).status == 401
    (entry,) = chained(house.tenant.public_id)
    assert (entry.actor_kind, entry.actor_id, entry.action) == ("key", key.public_id, audited.KEY)
    assert (entry.outcome, entry.times) == ("refused", 2)


def test_refused_sign_ins_stand_in_the_services_own_log(house: House) -> None:
    person = Membership.objects.get(tenant=house.tenant, role="owner").person
    person.set_password(PASSWORD)
    person.save()
    for email in (person.email, "nobody@else.example"):
        assert call("POST", "/v1/sign-in", {"email": email, "password": "guess it at last"}).status == 401
    assert call("GET", "/v1/tenants", token="pso_guess").status == 401
    assert Client().post("/operator/sign-in", {"token": "pso_guess"}).status_code == 422
    found = {
        (entry.actor_kind, entry.actor_id, entry.action): entry.times for entry in chained(SYSTEM_TENANT)
    }
    assert found == {
        ("person", person.public_id, "sign_in.begin"): 1,
        ("anonymous", "127.0.0.1", "sign_in.begin"): 1,
        ("anonymous", "127.0.0.1", "operator.authenticate"): 2,
    }
    assert "nobody@else.example" not in json.dumps(
        list(queries.entries(SYSTEM_TENANT).values_list("actor_id", "after", "before"))
    )


def test_nothing_is_counted_for_a_tenant_that_the_caller_is_not_of(house: House) -> None:
    other = make_house("other")
    for standing in (Standing.OWNER, Standing.KEY, Standing.BILLING):
        token = other.credentials[standing]
        assert call("GET", "/v1/keys", token=token, tenant=house.tenant).status == 404
        assert call("POST", "/v1/topics", {"name": "x"}, token=token, tenant=house.tenant).status == 404
        assert call("GET", "/v1/keys", token=token, tenant="tn_none").status == 404
    client = Client()
    client.cookies["penstock"] = other.credentials[Standing.OWNER]
    assert client.get("/t/acme/audit").status_code == 404
    assert counted() == []


def test_who_knocks_at_an_operators_address_stands_in_their_keys_log_or_the_services(house: House) -> None:
    for standing in (Standing.KEY, Standing.OWNER):
        assert call("GET", "/v1/cluster/brokers", token=house.credentials[standing]).status == 403
    assert counted() == sorted(
        [
            (house.tenant.public_id, "refused", "key", "cluster.read", 1),
            (SYSTEM_TENANT, "refused", "person", "cluster.read", 1),
        ]
    )


def test_every_permission_has_an_action_whose_kind_is_found() -> None:
    named = {permission: audited.action_of(permission) for permission in Permission}
    assert named[Permission.KEYS_READ] == "key.read" and named[Permission.PEOPLE_WRITE] == "person.write"
    assert len(set(named.values())) == len(named)
    assert all(action.count(".") == 1 and len(action) <= 64 for action in named.values())


# -- what it costs ---------------------------------------------------------------------------------------


def test_counting_asks_no_database(house: House) -> None:
    billing = house.credentials[Standing.BILLING]
    call("GET", "/v1/audit", token=billing)  # what a process reads once
    with CaptureQueriesContext(connection) as caught:
        assert call("GET", "/v1/audit", token=billing).status == 403
    assert not any("audit" in query["sql"].lower() for query in caught.captured_queries)


def test_a_database_that_takes_no_counts_fails_no_request_and_loses_none(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise DatabaseError("the disk is full")

    billing = house.credentials[Standing.BILLING]
    assert call("GET", "/v1/audit", token=billing).status == 403
    with monkeypatch.context() as patched:
        patched.setattr(AuditTally.objects, "bulk_create", away)
        with pytest.raises(DatabaseError):
            writing.write_down(tallies())
    assert call("GET", "/v1/audit", token=billing).status == 403
    assert [entry.times for entry in chained(house.tenant.public_id)] in ([2], [1, 1])


# -- bounds ----------------------------------------------------------------------------------------------


def of(number: int) -> Actor:
    return Actor(kind=ActorKind.KEY, id=f"key_{number}", source="192.0.2.1")


def test_a_flood_of_many_actors_makes_a_bounded_number_of_entries(house: House) -> None:
    tenant = house.tenant.public_id
    processes = [Tallies(lambda: MINUTE) for _ in range(3)]
    for number in range(1_000):
        for process in processes:
            process.count(of(number), tenant=tenant, action="topic.write", outcome="refused")
            process.count(of(number), tenant=tenant, action="key.read", outcome="done")
    for process in processes:
        assert writing.write_down(process) <= AUDIT_TALLIES_MAX + 2
    before = queries.entries(tenant).count()
    assert chaining.chain_tallies(MINUTE + timedelta(seconds=89)) == 0
    assert chaining.chain_tallies(LATER) <= AUDIT_TALLIES_MAX + 2
    assert chaining.chain_tallies(LATER) == 0 and not AuditTally.objects.exists()
    added = list(queries.entries(tenant).order_by("sequence")[before:])
    assert sum(entry.times for entry in added if entry.outcome == "refused") == 3_000
    assert sum(entry.times for entry in added if entry.outcome == "done") == 3_000
    assert [entry.action for entry in added].count(MORE) == 2
    assert queries.first_break(tenant) is None


def test_one_tenants_flood_takes_no_rows_of_another() -> None:
    process = Tallies(lambda: MINUTE)
    for number in range(500):
        process.count(of(number), tenant="tn_flood", action="topic.write", outcome="refused")
    process.count(of(1), tenant="tn_quiet", action="topic.write", outcome="refused")
    rows = process.take()
    assert [one.action for one in rows if one.tenant == "tn_quiet"] == ["topic.write"]
    assert len(rows) == AUDIT_TALLIES_MAX + 2


def test_a_process_whose_database_is_away_keeps_a_bounded_number_of_rows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("control_plane.audit.tallies.ROWS_MAX", 10)
    process = Tallies(lambda: MINUTE)
    for number in range(30):
        process.count(of(1), tenant=f"tn_{number}", action="topic.write", outcome="refused")
    assert len(process.take()) == 10
    assert [record.__dict__["times"] for record in caplog.records] == [20]


def test_counts_of_threads_are_all_counted() -> None:
    process = Tallies(lambda: MINUTE)

    def count() -> None:
        for _ in range(2_000):
            process.count(of(1), tenant="tn_1", action="key.read", outcome="done")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [tally.times for tally in process.take().values()] == [8_000]


def test_refusals_are_kept_apart_before_reads_and_the_most_frequent_first() -> None:
    def row(number: int, outcome: str, times: int) -> tuple[Counted, Tally]:
        one = Counted(
            tenant="tn_1",
            minute=MINUTE,
            outcome=outcome,
            actor_kind="key",
            actor_id=f"key_{number:03d}",
            action="topic.write",
        )
        return one, Tally(times=times, request_id="", source="")

    rows = [row(n, "done", 1_000) for n in range(60)] + [row(n, "refused", n) for n in range(1, 40)]
    found = merged(rows)
    assert [tally.times for one, tally in found if one.outcome == "refused"] == list(range(39, 0, -1))
    rest = [(one.outcome, tally.times) for one, tally in found if one.is_rest]
    assert rest == [("done", (60 - (AUDIT_TALLIES_MAX - 39)) * 1_000)]
    assert sum(tally.times for _, tally in found) == sum(tally.times for _, tally in rows)


@pytest.mark.django_db(transaction=True)
def test_the_writers_thread_writes_what_is_left_when_it_is_stopped() -> None:
    process = Tallies(lambda: MINUTE)
    writer = writing.Writer(process, every_s=3_600.0)
    writer.start()
    process.count(of(1), tenant="tn_1", action="key.read", outcome="done")
    writer.stop(30.0)
    assert list(AuditTally.objects.values_list("tenant", "times")) == [("tn_1", 1)]
