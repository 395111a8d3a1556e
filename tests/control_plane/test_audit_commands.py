"""`penstock audit list`, `export` and `verify-export` over the real REST interface."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from control_plane.access.actions import create_key
from control_plane.audit import queries
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from penstock.cli.__main__ import run
from tenants.organisations import actions as organisations
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, House, make_house, make_organisation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

Command = Callable[..., tuple[int, dict[str, Any], str]]


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
    """`penstock audit …` as the tenant's auditor: exit code, JSON, what stands on the error stream."""
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.AUDITOR])
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "profiles.toml"))

    def call(*arguments: str) -> tuple[int, dict[str, Any], str]:
        code = run(["audit", *arguments, "--json"])
        told = capsys.readouterr()
        return code, json.loads(told.out) if told.out else {}, told.err

    return call


def test_entries_are_listed_newest_first_and_as_rows_for_people(
    house: House, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = command("list", "--kind", "key", "--limit", "1")
    assert (code, said["more"]) == (0, True)
    assert [entry["after"]["name"] for entry in said["entries"]] == ["bound"]
    assert command("list", "--name", "all", "--outcome", "refused")[1] == {"entries": [], "more": False}
    assert run(["audit", "list", "--name", "all", "--oldest-first"]) == 0
    assert "done\tkey.create\tall\tsystem test\t1" in capsys.readouterr().out


def test_an_operator_names_the_tenant_and_a_key_may_not_read(
    house: House, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "operator.token"
    token.write_text(house.credentials[Standing.OPERATOR])
    named = ("--token-file", str(token), "--tenant", house.tenant.public_id)
    code, said, _ = command("list", *named)
    assert code == 0 and len(said["entries"]) == 3
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.KEY])
    code, _, error = command("list")
    assert code == 4 and "audit.read is not for key" in error


