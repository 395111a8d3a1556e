"""The audit log of an organisation: searched, exported, checked, over REST and in the console."""

import json

import pytest
from django.db import transaction
from django.test import Client

from control_plane.audit.actions import record
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from control_plane.audit.queries import head
from control_plane.audit.tallies import tallies
from penstock.contract.audit_entries import ChainCheck
from tenants.models import Membership, Organisation, OrganisationMember, Person
from tenants.organisations import actions
from tenants.roles import OrganisationRole, Role, Standing
from tests.control_plane.world import House, call, make_house, make_organisation, make_person

pytestmark = pytest.mark.django_db


@pytest.fixture
def house() -> House:
    return make_house("acme")


def acting(person: Person) -> Actor:
    return Actor(kind=ActorKind.PERSON, id=person.public_id)


def owner_of(house: House) -> Person:
    return Membership.objects.get(tenant=house.tenant, role=Role.OWNER).person


@pytest.fixture
def logged(house: House) -> Organisation:
    """What its owner and a member changed, and what the member was refused."""
    owner, (zoe, _) = owner_of(house), make_person("zoe@else.example")
    organisation = make_organisation(house, "acme-group", owning=True)
    OrganisationMember.objects.create(organisation=organisation, person=zoe, role=OrganisationRole.BILLING)
    actions.change(acting(owner), organisation, name="acme-group", display_name="Acme Group")
    actions.change_role(acting(owner), organisation, zoe.public_id, role="auditor")
    with transaction.atomic():
        record(
            acting(zoe),
            tenant=organisation.public_id,
            action="member.write",
            object_id="",
            outcome="refused",
        )
    return organisation


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["organisation.update", "member.role", "member.write"]),
        ("order=newest", ["member.write", "member.role", "organisation.update"]),
        ("outcome=refused", ["member.write"]),
        ("kind=member&outcome=done", ["member.role"]),
        ("action=organisation.update", ["organisation.update"]),
        ("object=ORGANISATION", ["organisation.update"]),
        ("actor=OWNER", ["organisation.update", "member.role"]),
        ("to=2020-01-01", []),
        ("from=2020-01-01&to=2999-01-01&kind=organisation", ["organisation.update"]),
    ],
)
def test_the_log_of_an_organisation_is_searched(
    logged: Organisation, house: House, query: str, found: list[str]
) -> None:
    owner = owner_of(house).public_id
    asked = query.replace("ORGANISATION", logged.public_id).replace("OWNER", owner)
    answer = call(
        "GET",
        f"/v1/organisations/{logged.public_id}/audit?{asked}",
        token=house.credentials[Standing.AUDITOR],
    )
    assert [entry["action"] for entry in answer.body["items"]] == found


def test_an_exported_log_of_an_organisation_is_verified_without_the_service(
    logged: Organisation, house: House
) -> None:
    path, auditor = f"/v1/organisations/{logged.public_id}/audit/export", house.credentials[Standing.AUDITOR]
    check = ChainCheck(logged.public_id)
    for after in (0, 2):
        answer = call("GET", f"{path}?after={after}&limit=2", token=auditor)
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        assert [check.problem(json.loads(line)) for line in answer.body.splitlines()] == [""] * (
            1 if after else 2
        )
    assert (check.sequence, check.hash) == head(logged.public_id)
    assert call("GET", path, token=house.credentials[Standing.BILLING]).status == 403
    assert call("GET", path, token=make_house("umbrella").credentials[Standing.OWNER]).status == 404
    for wrong in ("after=-1", "limit=0", "limit=10001", "after=1&after=2"):
        assert call("GET", f"{path}?{wrong}", token=auditor).status == 400, wrong


def test_who_reads_exports_or_may_not_read_the_log_of_an_organisation_stands_in_it(
    logged: Organisation, house: House
) -> None:
    path = f"/v1/organisations/{logged.public_id}/audit"
    tallies().take()
    for asked in ("", "/export"):
        assert call("GET", path + asked, token=house.credentials[Standing.AUDITOR]).status == 200
        assert call("GET", path + asked, token=house.credentials[Standing.BILLING]).status == 403
    browser = Client()
    for page in ("audit", "audit/chain"):
        browser.cookies["penstock"] = house.credentials[Standing.AUDITOR]
        assert browser.get(f"/o/acme-group/{page}").status_code == 200
        browser.cookies["penstock"] = house.credentials[Standing.BILLING]
        assert browser.get(f"/o/acme-group/{page}").status_code == 403
    counted = {(one.tenant, one.action, one.outcome): tally.times for one, tally in tallies().take().items()}
    assert counted == {
        (logged.public_id, "audit.read", "done"): 4,
        (logged.public_id, "audit.read", "refused"): 4,
    }


def test_the_console_shows_the_log_of_an_organisation_and_checks_it(
    logged: Organisation, house: House
) -> None:
    browser = Client()
    browser.cookies["penstock"] = house.credentials[Standing.AUDITOR]
    assert "/o/acme-group/audit" in browser.get("/o/acme-group").content.decode()
    page = browser.get("/o/acme-group/audit?action=member.role").content.decode()
    assert "member.role</strong>" in page and "organisation.update</strong>" not in page
    assert "owner@acme.example" in page
    by_address = browser.get("/o/acme-group/audit?actor=owner@acme.example").content.decode()
    assert "organisation.update</strong>" in by_address and "member.write</strong>" not in by_address
    assert browser.get("/o/acme-group/audit?from=yesterday").status_code == 422
    intact = browser.get("/o/acme-group/audit/chain").content.decode()
    assert "3 entries, the chain is intact" in intact and "verify-export --expect" in intact
    AuditEntry.objects.filter(tenant=logged.public_id, sequence=2).update(actor_id="usr_other")
    assert "the chain breaks at entry 2" in browser.get("/o/acme-group/audit/chain").content.decode()
    browser.cookies["penstock"] = house.credentials[Standing.BILLING]
    assert "/o/acme-group/audit" not in browser.get("/o/acme-group").content.decode()
    for page in ("/o/acme-group/audit", "/o/acme-group/audit/chain"):
        assert browser.get(page).status_code == 403
