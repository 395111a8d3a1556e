"""How many tenants a person owns is bounded, also when several are made at once, and by one that is suspended."""

import threading
from collections.abc import Callable
from functools import partial
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from control_plane.audit import queries as audit
from control_plane.audit.actor import Actor, ActorKind
from control_plane.outbox import in_request
from penstock.contract.errors import InvalidRequest, LimitExceeded, PenstockError
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.limits import TENANTS_PER_PERSON_MAX
from tenants import actions, queries
from tenants.accounts import actions as accounts
from tenants.models import Membership, Person, Tenant
from tenants.people import actions as people
from tests.control_plane.world import ACTOR, call, make_person
from tests.waiting import PATIENCE_S

EMAIL = "ann@example.com"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker runs here, so no request tries to deliver."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


def acting(person: Person) -> Actor:
    return Actor(kind=ActorKind.PERSON, id=person.public_id, request_id="r", source="192.0.2.1")


def make(person: Person, number: int) -> Tenant:
    return actions.create_tenant(acting(person), name=f"{person.email[:3]}-{number}", owner=person)


@pytest.fixture
def ann(db: None) -> tuple[Person, str]:
    """Ann and a session of hers; she owns no tenant."""
    return make_person(EMAIL)


@pytest.fixture
def full(ann: tuple[Person, str]) -> tuple[Person, str]:
    """Ann with as many tenants as she may own."""
    for number in range(TENANTS_PER_PERSON_MAX):
        make(ann[0], number)
    return ann


def test_one_tenant_more_is_refused_by_a_problem_that_names_the_limit(full: tuple[Person, str]) -> None:
    person, token = full
    answer = call("POST", "/v1/tenants", {"name": "more"}, token=token)
    assert answer.status == 422 and answer.body["code"] == "limit_exceeded"
    assert (
        f"owns {TENANTS_PER_PERSON_MAX} tenants, and tenants_max is {TENANTS_PER_PERSON_MAX}"
        in answer.body["detail"]
    )
    assert not Tenant.objects.filter(name="more").exists()
    assert queries.tenants_owned(person).count() == TENANTS_PER_PERSON_MAX


def test_the_form_says_so_too(full: tuple[Person, str]) -> None:
    client = Client()
    client.cookies["penstock"] = full[1]
    answer = client.post("/new-tenant", {"tenant": "more"})
    assert answer.status_code == 422 and "tenants_max is 10" in answer.content.decode()


def test_an_operator_raises_the_limit(full: tuple[Person, str]) -> None:
    person, token = full
    operator = Client()
    operator.post(
        "/operator/sign-in", {"token": actions.create_operator(ACTOR, name="o", tenant=SYSTEM_TENANT)}
    )
    page = f"/operator/people/{person.public_id}"
    assert 'value="10"' in operator.get(page).content.decode()
    assert operator.post(f"{page}/limit", {"tenants_max": "many"}).status_code == 422
    assert operator.post(f"{page}/limit", {"tenants_max": "11"})["Location"] == page
    assert call("POST", "/v1/tenants", {"name": "more"}, token=token).status == 202
    assert call("POST", "/v1/tenants", {"name": "still-more"}, token=token).status == 422
    call_command("tenantlimit", EMAIL, "12")
    assert call("POST", "/v1/tenants", {"name": "still-more"}, token=token).status == 202
    told = audit.entries(SYSTEM_TENANT).filter(action="person.limit", object_id=person.public_id)
    assert [(e.actor_kind, e.before, e.after["tenants_max"]) for e in told.order_by("sequence")] == [
        ("operator", {"tenants_max": 10}, 11),
        ("system", {"tenants_max": 11}, 12),
    ]


def test_a_limit_has_bounds_and_takes_nothing_away(full: tuple[Person, str]) -> None:
    person, token = full
    for wrong in (-1, accounts.TENANTS_MAX_LIMIT + 1):
        with pytest.raises(InvalidRequest):
            accounts.set_tenants_max(ACTOR, person, tenants_max=wrong)
    accounts.set_tenants_max(ACTOR, person, tenants_max=0)
    assert queries.tenants_owned(person).count() == TENANTS_PER_PERSON_MAX
    assert call("POST", "/v1/tenants", {"name": "more"}, token=token).status == 422
    with pytest.raises(CommandError, match="no person of the address"):
        call_command("tenantlimit", "nobody@example.com", "3", stdout=StringIO())


def test_limits_of_people_are_for_operators(ann: tuple[Person, str]) -> None:
    client = Client()
    client.cookies["penstock"] = ann[1]
    answer = client.post(f"/operator/people/{ann[0].public_id}/limit", {"tenants_max": "99"})
    assert answer["Location"] == "/operator/sign-in"
    assert Person.objects.get(pk=ann[0].pk).tenants_max is None


def test_none_is_made_while_one_is_suspended_and_the_others_go_on(ann: tuple[Person, str]) -> None:
    person, token = ann
    first, second = make(person, 1), make(person, 2)
    actions.set_suspended(ACTOR, first, True)
    answer = call("POST", "/v1/tenants", {"name": "more"}, token=token)
    assert answer.status == 403 and first.name in answer.body["detail"]
    assert not Tenant.objects.get(pk=second.pk).suspended
    actions.set_suspended(ACTOR, first, False)
    assert call("POST", "/v1/tenants", {"name": "more"}, token=token).status == 202


def test_a_suspended_tenant_that_another_owns_is_no_reason(ann: tuple[Person, str]) -> None:
    person, token = ann
    other = actions.create_tenant(ACTOR, name="others")
    Membership.objects.create(tenant=other, person=person, role="developer")
    actions.set_suspended(ACTOR, other, True)
    assert call("POST", "/v1/tenants", {"name": "more"}, token=token).status == 202


def test_who_owns_as_many_as_they_may_is_not_made_an_owner(full: tuple[Person, str]) -> None:
    person, _ = full
    bob, _ = make_person("bob@example.com")
    tenant = make(bob, 1)
    _, token = people.invite(acting(bob), tenant, email=EMAIL, role="owner")
    with pytest.raises(LimitExceeded):
        people.join(acting(person), person, token)
    _, token = people.invite(acting(bob), tenant, email=EMAIL, role="admin")
    people.join(acting(person), person, token)
    with pytest.raises(LimitExceeded):
        people.change_role(acting(bob), tenant, person.public_id, role="owner")
    accounts.set_tenants_max(ACTOR, person, tenants_max=11)
    people.change_role(acting(bob), tenant, person.public_id, role="owner")


@pytest.mark.django_db(transaction=True)
def test_tenants_that_are_made_at_once_do_not_pass_the_limit() -> None:
    person, _ = make_person(EMAIL)
    bob, _ = make_person("bob@example.com")
    shared = make(bob, 1)
    Membership.objects.create(tenant=shared, person=person, role="admin")
    for number in range(TENANTS_PER_PERSON_MAX - 1):
        make(person, number)
    attempts: list[Callable[[], object]] = [partial(make, person, 100 + number) for number in range(5)]
    attempts.append(lambda: people.change_role(acting(bob), shared, person.public_id, role="owner"))
    together = threading.Barrier(len(attempts))
    refused: list[PenstockError] = []

    def attempt(act: Callable[[], object]) -> None:
        try:
            together.wait(PATIENCE_S)
            act()
        except PenstockError as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=attempt, args=(act,)) for act in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert queries.tenants_owned(person).count() == TENANTS_PER_PERSON_MAX
    assert len(refused) == len(attempts) - 1 and {type(error) for error in refused} == {LimitExceeded}
