"""Passwords, reset links, sign-ins and operators: what lets somebody in can be taken from them."""

import json
import re
import threading
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from control_plane.audit import queries as audit
from daemon import logs
from penstock.contract.errors import InvalidRequest, NotFound, PenstockError, Unauthenticated
from penstock.contract.ids import SYSTEM_TENANT
from tenants import actions, queries
from tenants.accounts import actions as accounts
from tenants.accounts import queries as account_queries
from tenants.models import OperatorToken, PasswordReset, Person, Session
from tenants.roles import Standing
from tenants.sign_in import actions as sign_ins
from tests.control_plane.world import ACTOR, PASSWORD, call, make_house
from tests.waiting import PATIENCE_S

NEW = "another horse, another battery"
EMAIL = "ann@example.com"


@pytest.fixture
def ann(db: None) -> Person:
    """Ann, who has signed up."""
    person, _, _ = actions.sign_up(
        email=EMAIL,
        password=PASSWORD,
        tenant_name="acme",
        request_id="r1",
        source="192.0.2.1",
        browser="curl/8",
    )
    return person


def sign_in(password: str = PASSWORD) -> str:
    """The token of another sign-in of Ann's."""
    return sign_ins.sign_in(email=EMAIL, password=password, source="192.0.2.2", browser="Firefox")[1]


def recorded(person: Person) -> list[str]:
    """What the service's own audit log says was done with the person, in its order."""
    of_person = audit.entries(SYSTEM_TENANT).filter(object_id=person.public_id)
    return list(of_person.order_by("sequence").values_list("action", flat=True))


def reread(person: Person) -> Person:
    return Person.objects.get(pk=person.pk)


# -- passwords ------------------------------------------------------------------------------------------


def test_a_new_password_ends_every_other_sign_in_and_the_old_one(ann: Person) -> None:
    here, there = sign_in(), sign_in()
    _, link = accounts.make_reset(ACTOR, ann)
    answer = call("POST", "/v1/password", {"present": PASSWORD, "new": NEW}, token=here)
    assert answer.status == 204, answer.body
    assert queries.person_of_session(here) == ann
    assert queries.person_of_session(there) is None
    with pytest.raises(Unauthenticated):
        sign_in()
    assert sign_in(NEW)
    with pytest.raises(NotFound):
        account_queries.reset_of(link)
    entry = audit.entries(SYSTEM_TENANT).get(object_id=ann.public_id, action="person.password")
    assert entry.actor_id == ann.public_id
    assert entry.after == {"name": EMAIL, "sign_ins_ended": 2}
    assert audit.first_break(SYSTEM_TENANT) is None


@pytest.mark.parametrize(
    ("present", "new", "field"),
    [("a wrong one", NEW, "present"), (PASSWORD, "short", "new"), (PASSWORD, EMAIL, "new")],
)
def test_a_password_is_not_changed_without_the_present_one_or_to_one_that_is_easily_guessed(
    ann: Person, present: str, new: str, field: str
) -> None:
    here, there = sign_in(), sign_in()
    answer = call("POST", "/v1/password", {"present": present, "new": new}, token=here)
    assert answer.status == 400 and answer.body["detail"].startswith(f"{field}: "), answer.body
    assert queries.person_of_session(there) == ann
    assert sign_in()
    assert recorded(ann) == []


def test_guessing_the_present_password_is_slowed_down(ann: Person) -> None:
    here = sign_in()
    statuses = [
        call("POST", "/v1/password", {"present": "wrong", "new": NEW}, token=here).status for _ in range(70)
    ]
    assert set(statuses) == {400, 429}


