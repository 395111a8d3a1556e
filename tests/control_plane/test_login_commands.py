"""`penstock login`, `logout` and `whoami` over the real REST interface, and commands that speak as the person."""

import io
import json
import os
import pty
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.__main__ import run
from penstock.rest.client import RestClient
from tenants import actions
from tenants.models import Session
from tests.control_plane.accounts.test_factors_over_rest import add_codes
from tests.control_plane.world import ACTOR, PASSWORD
from tests.one_time_codes import code_of
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

EMAIL = "ann@example.com"

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "profiles.toml"
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(path))
    for name in ("PENSTOCK_PROFILE", "PENSTOCK_BOOTSTRAP", "PENSTOCK_API_KEY", "PENSTOCK_API_URL"):
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture
def service(transactional_db: None, live_server: Any) -> str:
    return str(live_server.url)


@pytest.fixture
def token(service: str) -> str:
    """A token of Ann, who has signed up and owns the tenant `acme`."""
    with RestClient(service) as rest:
        made = rest.post("/v1/sign-up", {"email": EMAIL, "password": PASSWORD, "tenant": "acme"})
        return str(made["token"])


@pytest.fixture
def key(service: str, token: str, file: Path) -> str:
    """A key of the tenant, in the profile that is used."""
    with RestClient(service, token) as rest:
        text = str(rest.post("/v1/keys", {"name": "till"})["key"])
    file.write_text(
        f'# mine\n[default]\napi_url = "{service}"\napi_key = "{text}"  # the till\n\n[other]\ncolor = "red"\n'
    )
    return text


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`penstock …` with these lines on the standard input: exit code, and what stands on both streams."""

    def call(*arguments: str, lines: str = "") -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        code = run(list(arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def sign_in(command: Command, *arguments: str, lines: str = PASSWORD) -> tuple[int, str, str]:
    return command("login", "--email", EMAIL, "--password-stdin", *arguments, lines=lines + "\n")


def kept(file: Path, profile: str = "default") -> dict[str, str]:
    fields: dict[str, str] = tomllib.loads(file.read_text())[profile].get("sign_in", {})
    return fields


def status_of(service: str, token: str) -> bool:
    with RestClient(service, token) as rest:
        try:
            rest.get("/v1/whoami")
        except Exception:
            return False
    return True


def test_a_person_signs_in_is_shown_does_what_no_key_may_and_signs_out(
    service: str, key: str, file: Path, command: Command
) -> None:
    before = file.read_text()
    assert command("audit", "list")[0] == 4
    code, _, said = sign_in(command)
    assert (
        code == 0
        and said.startswith(f"Signed in as {EMAIL}, owner of acme, until 2")
        and PASSWORD not in said
    )
    assert file.stat().st_mode & 0o777 == 0o600
    assert [line for line in file.read_text().splitlines() if "sign_in" not in line] == before.splitlines()
    token = kept(file)["token"]
    assert token not in said

    code, out, _ = command("whoami", "--json")
    me = json.loads(out)
    assert (code, me["kind"], me["name"], me["messages_with"]) == (0, "person", EMAIL, "key")
    assert [(tenant["name"], tenant["role"]) for tenant in me["tenants"]] == [("acme", "owner")]
    assert me["expires_at"] == kept(file)["ends_at"]
    assert command("whoami")[1].splitlines()[2].split("\t")[2:] == [me["tenant"], "owner", "used"]
    for line in (
        ["audit", "list"],
        ["webhook", "list"],
        ["budget", "list"],
        ["organisation", "list"],
        ["topic", "list"],
    ):
        assert command(*line)[0] == 0, line
    with RestClient(service, token) as rest:
        (mine,) = [row for row in rest.items("/v1/sign-ins") if row["current"]]
    assert mine["browser"].startswith("penstock ")

    code, _, said = command("logout")
    assert (code, said) == (0, f"{EMAIL} is signed out.\n")
    assert file.read_text() == before
    assert not status_of(service, token)
    assert json.loads(command("whoami", "--json")[1])["name"] == "till"
    assert command("logout")[0] == 3


def test_a_second_factor_is_given_on_the_next_line(
    service: str, token: str, file: Path, command: Command
) -> None:
    secret, _ = add_codes(token)
    code, _, said = sign_in(command, "--api-url", service)
    assert code == 4 and "a code of your app or a recovery code" in said
    code, _, said = sign_in(command, "--api-url", service, lines=f"{PASSWORD}\n000000")
    assert code == 4 and "it is wrong" in said
    assert not file.exists()
    code, out, _ = sign_in(command, "--api-url", service, "--json", lines=f"{PASSWORD}\n{code_of(secret)}")
    assert code == 0 and json.loads(out)["tenant"]["name"] == "acme"
    assert status_of(service, kept(file)["token"])


def test_signing_in_again_ends_the_sign_in_before(
    service: str, key: str, file: Path, command: Command
) -> None:
    sign_in(command)
    first = kept(file)["token"]
    sign_in(command)
    assert not status_of(service, first) and status_of(service, kept(file)["token"])


def test_a_sign_in_that_ended_leaves_the_key_and_says_so(key: str, file: Path, command: Command) -> None:
    sign_in(command)
    file.write_text(file.read_text().replace(kept(file)["ends_at"], "2026-01-01T00:00:00+00:00"))
    code, out, said = command("whoami")
    assert code == 0 and out.startswith("caller\tkey\ttill\t")
    assert f"the sign-in of {EMAIL} ended" in said and "penstock login" in said
    file.write_text("\n".join(line for line in file.read_text().splitlines() if "api_key" not in line))
    code, _, said = command("topic", "list")
    assert code == 5 and "penstock login" in said


def test_a_sign_in_that_was_ended_elsewhere_is_refused_with_the_remedy(
    key: str, file: Path, command: Command
) -> None:
    sign_in(command)
    Session.objects.all().delete()
    code, _, said = command("audit", "list")
    assert code == 4 and "penstock login" in said
    assert command("logout")[0] == 0, "it is forgotten"
    assert not kept(file)


def test_the_key_of_the_environment_goes_before_the_sign_in(
    key: str, file: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", key)
    assert "PENSTOCK_API_KEY is set here" in sign_in(command)[2]
    assert json.loads(command("whoami", "--json")[1])["kind"] == "key"


def test_a_token_goes_to_the_service_that_made_it_alone(
    service: str, key: str, file: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(command)
    monkeypatch.setenv("PENSTOCK_API_URL", service.replace("localhost", "127.0.0.1"))
    assert json.loads(command("whoami", "--json")[1])["kind"] == "key"


def test_a_person_with_several_tenants_names_one(
    service: str, token: str, file: Path, command: Command
) -> None:
    person = Session.objects.get().person
    second = actions.create_tenant(ACTOR, name="beta", owner=person)
    code, _, said = sign_in(command, "--api-url", service)
    assert code == 2 and "--tenant" in said and "acme, beta" in said
    assert Session.objects.count() == 1, "no sign-in is left open"
    assert sign_in(command, "--api-url", service, "--tenant", "gamma")[0] == 3
    assert sign_in(command, "--api-url", service, "--tenant", "beta")[0] == 0
    assert json.loads(command("tenant", "show", "--json")[1])["quotas"]["tenant"] == second.public_id


def test_a_profile_is_for_the_tenant_of_its_key(service: str, key: str, file: Path, command: Command) -> None:
    with RestClient(service) as rest:
        rest.post("/v1/sign-up", {"email": "bob@example.com", "password": PASSWORD, "tenant": "bobs"})
    code, _, said = command("login", "--email", "bob@example.com", "--password-stdin", lines=PASSWORD)
    assert code == 3 and "to which the profile's key belongs" in said
    assert not kept(file)


def test_a_wrong_password_is_refused_and_changes_nothing(key: str, file: Path, command: Command) -> None:
    before = file.read_text()
    code, _, said = sign_in(command, lines="wrong")
    assert code == 4 and "the e-mail address or the password is wrong" in said
    assert file.read_text() == before
    assert command("login", "--email", EMAIL)[0] == 2, "there is no terminal to ask on"


def test_a_terminal_is_asked_for_address_and_password(service: str, token: str, file: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", "login", "--api-url", service],
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as program:
        os.close(theirs)
        shown = b""
        for question, answer in ((b"E-mail address: ", EMAIL), (b"Password: ", PASSWORD)):
            while question not in shown:
                shown += os.read(ours, 4096)
            os.write(ours, f"{answer}\n".encode())
        assert program.wait(PATIENCE_S) == 0
    shown += os.read(ours, 4096)
    os.close(ours)
    assert PASSWORD.encode() not in shown
    assert status_of(service, kept(file)["token"])


def test_a_signed_in_owner_is_not_judged_as_the_profiles_key(
    key: str, file: Path, command: Command, tmp_path: Path
) -> None:
    team = tmp_path / "team.yaml"
    team.write_text("access: {default: deny}\n")
    assert "would lock" in command("diff", "-f", str(team))[2]
    sign_in(command)
    code, out, said = command("diff", "-f", str(team))
    assert (code, said) == (2, "") and "default" in out


def test_a_profile_of_another_service_gets_no_sign_in_and_its_key_goes_nowhere(
    service: str, key: str, file: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = service.replace("localhost", "127.0.0.1")
    code, _, said = sign_in(command, "--api-url", elsewhere)
    assert code == 2 and f"is of {service}" in said
    monkeypatch.setenv("PENSTOCK_API_URL", elsewhere)
    assert sign_in(command)[0] == 2
    assert not Session.objects.filter(browser__startswith="penstock ").exists() and not kept(file)
    monkeypatch.delenv("PENSTOCK_API_URL")
    assert sign_in(command)[0] == 0
    monkeypatch.setenv("PENSTOCK_API_URL", "http://127.0.0.1:1")
    assert command("logout")[0] == 0, "the token goes to the service that made it"
    assert not kept(file)


def test_a_tenant_other_than_the_keys_is_refused(
    service: str, token: str, key: str, file: Path, command: Command
) -> None:
    actions.create_tenant(ACTOR, name="beta", owner=Session.objects.first().person)  # type: ignore[union-attr]
    code, _, said = sign_in(command, "--tenant", "beta")
    assert code == 2 and "key is of another tenant" in said


def test_a_damaged_sign_in_is_replaced_or_forgotten(key: str, file: Path, command: Command) -> None:
    sign_in(command)
    whole = file.read_text()
    file.write_text(whole.replace("sign_in = {", 'sign_in = { later = "release", ', 1))
    assert json.loads(command("whoami", "--json")[1])["kind"] == "person", "of a later release"
    file.write_text(whole.replace("sign_in = {", "sign_in = { email = 5 } # {", 1))
    assert command("whoami")[0] == 5
    assert sign_in(command)[0] == 0
    assert json.loads(command("whoami", "--json")[1])["kind"] == "person"
    file.write_text(whole.replace("sign_in = {", "sign_in = { email = 5 } # {", 1))
    code, _, said = command("logout")
    assert code == 5 and "forgotten" in said
    assert json.loads(command("whoami", "--json")[1])["kind"] == "key"
