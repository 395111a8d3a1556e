"""Which commands take `--dry-run`, and that they print the difference that the service answers, and do nothing else."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from docs.reference.command_line import leaves
from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

KEY = "penstock_test_" + "x" * 40
FORESEEN = {
    "dry_run": True,
    "changes": [
        {
            "kind": "topic",
            "id": "top_1",
            "name": "orders",
            "action": "update",
            "fields": [
                {"field": "partitions", "before": 3, "after": 6},
                {"field": "settings", "before": {"a": 1}, "after": {"a": None}},
            ],
        }
    ],
    "monthly_cost_change": None,
    "monthly_cost_reason": "use is billed",
}
ANY_DOCUMENT = Path(__file__).parents[3] / "billing" / "price_books" / "standard-1.json"
"""Where a command sends a file's JSON as it is."""
ANY_EXPORT = Path(__file__).with_name("focus.csv")
COMMANDS = {
    "topic create": ["orders", "--partitions", "3"],
    "topic alter": ["orders", "--partitions", "6"],
    "topic delete": ["orders"],
    "topic restore": ["top_1"],
    "topic purge": ["top_1"],
    "price-book assign": ["tn_1", "--general"],
    "terms set": ["tn_1", str(ANY_DOCUMENT)],
    "key create": ["--name", "till"],
    "key rotate": ["key_1"],
    "key revoke": ["key_1"],
    "service-account create": ["billing"],
    "service-account delete": ["sa_1"],
    "limits set": ["sa_1", "--tenant", "tn_1", "--requests-per-s", "5"],
    "limits remove": ["sa_1", "--tenant", "tn_1"],
    "budget create": ["monthly", "--measure", "bytes", "--amount", "1GB"],
    "budget set": ["bud_1", "--policy", "notify"],
    "budget remove": ["bud_1"],
    "principal-group create": ["payments"],
    "principal-group members": ["grp_1"],
    "principal-group delete": ["grp_1"],
    "access allow": ["everyone", "--on", "tenant"],
    "access deny": ["everyone", "--on", "tenant"],
    "access preset": ["consumer", "everyone", "--topic", "orders"],
    "access remove": ["acl_1"],
    "access default": ["deny"],
    "billing credit": ["inv_1", "--amount", "2.50", "--reason", "goodwill", "--reference", "call-7"],
    "cost tag": ["topic:orders", "team=web"],
    "payment address": ["--country", "DE"],
    "infrastructure import": [str(ANY_EXPORT), "--source", "aws"],
    "infrastructure undo-import": ["cim_1"],
    "tenant protect": ["tn_1"],
    "organisation create": ["acme"],
    "organisation rename": ["org_1", "--name", "acme"],
    "organisation delete": ["org_1"],
    "organisation role": ["org_1", "usr_1", "auditor"],
    "organisation remove": ["org_1", "usr_1"],
    "organisation move-in": ["org_1", "tn_1"],
    "organisation move-out": ["org_1", "tn_1"],
}
"""Every command that changes one object by REST, with arguments."""
OF_THEIR_OWN = {
    "apply": "shows the difference between file and tenant",
    "group reset": "asks the brokers for offsets",
    "partition elect": "asks the brokers what would be lost",
    "partition repair": "asks the brokers what would be lost",
    "price-book publish": "shows the prices before and after",
    **dict.fromkeys(
        [
            *("restore topic", "restore access", "restore entry", "restore group"),
            *("restore service-account", "restore key"),
        ],
        "shows the difference between the version and what is there",
    ),
}
"""Commands with a dry run of their own."""
WITHOUT = {
    "coupon create": "a coupon changes no tenant by itself",
    "coupon end": "as to create one",
    "coupon redeem": "a code is redeemed once, and what it gives is said",
    "sla exclude": "an exclusion is withdrawn as easily; REST has the dry run",
    "sla withdraw": "as to exclude",
    "organisation invite": "an e-mail is sent, and withdrawn with one command",
    "organisation withdraw": "as to invite",
    "tenant create": "REST has no dry run of it",
    "tenant close": "the life of a tenant; REST has no dry run of it",
    "tenant reopen": "as to close one",
    "tenant suspend": "as to close one; resumed with one command",
    "people remove": "REST has no dry run of it; a person is invited again",
    "topic delete-records": "the brokers delete messages",
    "audit topic-off": "the log itself stays, and it asks before the topic is deleted",
    "webhook delete": "it takes the webhook with its log and nothing else, and asks before",
    "group delete": "brokers hold groups, and have no dry run",
    **dict.fromkeys(
        [
            *("cluster drain", "cluster undrain", "cluster forget", "cluster rebalance"),
            *("cluster move-leader", "cluster features", "placement confirm", "placement cancel"),
            *("placement balancer", "placement set-cell", "placement delete-cell"),
        ],
        "the cluster's: what would move is a plan's to show",
    ),
    "placement plan": "is a dry run itself: a plan changes nothing until it is confirmed",
    **dict.fromkeys(
        ["payment paid", "payment refunded", "payment give-up", "payment void", "payment retry"],
        "operators note what happened elsewhere; a reference counts once",
    ),
    "billing finalize": "billing; a draft shows what would be finalized",
}
"""Commands that change something of a service and have no dry run, and why."""


