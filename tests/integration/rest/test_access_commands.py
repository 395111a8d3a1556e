"""What `penstock access`, `key` and their kin ask of the control plane, and what they say of its answers."""

from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock import Forbidden
from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, Asked, little_server

KEY = "penstock_test_" + "x" * 40
ENTRY = {"id": "acl_1", "text": "deny everyone everything on topic secrets", "delivered": True}


def run(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], *words: str, status: int = 200
) -> tuple[Result, list[Asked]]:
    """What the command said, and what it asked."""
    asked: list[Asked] = []

    def reply(one: Asked) -> Answer:
        asked.append(one)
        return Answer(status=status, body=answer)

    with little_server(reply) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", KEY)
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        return CliRunner().invoke(cli, list(words)), asked


@pytest.mark.parametrize(
    ("on", "named"),
    [
        ("topic:secrets", {"resource": "topic", "name": "secrets", "pattern": "literal"}),
        ("topic:se*", {"resource": "topic", "name": "se", "pattern": "prefix"}),
        ("group:*", {"resource": "group", "name": "", "pattern": "prefix"}),
        ("group:a:b", {"resource": "group", "name": "a:b", "pattern": "literal"}),
        ("tenant", {"resource": "tenant"}),
    ],
)
def test_a_resource_is_named_as_rest_takes_it(
    on: str, named: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, asked = run(monkeypatch, ENTRY, "access", "deny", "everyone", "--on", on, "--from", "10.0.0.0/8")
    assert ran.exit_code == 0 and "acl_1  deny everyone everything on topic secrets" in ran.output
    body = asked[0].body
    assert body == {"effect": "deny", "principal": "everyone", "addresses": ["10.0.0.0/8"], **named}


@pytest.mark.parametrize("words", [("--on", "secrets"), ("--on", "queue:x"), ("--on", "topic")])
def test_what_is_no_resource_is_wrong_usage(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    ran, asked = run(monkeypatch, ENTRY, "access", "allow", "everyone", *words)
    assert ran.exit_code == 2 and "a resource is topic:NAME" in ran.output and not asked


def test_a_change_that_brokers_do_not_obey_yet_is_not_called_done(monkeypatch: pytest.MonkeyPatch) -> None:
    ran, _ = run(
        monkeypatch,
        {**ENTRY, "delivered": False},
        "access",
        "allow",
        "everyone",
        "--on",
        "tenant",
        status=202,
    )
    assert "The brokers do not obey it yet" in ran.output


@pytest.mark.parametrize("allowed", [True, False])
def test_a_check_ends_as_the_call_would(allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {
        "allowed": allowed,
        "reason": "the reason",
        "principal": "person:usr_1",
        "name": "ann@acme.example",
    }
    words = ("access", "check", "--key", "key_1", "--operation", "consume", "--on", "topic:orders")
    ran, asked = run(monkeypatch, answer, *words)
    if allowed:
        assert ran.exit_code == 0 and "yes: the reason" in ran.output
    else:
        assert isinstance(ran.exception, Forbidden) and "the reason" in ran.exception.message
    assert "key=key_1" in asked[0].path and "name=orders" in asked[0].path
    assert run(monkeypatch, answer, *words, "--principal", "person:usr_1")[0].exit_code == 2
    ran, _ = run(monkeypatch, answer, *words[:-1], "topic:orders*")
    assert ran.exit_code == 2 and "by its whole name" in ran.output


def test_what_takes_rights_away_asks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (
        ("access", "default", "deny"),
        ("access", "remove", "acl_1"),
        ("service-account", "delete", "sa_1"),
    ):
        ran, asked = run(monkeypatch, ENTRY, *words)
        assert ran.exit_code != 0 and "--yes" in ran.output, ran.output
        assert all(one.method == "GET" for one in asked)


def test_a_key_is_limited_by_scopes_and_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"id": "key_2", "name": "app", "key": KEY, "delivered": True}
    scopes = ("--scope", "produce,describe:topic:orders.*", "--scope", "all:group:billing")
    ran, asked = run(
        monkeypatch, made, "key", "create", "--name", "app", "--service-account", "sa_1", *scopes, status=201
    )
    assert ran.exit_code == 0 and KEY in ran.output
    assert asked[0].body == {
        "name": "app",
        "service_account": "sa_1",
        "scopes": [
            {
                "resource": "topic",
                "name": "orders.",
                "pattern": "prefix",
                "operations": ["produce", "describe"],
            },
            {"resource": "group", "name": "billing", "pattern": "literal"},
        ],
    }
    ran, asked = run(monkeypatch, made, "key", "rotate", "key_1", "--overlap-s", "60", status=201)
    assert (asked[0].path, asked[0].body) == ("/v1/keys/key_1/rotate", {"overlap_s": 60})
    assert KEY in ran.output and "key_1 ends in 60 s." in ran.output
    assert run(monkeypatch, made, "key", "create", "--name", "app", "--scope", "orders")[0].exit_code == 2
