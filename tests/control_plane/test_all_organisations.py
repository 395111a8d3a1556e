"""What operators see of organisations; no one else sees one that they do not belong to."""

import pytest
from django.test import Client

from tenants.models import Organisation
from tenants.roles import Standing
from tests.control_plane.world import House, call, make_house, make_organisation

pytestmark = pytest.mark.django_db


@pytest.fixture
def house() -> House:
    made = make_house("acme")
    make_organisation(made, "acme-group", owning=True)
    make_organisation(made, "umbrella", owning=False)
    return made


def named(house: House, query: str = "") -> list[str]:
    operator = house.credentials[Standing.OPERATOR]
    answer = call("GET", f"/v1/all-organisations{query}", token=operator)
    assert answer.status == 200, answer.body
    return sorted(one["name"] for one in answer.body["items"])


def test_an_operator_lists_all_organisations_and_searches_them(house: House) -> None:
    umbrella = Organisation.objects.get(name="umbrella")
    assert named(house) == ["acme-group", "umbrella"]
    assert named(house, "?q=ACME") == ["acme-group"]
    assert named(house, f"?q={umbrella.public_id}") == ["umbrella"]
    assert named(house, "?q=%25") == [], "a sign of patterns is a letter like each other"
    operator = house.credentials[Standing.OPERATOR]
    assert call("GET", "/v1/all-organisations?q=%00", token=operator).status == 400
    assert call("GET", f"/v1/all-organisations?q={'a' * 201}", token=operator).status == 400


def test_one_organisation_says_how_many_tenants_and_members_it_has(house: House) -> None:
    row = Organisation.objects.get(name="acme-group")
    operator = house.credentials[Standing.OPERATOR]
    shown = call("GET", f"/v1/all-organisations/{row.public_id}", token=operator)
    assert (shown.body["tenants"], shown.body["members"]) == (1, row.members.count())
    assert call("GET", "/v1/all-organisations/org_nothing", token=operator).status == 404


def test_no_one_else_may_ask_for_all_organisations(house: House) -> None:
    for standing in (Standing.OWNER, Standing.KEY):
        token = house.credentials[standing]
        for path in ("", f"/{Organisation.objects.get(name='acme-group').public_id}"):
            assert call("GET", f"/v1/all-organisations{path}", token=token).status == 403


def test_the_console_shows_operators_organisations_with_their_tenants_and_members(house: House) -> None:
    row = Organisation.objects.get(name="acme-group")
    client = Client()
    assert client.get("/operator/organisations").status_code == 302
    client.post("/operator/sign-in", {"token": house.credentials[Standing.OPERATOR]})
    listed = client.get("/operator/organisations?q=acme").content.decode()
    assert row.public_id in listed and "umbrella" not in listed
    page = client.get(f"/operator/organisations/{row.public_id}").content.decode()
    assert house.tenant.public_id in page and f'href="/operator/tenants/{house.tenant.public_id}"' in page
    member = row.members.select_related("person").first()
    assert member is not None and member.person.email in page
    assert client.get("/operator/organisations/org_nothing").status_code == 404
