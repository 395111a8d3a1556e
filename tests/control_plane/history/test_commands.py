"""`penstock history` and `penstock restore` against the real REST: shown, asked, made, and said."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from control_plane.access import list_actions
from control_plane.access.actions import create_key
from control_plane.outbox import in_request
from control_plane.topics import actions, queries
from penstock.cli.__main__ import run
from penstock.rules.access import Acl
from tests.control_plane.history.restoring import HOUR, acl, last_number, owner, says
from tests.control_plane.world import ACTOR, House, everything_delivered, make_house

pytestmark = pytest.mark.django_db(transaction=True)

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def house(live_server: Any, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    monkeypatch.setattr(queries, "ASK_S", 0.05)
    made = make_house("acme")
    actions.create_topic(ACTOR, made.tenant, name="orders", partitions=1, settings={"retention_ms": HOUR})
    everything_delivered()
    _, text = create_key(owner(made.tenant), made.tenant, name="cli")
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", text.reveal())
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    return made


@pytest.fixture
def command(house: House, capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def retention(house: House) -> int:
    return int(queries.topic(house.tenant, "orders").settings["retention_ms"])


def test_a_topics_settings_are_shown_and_restored(house: House, command: Command) -> None:
    actions.update_topic(ACTOR, house.tenant, "orders", settings={"retention_ms": 2 * HOUR})
    code, out, _ = command("history", "topic", "orders")
    newest, first = out.splitlines()
    assert code == 0 and f"retention_ms: {HOUR} -> {2 * HOUR}" in newest and "topic.create" in first
    number = first.split("\t")[0]
    found = json.loads(command("history", "topic", "orders", "--limit", "1", "--json")[1])["versions"]
    assert [one["action"] for one in found] == ["topic.update"]
    code, out, _ = command("restore", "topic", "orders", "--version", number, "--dry-run")
    assert (code == 0 and f"{2 * HOUR} -> {HOUR}" in out.replace('"', "")) or str(HOUR) in out
    code, _, err = command("restore", "topic", "orders", "--version", number)
    assert code == 2 and "--yes" in err and retention(house) == 2 * HOUR
    code, _, err = command("restore", "topic", "orders", "--version", number, "--yes")
    assert code == 0 and f"has the settings of version {number}" in err and retention(house) == HOUR
    assert command("restore", "topic", "orders", "--version", "999999", "--yes")[0] == 3
    assert command("restore", "topic", "orders", "--version", "0", "--yes")[0] == 2


def test_the_access_list_an_entry_and_a_group_are_restored(house: House, command: Command) -> None:
    tenant = house.tenant
    _, (entry,) = list_actions.add_acls(ACTOR, tenant, [acl("a")])
    number = last_number(tenant)
    list_actions.remove_acl(ACTOR, tenant, entry.public_id)
    assert "allow everyone everything on topic a" in command("history", "access")[1]
    assert command("history", "removed")[1].startswith(f"acl\t{entry.public_id}\tallow everyone")
    assert command("restore", "entry", entry.public_id, "--yes")[0] == 0
    assert says(tenant) == {"allow a"}
    list_actions.add_acls(ACTOR, tenant, [acl("b")])
    code, _, err = command("restore", "access", "--version", str(number), "--yes")
    assert code == 0 and "entries added: 0, removed: 1" in err and says(tenant) == {"allow a"}
    assert command("restore", "access", "--yes")[0] == 2
    assert command("restore", "access", "--version", "1", "--at", "2026-01-01", "--yes")[0] == 2
    _, group = list_actions.create_group(ACTOR, tenant, name="robots", members=[])
    list_actions.remove_group(ACTOR, tenant, group.public_id)
    code, _, err = command("restore", "group", group.public_id, "--as", "again", "--yes")
    assert code == 0 and "again: no members" in err
    assert "principal_group.restored" in command("history", "group", group.public_id)[1]


def test_a_service_account_comes_back_and_its_key_as_a_new_one(house: House, command: Command) -> None:
    tenant = house.tenant
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    key, old = create_key(owner(tenant), tenant, name="robot's", account=account)
    entry = Acl(effect="allow", principal=f"service_account:{account.public_id}", resource="topic", name="a")
    list_actions.add_acls(ACTOR, tenant, [entry])
    list_actions.end_account(ACTOR, tenant, account)
    assert command("restore", "key", key.public_id, "--yes")[0] == 3, "its account is gone"
    code, _, err = command("restore", "service-account", account.public_id, "--yes")
    assert code == 0 and "came back: 1, groups that hold it again: 0" in err and says(tenant) == {"allow a"}
    code, out, err = command("restore", "key", key.public_id, "--yes")
    assert code == 0 and out.startswith("penstock_") and out.strip() != old.reveal()
    assert "will not be shown again" in err
    answer = json.loads(command("restore", "entry", "acl_none", "--yes", "--json")[2])
    assert answer["error"]["code"] == "NOT_FOUND"
