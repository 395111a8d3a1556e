"""Commands that delete ask before, and `topic alter --partitions` says that keys move; against the real REST."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from control_plane.access.actions import create_key
from control_plane.topics import actions, queries
from control_plane.topics.models import Topic
from penstock.cli.__main__ import run
from penstock.cli.exit_codes import ExitCode
from penstock.contract.limits import PARTITIONS_PER_TOPIC_MAX
from tenants.actions import create_operator
from tests.control_plane.world import ACTOR, House, make_house
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def house(live_server: Any, monkeypatch: pytest.MonkeyPatch) -> House:
    made = make_house("acme")
    actions.create_topic(ACTOR, made.tenant, name="orders", partitions=3, settings={})
    _, text = create_key(ACTOR, made.tenant, name="cli")
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", text.reveal())
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    return made


@pytest.fixture
def command(house: House, capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: str) -> tuple[int, str]:
        code = run(arguments)
        told = capsys.readouterr()
        return code, told.out + told.err

    return call


def exists(house: House) -> bool:
    return bool(queries.topics(house.tenant).filter(name="orders").exists())


def on_a_terminal(answer: bytes) -> tuple[int, str]:
    """`penstock topic delete orders` with somebody at the terminal who types `answer`."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "penstock.cli", "topic", "delete", "orders"]
    with subprocess.Popen(words, stdin=theirs, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        os.close(theirs)
        os.write(ours, answer)
        _, said = program.communicate(timeout=PATIENCE_S)
    os.close(ours)
    return program.returncode, said.decode()


def test_without_a_terminal_nothing_is_deleted_until_yes_is_said(house: House, command: Command) -> None:
    for words in (["topic", "delete", "orders"], ["topic", "delete", "orders", "--json"]):
        code, told = command(*words)
        assert code == 2 and "--yes" in told
        assert exists(house)
    assert command("topic", "delete", "orders", "--yes")[0] == 0
    assert not exists(house)


def test_a_deleted_topic_is_listed_in_the_bin_restored_and_purged(
    house: House, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "ASK_S", 0.1)
    Topic.objects.update(on_brokers=True)
    code, told = command("topic", "delete", "orders", "--yes")
    assert code == 0 and "can be restored: penstock topic restore orders" in told
    (binned,) = json.loads(command("topic", "bin", "--json")[1])["topics"]
    assert binned["name"] == "orders" and binned["purge_at"]
    assert binned["id"] in command("topic", "bin")[1]
    actions.create_topic(ACTOR, house.tenant, name="orders", partitions=1, settings={})
    code, told = command("topic", "restore", "orders")
    assert code == 5 and "give another name" in told
    assert command("topic", "restore", "orders", "--as", "orders-before")[0] == 0
    assert queries.topic(house.tenant, "orders-before").public_id == binned["id"]
    Topic.objects.update(on_brokers=True)
    for name in ("orders", "orders-before"):
        command("topic", "delete", name, "--yes")
    actions.create_topic(ACTOR, house.tenant, name="orders", partitions=1, settings={})
    Topic.objects.update(on_brokers=True)
    command("topic", "delete", "orders", "--yes")
    code, told = command("topic", "purge", "orders", "--yes")
    assert code == 2 and "holds 2 topics orders; name one by its id: top_" in told
    code, told = command("topic", "purge", "orders-before")
    assert code == 2 and "--yes" in told
    assert command("topic", "purge", binned["id"], "--yes")[0] == 0
    assert command("topic", "restore", binned["id"])[0] == 3
    assert "orders-before" not in command("topic", "bin")[1]


def test_a_topic_that_is_purged_at_once_is_in_no_bin(
    house: House, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "ASK_S", 0.1)
    Topic.objects.update(on_brokers=True)
    told = json.loads(command("topic", "delete", "orders", "--purge", "--yes", "--json")[1])
    assert told == {"topic": "orders", "deleted": True, "purge_at": None}
    assert "The recycle bin is empty." in command("topic", "bin")[1]


def test_a_key_is_not_revoked_without_a_terminal_until_yes_is_said(house: House, command: Command) -> None:
    key, _ = create_key(ACTOR, house.tenant, name="other")
    for words in (["key", "revoke", key.public_id], ["key", "revoke", key.public_id, "--json"]):
        code, told = command(*words)
        assert code == 2 and "--yes" in told
        key.refresh_from_db()
        assert key.revoked_at is None
    assert command("key", "revoke", key.public_id, "--yes")[0] == 0
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_a_broker_is_not_forgotten_without_a_terminal_until_yes_is_said(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_OPERATOR_TOKEN", create_operator(ACTOR, name="o", tenant="_system"))
    code, told = command("cluster", "forget", "4")
    assert code == 2 and "Broker 4 will be removed" in told and "--yes" in told
    code, told = command("cluster", "forget", "4", "--yes")
    assert code != 2 and "--yes" not in told, "it was asked of the service, whose brokers are away"


def test_a_person_is_asked_and_may_say_no(house: House) -> None:
    code, said = on_a_terminal(b"n\n")
    assert code == 130 and "gone for good" in said
    assert exists(house)
    code, said = on_a_terminal(b"y\n")
    assert code == 0, said
    assert not exists(house)


def test_more_partitions_are_told_to_move_keys(command: Command) -> None:
    code, told = command("topic", "alter", "orders", "--partitions", "6")
    assert code == 0 and "Keys move: with 6 partitions instead of 3" in told
    assert "Keys move" not in command("topic", "alter", "orders", "--partitions", "6")[1]
    assert "Keys move" not in command("topic", "alter", "orders", "--retention-ms", "7d")[1]


def test_retention_is_taken_in_days_and_gibibytes(house: House, command: Command) -> None:
    code, told = command("topic", "alter", "orders", "--retention-ms", "7d", "--retention-bytes", "1GiB")
    assert code == 0, told
    settings = queries.topic(house.tenant, "orders").settings
    assert (settings["retention_ms"], settings["retention_bytes"]) == (604_800_000, 2**30)


def test_a_setting_is_given_its_default_again(house: House, command: Command) -> None:
    usual = queries.topic(house.tenant, "orders").settings
    assert command("topic", "alter", "orders", "--retention-ms", "2h", "--min-insync", "1")[0] == 0
    both = ("--default", "retention_ms", "--default", "min_insync_replicas")
    code, told = command("topic", "alter", "orders", *both)
    assert code == 0, told
    assert queries.topic(house.tenant, "orders").settings == usual
    code, told = command("topic", "alter", "orders", "--default", "retention_ms", "--retention-ms", "7d")
    assert code == 2 and "--default retention_ms: it is given another value too" in told
    assert command("topic", "alter", "orders", "--default", "durability")[0] == 2


def test_many_topics_are_made_in_one_request_and_each_is_told_of(house: House, command: Command) -> None:
    code, told = command("topic", "create", "north", "orders", "south", "--partitions", "2")
    rows = [line.split("\t") for line in told.splitlines()]
    assert ["orders", "refused", "topic 'orders' exists"] in rows and code == ExitCode.REFUSED
    assert [row[1] for row in rows if row[0] in ("north", "south")] == ["on its way"] * 2
    assert "0 created, 2 on their way" in told and "1 refused." in told
    assert {queries.topic(house.tenant, name).partitions for name in ("north", "south")} == {2}


def test_names_of_topics_are_read_from_a_file(house: House, command: Command, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("".join(f"topic-{number}\n\n" for number in range(5)))
    code, told = command(
        "topic", "create", "--file", str(names), "--partitions", "1", "--retention-ms", "7d", "--json"
    )
    assert code == 0, told
    found = json.loads(told)["topics"]
    assert [topic["topic"] for topic in found] == [f"topic-{number}" for number in range(5)]
    assert {topic["settings"]["retention_ms"] for topic in found} == {604_800_000}


def test_topics_are_named_in_one_way(command: Command, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for words in ([], ["a", "--file", str(empty)], ["--file", str(empty)]):
        code, told = command("topic", "create", *words, "--partitions", "1")
        assert code == ExitCode.USAGE and ("--file" in told), told


def test_more_topics_than_one_request_takes_are_made_in_several(
    house: House, command: Command, tmp_path: Path
) -> None:
    names = tmp_path / "names"
    names.write_text("a\nb\nc\n")
    most = str(PARTITIONS_PER_TOPIC_MAX // 2)
    code, told = command("topic", "create", "--file", str(names), "--partitions", most, "--json")
    outcomes = json.loads(told)["topics"]
    assert [topic["topic"] for topic in outcomes] == ["a", "b", "c"]
    assert {topic["error"]["code"] for topic in outcomes} == {"LIMIT_EXCEEDED"} and code == ExitCode.REFUSED
