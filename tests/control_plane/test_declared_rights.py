"""`penstock apply` with a person's key: what it may not do is said before the first change."""

import json
from pathlib import Path
from typing import Any

import pytest

from control_plane.access.actions import create_key
from control_plane.audit.actor import Actor, ActorKind
from control_plane.topics import queries
from penstock.cli.__main__ import run
from tenants.models import Person, ServiceAccount
from tenants.roles import Standing
from tests.control_plane.world import House, everything_delivered, make_house
from tests.end_to_end.docs.pages import ROOT, blocks

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@pytest.fixture
def house(live_server: Any, monkeypatch: pytest.MonkeyPatch) -> House:
    """The command line has a key that the owner made, as `penstock dev up` does."""
    made = make_house("acme")
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", persons_key(made, "owner"))
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    everything_delivered()
    return made


def persons_key(house: House, role: str) -> str:
    person = Person.objects.get(email=f"{role}@acme.example")
    actor = Actor(kind=ActorKind.PERSON, id=person.public_id, request_id="r1", source="127.0.0.1")
    _, text = create_key(actor, house.tenant, name="dev")
    return text.reveal()


def test_the_samples_of_the_guide_are_applied_the_first_with_a_key_and_the_second_with_a_sign_in(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = ROOT / "docs/guides/declared.md"
    for number, sample in enumerate(block.text for block in blocks(guide) if block.language == "yaml"):
        file = tmp_path / f"team{number}.yaml"
        file.write_text(sample)
        texts = str(tmp_path / "texts")
        assert run(["apply", "-f", str(file), "--yes", "--keys-to", texts]) == 0, capsys.readouterr()
        assert run(["diff", "-f", str(file)]) == 0, capsys.readouterr()
        monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.OWNER])
    assert number == 1


def test_a_file_that_locks_its_key_out_makes_no_change_and_diff_says_so(
    house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "team.yaml"
    topics = ", ".join(f"{{name: topic-{number}}}" for number in range(100))
    file.write_text(f"topics: [{topics}]\naccess: {{default: deny}}\n")
    assert run(["diff", "-f", str(file)]) == 2
    shown = capsys.readouterr()
    assert "+ topic topic-99" in shown.out
    assert "refuses these changes, and makes none of them: ~ access default: the list would lock" in shown.err
    assert run(["diff", "-f", str(file), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["refusal"]["code"] == "FORBIDDEN"
    assert run(["apply", "-f", str(file), "--yes"]) == 4
    assert not queries.topics(house.tenant).exists()


def test_what_the_role_of_the_keys_maker_may_not_is_said_before_a_topic_is_made(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "team.yaml"
    file.write_text(
        "topics: [{name: orders}]\nacls: [{effect: deny, principal: everyone, resource: group, name: g}]"
    )
    monkeypatch.setenv("PENSTOCK_API_KEY", persons_key(house, "developer"))
    assert run(["apply", "-f", str(file), "--yes"]) == 4
    assert "access.write is not for a key whose maker is developer" in capsys.readouterr().err
    assert not queries.topics(house.tenant).exists() and not ServiceAccount.objects.exists()
