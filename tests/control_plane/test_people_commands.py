"""`penstock people`, `sign-in`, and names where ids are taken, over the real REST interface."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from control_plane.access import list_actions
from penstock.cli.__main__ import run
from tenants import actions
from tenants.models import ApiKey, Invitation, Session
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, PASSWORD, House, make_house

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def house(transactional_db: None) -> House:
    return make_house("acme")


@pytest.fixture
def command(
    house: House,
    live_server: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """A line `penstock …` as the tenant's owner: exit code, and both streams."""
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.OWNER])
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "profiles.toml"))
    monkeypatch.setenv("PENSTOCK_OPERATOR_TOKEN", house.credentials[Standing.OPERATOR])

    def call(line: str) -> tuple[int, str, str]:
        code = run(line.split())
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_people_are_listed_invited_given_roles_and_removed_by_their_addresses(command: Command) -> None:
    rows = [row.split("\t")[1:4] for row in command("people list")[1].splitlines()]
    assert ["developer@acme.example", "developer", "no"] in rows
    assert (
        command("people role developer@acme.example auditor")[2] == "developer@acme.example is auditor now.\n"
    )
    assert command("people remove developer@acme.example")[0] == 2, "it asks before"
    assert command("people remove developer@acme.example --yes")[0] == 0
    assert command("people role developer@acme.example owner")[0] == 3

    code, link, said = command("people invite new@else.example billing")
    assert code == 0 and "/join/" in link and "joins as billing with this link" in said
    assert command("people invitations")[1].split("\t")[1:3] == ["new@else.example", "billing"]
    assert command("people withdraw new@else.example")[0] == 0
    assert not Invitation.objects.filter(ended_at=None).exists()
    assert "No invitations wait" in command("people invitations")[2]


def test_a_person_joins_with_the_link_of_an_invitation(
    command: Command, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = command("people invite ann@else.example developer")[1].strip()
    _, _, token = actions.sign_up(
        email="ann@else.example", password=PASSWORD, tenant_name="anns", request_id="", source=""
    )
    monkeypatch.setenv("PENSTOCK_API_KEY", token)
    code, _, said = command(f"people join {link}")
    assert code == 0 and f"developer of {house.tenant.public_id}" in said


def test_sign_ins_are_listed_and_ended(command: Command, house: House) -> None:
    person = Session.objects.get(person__email="owner@acme.example").person
    other = Session.objects.create(
        person=person,
        token_hash="other",
        source="192.0.2.1",
        browser="curl/8",
        expires_at="2100-01-01T00:00:00Z",
    )
    rows = json.loads(command("sign-in list --json")[1])["sign_ins"]
    assert {row["id"]: row["current"] for row in rows}[other.public_id] is False
    assert command("sign-in end")[0] == 2
    assert command(f"sign-in end {other.public_id}")[0] == 0
    assert command("sign-in end --others")[0] == 0
    assert Session.objects.filter(person=person).count() == 1


def test_names_are_taken_where_ids_are(command: Command, house: House) -> None:
    account = list_actions.create_account(ACTOR, house.tenant, name="till")
    for line in (
        "limits set till --requests-per-s 5",
        "limits show till",
        "key create --name shop --service-account till",
        "key create --name web",
        "key rotate web",
        "principal-group create payments --member service_account:till",
        "principal-group members payments person:owner@acme.example",
        "access allow group:payments --on topic:orders",
        "access allow service_account:till --on topic:orders",
        "access check --principal service_account:till --operation consume --on topic:orders",
        "webhook create siem --url https://siem.example.com/penstock",
        "webhook show siem",
        "webhook change siem --state off",
        "webhook delete siem --yes",
        "key revoke shop --yes",
        "organisation create group",
        "organisation members group",
        "organisation rename group --display-name Group",
        "organisation audit head group",
        "organisation delete group --yes",
    ):
        code, _, said = command(line)
        assert code == 0, f"{line}: {said}"
    assert ApiKey.objects.get(name="shop").revoked_at is not None
    assert command("limits show nowhere")[0] == 3
    code, _, said = command("key revoke web --yes")
    assert code == 5 and "there are 2, name one by its id: key_" in said, "the rotated one and the new one"
    assert command(f"service-account delete {account.name} --yes")[0] == 0


def test_an_operator_suspends_resumes_and_puts_a_tenant_on_a_published_plan(
    command: Command, house: House, tmp_path: Path
) -> None:
    tenant = house.tenant.public_id
    assert command(f"tenant suspend {tenant}")[0] == 2, "it asks before"
    assert command(f"tenant suspend {tenant} --yes")[1] == "acme is suspended\n"
    assert command(f"tenant resume {tenant}")[1] == "acme is suspended no more\n"
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"name": "special", "limits": {"topics_max": 77}}))
    assert command(f"tenant publish-plan {plan}")[2] == "Plan special has version 1.\n"
    code, _, said = command(f"tenant set-plan {tenant} special")
    assert (code, said) == (0, f"{tenant} is on special (version 1).\n")
    assert json.loads(command("tenant show --json")[1])["quotas"]["topics_max"] == 77