def test_an_export_goes_on_and_a_torn_line_is_written_again(
    house: House, command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "audit.jsonl"
    tenant = house.tenant.public_id
    code, said, error = command("export", str(file))
    sequence, digest = queries.head(tenant)
    assert (code, said["kept"], said["written"], said["hash"]) == (0, 0, sequence, digest), error
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    create_key(ACTOR, house.tenant, name="later")
    code, said, _ = command("export", str(file))
    assert (code, said["kept"], said["written"]) == (0, sequence - 1, 2)
    assert file.read_bytes().startswith(whole)
    _, digest = queries.head(tenant)
    noted = f"{sequence + 1}:{digest}"
    code, said, _ = command("verify-export", str(file), "--expect", noted)
    assert (code, said["agreed"], said["sequence"]) == (0, True, sequence + 1)


def test_a_log_that_was_rewritten_does_not_continue_an_export(
    house: House, command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "audit.jsonl"
    assert command("export", str(file))[0] == 0
    kept = file.read_bytes()
    create_key(ACTOR, house.tenant, name="later")
    last = AuditEntry.objects.filter(tenant=house.tenant.public_id).latest("sequence")
    AuditEntry.objects.filter(pk=last.pk).update(actor_id="usr_other")
    code, _, error = command("export", str(file))
    assert code == 5 and "does not continue it after entry" in error
    assert file.read_bytes() == kept


def test_a_file_that_was_altered_is_named_by_its_line(house: House, command: Command, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    assert command("export", str(file))[0] == 0
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(lines[0] + lines[1].replace('"test"', '"else"', 1) + lines[2])
    code, said, _ = command("verify-export", str(file))
    assert code == 5 and said["problem"].startswith("line 2: its hash is not")
    code, _, error = command("export", str(file))
    assert code == 5 and "line 2" in error and "nothing was written" in error
    file.write_text("".join(lines[:2]))
    code, said, _ = command("verify-export", str(file), "--expect", f"3:{'0' * 64}")
    assert code == 5 and "entry 3 was noted" in said["problem"]
    assert command("verify-export", str(file), "--expect", f"2:{'0' * 64}")[0] == 5
    other = make_house("other")
    assert other.tenant.public_id != house.tenant.public_id
    file.write_text("no entry\n")
    assert "it is no audit entry" in command("verify-export", str(file))[1]["problem"]


def test_the_topic_is_switched_on_and_off_and_deleted(
    house: House, command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("topic")[1]["state"] == "off"
    assert command("topic-on")[0] == 4, "an auditor reads"
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.OWNER])
    code, said, _ = command("topic-on", "--retention", "90d")
    assert (code, said["state"], said["retention_ms"]) == (0, "on", 90 * 86_400_000)
    assert run(["audit", "topic"]) == 0
    assert f"up to 0 of {said['newest']}" in capsys.readouterr().out
    assert command("topic-off")[1]["exists"]
    assert command("topic-off", "--delete", "--yes")[1]["exists"] is False


def test_a_file_made_of_the_topic_may_have_entries_twice_and_no_other_ones(
    house: House, command: Command, tmp_path: Path
) -> None:
    for name in ("more", "still more"):
        create_key(ACTOR, house.tenant, name=name)
    file = tmp_path / "audit.jsonl"
    assert command("export", str(file))[0] == 0
    lines = file.read_text().splitlines(keepends=True)
    assert len(lines) > 3
    file.write_text("".join([*lines[:3], *lines[1:3], *lines[1:], *lines]))
    code, said, _ = command("verify-export", str(file))
    assert (code, said["sequence"]) == (0, len(lines))
    forged = json.loads(lines[1]) | {"actor_id": "someone-else"}
    for again in (
        json.dumps(forged) + "\n",
        json.dumps(forged | {"hash": "0" * 64}) + "\n",
        json.dumps({"sequence": 2}) + "\n",
    ):
        file.write_text("".join([*lines[:3], again, *lines[3:]]))
        code, said, _ = command("verify-export", str(file))
        assert (code, said["agreed"]) == (5, False) and "line 4" in said["problem"]


def test_the_log_of_an_organisation_is_listed_exported_and_verified(
    house: House, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    made = make_organisation(house, "acme-group")
    owner = Actor(kind=ActorKind.PERSON, id=made.members.get(role="owner").person.public_id)
    organisations.change(owner, made, name="acme-group", display_name="Acme Group")
    organisations.change(owner, made, name="acme-ltd", display_name="Acme Group")
    monkeypatch.setenv("PENSTOCK_SESSION_TOKEN", house.credentials[Standing.AUDITOR])
    of = ["organisation", "audit"]
    assert run([*of, "list", made.public_id, "--actor", owner.id, "--limit", "1"]) == 0
    told = capsys.readouterr()
    assert "2\t" in told.out and "done\torganisation.update\tacme-ltd" in told.out
    assert "more than 1 entries" in told.err
    assert run([*of, "list", made.public_id, "--outcome", "refused", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"entries": [], "more": False}
    file = tmp_path / "group.jsonl"
    assert run([*of, "export", made.public_id, str(file), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["tenant"], said["written"]) == (made.public_id, 2)
    sequence, digest = queries.head(made.public_id)
    code, said, _ = command("verify-export", str(file), "--expect", f"{sequence}:{digest}")
    assert (code, said["agreed"]) == (0, True)
    monkeypatch.setenv("PENSTOCK_SESSION_TOKEN", house.credentials[Standing.BILLING])
    assert run([*of, "export", made.public_id, str(tmp_path / "none.jsonl")]) == 4


def test_the_log_of_an_organisation_is_compared_with_what_was_noted_of_it(
    house: House, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    made = make_organisation(house, "acme-group")
    owner = Actor(kind=ActorKind.PERSON, id=made.members.get(role="owner").person.public_id)
    organisations.change(owner, made, name="acme-group", display_name="Acme Group")
    # Every member may: a head reveals nothing.
    monkeypatch.setenv("PENSTOCK_SESSION_TOKEN", house.credentials[Standing.BILLING])
    of, notes = ["organisation", "audit"], ["--notes", str(tmp_path / "heads.json")]
    assert run([*of, "head", made.public_id]) == 0
    first = capsys.readouterr().out.strip()
    assert run([*of, "verify", made.public_id, *notes]) == 0
    assert "Nothing was noted before" in capsys.readouterr().err
    organisations.change(owner, made, name="acme-ltd", display_name="Acme Group")
    assert run([*of, "verify", made.public_id, *notes, "--expect", first, "--json"]) == 0
    assert [one["problem"] for one in json.loads(capsys.readouterr().out)["compared"]] == [None, None]
    assert run([*of, "head", made.public_id, "--sequence", "1"]) == 0
    assert capsys.readouterr().out.strip() == first
    # The file of an export is compared with the head, without the service.
    monkeypatch.setenv("PENSTOCK_SESSION_TOKEN", house.credentials[Standing.AUDITOR])
    file = tmp_path / "group.jsonl"
    assert run([*of, "export", made.public_id, str(file)]) == 0
    capsys.readouterr()
    assert command("verify-export", str(file), "--expect", first)[1]["agreed"]
    AuditEntry.objects.filter(tenant=made.public_id).update(hash="0" * 64)
    assert run([*of, "verify", made.public_id, *notes, "--expect", first]) == 5
    assert "is not what it was" in capsys.readouterr().out