def test_a_sign_in_with_a_password_that_is_changed_meanwhile_is_refused(
    ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_and_change(password: str, hashed: str, *, source: str) -> bool:
        Person.objects.filter(pk=ann.pk).update(password="changed by somebody else")
        return True

    monkeypatch.setattr(sign_ins, "is_password", check_and_change)
    with pytest.raises(Unauthenticated):
        sign_in()


def test_a_reset_link_works_once_and_ends_every_sign_in(ann: Person) -> None:
    there = sign_in()
    row, link = accounts.make_reset(ACTOR, ann)
    assert link not in repr(PasswordReset.objects.values()) and link.startswith("psr_")
    assert row.expires_at <= timezone.now() + accounts.RESET_LENGTH
    with pytest.raises(InvalidRequest):
        accounts.reset_password(link, new="short", request_id="r", source="192.0.2.9")
    assert accounts.reset_password(link, new=NEW, request_id="r", source="192.0.2.9") == ann
    assert queries.person_of_session(there) is None
    assert sign_in(NEW)
    with pytest.raises(NotFound):
        accounts.reset_password(link, new=NEW, request_id="r", source="192.0.2.9")
    assert recorded(ann) == ["person.reset_link", "person.password"]


def test_a_reset_link_ends_with_its_time_and_with_a_newer_one(ann: Person) -> None:
    _, first = accounts.make_reset(ACTOR, ann)
    _, second = accounts.make_reset(ACTOR, ann)
    with pytest.raises(NotFound):
        account_queries.reset_of(first)
    PasswordReset.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(NotFound):
        account_queries.reset_of(second)


def test_a_reset_link_is_not_in_the_logs(ann: Person) -> None:
    _, link = accounts.make_reset(ACTOR, ann)
    assert link[4:] not in logs.without_secrets(json.dumps({"path": f"/reset/{link}"}))


def test_operators_make_a_link_with_a_command(ann: Person) -> None:
    out = StringIO()
    call_command("resetlink", EMAIL.upper(), stdout=out)
    link = out.getvalue().strip()
    assert account_queries.reset_of(link.rpartition("/")[2]).person == ann
    assert re.fullmatch(r"http://127\.0\.0\.1:8080/reset/psr_[0-9A-Za-z]{43}", link)
    with pytest.raises(CommandError, match="no person of the address"):
        call_command("resetlink", "nobody@example.com")


# -- sign-ins -------------------------------------------------------------------------------------------


def test_sign_ins_are_listed_with_time_address_and_browser_and_end_one_by_one(ann: Person) -> None:
    here, there = sign_in(), sign_in()
    listed = call("GET", "/v1/sign-ins", token=here).body["items"]
    assert [(row["address"], row["browser"], row["current"]) for row in listed] == [
        ("192.0.2.1", "curl/8", False),
        ("192.0.2.2", "Firefox", True),
        ("192.0.2.2", "Firefox", False),
    ]
    assert here not in repr(listed) and there not in repr(listed)
    assert call("DELETE", f"/v1/sign-ins/{listed[2]['id']}", token=here).status == 204
    assert queries.person_of_session(there) is None
    assert call("DELETE", f"/v1/sign-ins/{listed[2]['id']}", token=here).status == 404
    assert recorded(ann) == ["sign_in.end"]


def test_all_other_sign_ins_end_at_once(ann: Person) -> None:
    here, there = sign_in(), sign_in()
    assert call("DELETE", "/v1/sign-ins", token=here).status == 204
    assert queries.person_of_session(here) == ann and queries.person_of_session(there) is None
    assert Session.objects.count() == 1
    assert call("DELETE", "/v1/sign-ins", token=here).status == 204
    assert recorded(ann) == ["sign_in.end_others"], "where nothing ended nothing is told"


def test_another_persons_sign_in_is_not_found(ann: Person) -> None:
    _, _, bob = actions.sign_up(
        email="bob@example.com", password=PASSWORD, tenant_name="other", request_id="r", source="192.0.2.3"
    )
    (row,) = account_queries.sign_ins(ann)
    assert call("DELETE", f"/v1/sign-ins/{row.public_id}", token=bob).status == 404
    assert account_queries.sign_ins(ann).count() == 1


def test_a_sign_in_tells_where_it_came_from(ann: Person) -> None:
    given = {"email": EMAIL, "password": PASSWORD}
    token = call("POST", "/v1/sign-in", given, User_Agent="agent " * 100).body["token"]
    row = next(row for row in account_queries.sign_ins(ann) if account_queries.is_of_token(row, token))
    assert row.source == "127.0.0.1" and row.browser == ("agent " * 100)[:200]


# -- operators ------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_last_operator_is_not_revoked() -> None:
    olga = actions.create_operator(ACTOR, name="olga", tenant=SYSTEM_TENANT)
    pete = actions.create_operator(ACTOR, name="pete", tenant=SYSTEM_TENANT)
    first, second = (row.public_id for row in queries.operators().order_by("pk"))
    out = StringIO()
    call_command("revokeoperator", stdout=out)
    assert [line.split("\t")[:2] for line in out.getvalue().splitlines()] == [
        [first, "olga"],
        [second, "pete"],
    ]
    call_command("revokeoperator", first)
    assert queries.operator_of(olga) is None and queries.operator_of(pete) is not None
    call_command("revokeoperator", first)
    with pytest.raises(CommandError, match="pete is the last one"):
        call_command("revokeoperator", second)
    with pytest.raises(CommandError, match="does not exist"):
        call_command("revokeoperator", "opr_none")
    assert queries.operator_of(pete) is not None
    assert [
        entry.action for entry in audit.entries(SYSTEM_TENANT).filter(object_id=first).order_by("sequence")
    ] == [
        "operator.create",
        "operator.revoke",
    ]


@pytest.mark.django_db(transaction=True)
def test_two_operators_who_revoke_each_other_at_once_do_not_both_succeed() -> None:
    for name in ("olga", "pete"):
        actions.create_operator(ACTOR, name=name, tenant=SYSTEM_TENANT)
    ids = [row.public_id for row in queries.operators().order_by("pk")]
    together = threading.Barrier(2)
    refused: list[str] = []

    def revoke(public_id: str) -> None:
        try:
            together.wait(PATIENCE_S)
            actions.revoke_operator(ACTOR, public_id=public_id, tenant=SYSTEM_TENANT)
        except PenstockError as error:
            refused.append(error.message)
        finally:
            connection.close()

    threads = [threading.Thread(target=revoke, args=(public_id,)) for public_id in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(refused) == 1 and "is the last one" in refused[0]
    assert OperatorToken.objects.filter(revoked_at=None).count() == 1


# -- who calls ------------------------------------------------------------------------------------------


def test_a_caller_hears_who_they_are_until_when_and_with_which_role_where(db: None) -> None:
    house = make_house("acme")
    tenant = {"id": house.tenant.public_id, "name": "acme"}
    person = call("GET", "/v1/whoami", token=house.credentials[Standing.BILLING]).body
    session = Session.objects.get(person__email="billing@acme.example")
    assert (person["kind"], person["name"]) == ("person", "billing@acme.example")
    assert person["expires_at"] == session.expires_at.isoformat()
    assert (person["tenants"], person["tenants_count"]) == ([{**tenant, "role": "billing"}], 1)
    key = call("GET", "/v1/whoami", token=house.credentials[Standing.BOUND_KEY]).body
    assert (key["kind"], key["name"], key["expires_at"]) == ("key", "bound", None)
    assert key["tenants"] == [{**tenant, "role": None}]
    operator = call("GET", "/v1/whoami", token=house.credentials[Standing.OPERATOR]).body
    assert (operator["kind"], operator["name"], operator["tenants"]) == ("operator", "op", [])
    assert call("GET", "/v1/whoami").status == 401