def wheel_commands() -> dict[str, click.Command]:
    return {" ".join(path[1:]): command for path, command in leaves(cli, ("penstock",))}


def test_every_command_with_a_dry_run_is_known_here_and_every_other_change_says_why_it_has_none() -> None:
    found = wheel_commands()
    with_one = {
        name for name, command in found.items() if any("--dry-run" in one.opts for one in command.params)
    }
    assert with_one == COMMANDS.keys() | OF_THEIR_OWN.keys()
    assert not with_one & WITHOUT.keys() and found.keys() >= WITHOUT.keys()
    asking = {name for name, command in found.items() if any("--yes" in one.opts for one in command.params)}
    assert asking - with_one <= WITHOUT.keys() | {"profile remove", "dev destroy", "dev down"}


def answered(asked: Asked) -> Answer:
    if asked.method == "GET":
        topic = {
            "id": "top_1", "name": "orders", "topic_id": "0" * 32, "partitions": 3, "settings": {}, "text": "x",
            "binned_at": "2026-01-01T00:00:00Z", "purge_at": "2026-01-08T00:00:00Z",
        }  # fmt: skip
        return Answer(body={**topic, "items": [topic], "next": None})
    return Answer(body=FORESEEN)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(answered) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", KEY)
        monkeypatch.setenv("PENSTOCK_OPERATOR_TOKEN", "operator")
        monkeypatch.setenv("PENSTOCK_SESSION_TOKEN", "session")
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield server


def changing(server: LittleServer) -> list[str]:
    return [asked.path for asked in server.asked if asked.method != "GET"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_dry_run_asks_for_nothing_but_itself_and_prints_the_difference(
    name: str, service: LittleServer
) -> None:
    arguments = [*name.split(), *COMMANDS[name], "--dry-run"]
    ran = CliRunner().invoke(cli, arguments)
    assert ran.exit_code == 0, ran.output
    assert "update\ttopic orders\tpartitions\t3\t6\n" in ran.stdout
    assert "update\ttopic orders\tsettings\ta=1\ta=–\n" in ran.stdout
    assert "Nothing was changed" in ran.stderr and "gone" not in ran.output
    (path,) = changing(service)
    assert path.endswith("dry_run=true") and path.count("?") == 1
    asked = CliRunner().invoke(cli, [*arguments, "--json"])
    assert asked.exit_code == 0 and json.loads(asked.stdout) == FORESEEN


def test_a_purge_is_foreseen_as_a_purge(service: LittleServer) -> None:
    assert CliRunner().invoke(cli, ["topic", "delete", "orders", "--purge", "--dry-run"]).exit_code == 0
    assert changing(service) == ["/v1/topics/orders?purge=true&dry_run=true"]


def test_many_topics_have_no_dry_run_together(service: LittleServer) -> None:
    ran = CliRunner().invoke(cli, ["topic", "create", "a", "b", "--partitions", "1", "--dry-run"])
    assert ran.exit_code == 2 and "penstock diff -f" in ran.output and not service.asked


def test_what_changes_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: dict[str, Any] = {**FORESEEN, "changes": []}
    with little_server(lambda _: Answer(body=nothing)) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", KEY)
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        ran = CliRunner().invoke(cli, ["access", "default", "allow", "--dry-run"])
    assert ran.exit_code == 0 and "Nothing would change." in ran.stderr
