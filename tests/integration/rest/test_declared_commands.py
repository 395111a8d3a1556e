"""`penstock diff` and `apply` against a server that keeps what it is told."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from penstock.cli.__main__ import run
from penstock.contract.api_keys import RANDOM_BYTES, make_api_key
from tests.integration.rest.little_server import Answer, Asked, little_server

FILE = """
service_accounts: [{name: billing}]
principal_groups:
  - {name: outer, members: [{group: inner}, {person: a@b.c}]}
  - {name: inner, members: [{service_account: billing}]}
topics: [{name: orders, partitions: 3, settings: {retention_ms: 86400000}}, {name: clicks}]
access: {default: deny}
acls:
  - {effect: allow, principal: {group: outer}, resource: topic, name: orders, operations: [produce]}
  - {effect: allow, principal: everyone, resource: tenant}
"""

DRY_RUN = "?dry_run=true"


class Service:
    """The objects of a tenant, in memory."""

    def __init__(self) -> None:
        self.kinds: dict[str, dict[str, dict[str, Any]]] = {
            "service-accounts": {}, "principal-groups": {}, "acls": {}, "topics": {},
            "people": {"usr_1": {"id": "usr_1", "email": "a@b.c"}}, "service-account-limits": {},
            "keys": {},
        }  # fmt: skip
        self.default = "allow"
        self.principal = "service"
        self.each_account: dict[str, Any] = {}
        self.asked: list[Asked] = []
        self.fails_at = ""
        self._made = 0

    def calls(self) -> Counter[str]:
        """All but dry runs, by method."""
        return Counter(asked.method for asked in self.asked if not asked.path.endswith(DRY_RUN))

    def reply(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        split = urlsplit(asked.path)
        _, _, kind, *rest = split.path.split("/")
        if asked.method == "POST":
            assert asked.headers.get("Idempotency-Key") or asked.headers.get("idempotency-key")
        if asked.method != "GET" and kind == self.fails_at:
            problem = {"code": "FORBIDDEN", "title": "Forbidden", "detail": "no", "status": 403}
            return Answer(status=403, body=problem)
        if asked.path.endswith(DRY_RUN) and asked.method != "GET":
            return Answer(body={})
        if kind == "keys" and rest:
            return Answer(body={"id": rest[0], "principal": self.principal})
        if kind == "access":
            self.default = self.default if asked.method == "GET" else asked.body["default"]
            return Answer(body={"default": self.default})
        if kind == "topics:batch":
            made = [self._make("topics", {**one, "conditions": []}) for one in asked.body["topics"]]
            return Answer(
                status=207,
                body={
                    "topics": [
                        {"name": one["name"], "status": 201, "topic": one, "problem": None} for one in made
                    ]
                },
            )
        if rest[-1:] in (["default"], ["limits"]):
            return self._limits(asked, rest)
        rows = self.kinds[kind]
        if asked.method == "GET":
            first = int(parse_qs(split.query).get("cursor", ["0"])[0])
            assert parse_qs(split.query)["limit"] == ["1000"]
            page = list(rows.values())[first : first + 1000]
            following = str(first + 1000) if first + 1000 < len(rows) else None
            return Answer(body={"items": page, "next": following})
        if asked.method == "POST":
            return Answer(status=201, body=self._make(kind, asked.body))
        by = "name" if kind == "topics" else "id"
        found = next(one for one in rows.values() if one[by] == unquote(rest[0]))
        if asked.method == "DELETE":
            if split.query != "dry_run=true":
                del rows[found["id"]]
            return Answer(body={})
        for name, value in asked.body.items():
            found[name] = {**found[name], **value} if isinstance(value, dict) else value
        return Answer(body=found)

    def _limits(self, asked: Asked, rest: list[str]) -> Answer:
        """Of each account, or of one; a trial changes nothing."""
        changes = not asked.path.endswith("dry_run=true") and asked.method in ("PUT", "DELETE")
        body = asked.body if asked.method == "PUT" else {}
        if rest == ["default"]:
            self.each_account = body if changes else self.each_account
            return Answer(body=self.each_account)
        own = self.kinds["service-account-limits"]
        name = self.kinds["service-accounts"][rest[0]]["name"]
        if changes:
            own.pop(rest[0], None)
            own |= {rest[0]: {"service_account": rest[0], "name": name, **body}} if body else {}
        return Answer(body=own.get(rest[0], {}))

    def _make(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        self._made += 1
        extra: dict[str, Any] = {"members": []} if kind == "principal-groups" else {}
        if kind == "acls":
            pattern = "prefix" if body["resource"] == "tenant" else "literal"
            extra = {"name": "", "pattern": pattern, "operations": [], "addresses": []}
        made = {**extra, **body, "id": f"id_{self._made}"}
        self.kinds[kind][made["id"]] = made
        return made


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    kept = Service()
    with little_server(kept.reply) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", make_api_key("test", bytes(RANDOM_BYTES)).reveal())
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield kept


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "team.yaml"
    path.write_text(FILE)
    return path


def test_what_is_applied_differs_no_more(
    service: Service, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diff", "-f", str(file)]) == 2
    shown = capsys.readouterr().out
    assert "+ topic orders" in shown and "~ access default" in shown and "default: allow → deny" in shown
    assert service.calls().keys() == {"GET"}
    assert run(["apply", "-f", str(file), "--yes"]) == 0
    changes = [asked for asked in service.asked if asked.method != "GET" and not asked.path.endswith(DRY_RUN)]
    writes = [urlsplit(asked.path).path for asked in changes]
    assert writes[0] == "/v1/service-accounts" and writes[-1] == "/v1/access"
    assert writes.count("/v1/topics:batch") == 1
    groups = {one["name"]: one for one in service.kinds["principal-groups"].values()}
    assert sorted(groups["outer"]["members"]) == [f"group:{groups['inner']['id']}", "person:usr_1"]
    service.asked.clear()
    assert run(["diff", "-f", str(file)]) == 0
    assert run(["apply", "-f", str(file), "--yes"]) == 0
    assert service.calls().keys() == {"GET"}


def test_a_half_done_apply_says_what_is_done_and_goes_on(
    service: Service, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service.fails_at = "acls"
    assert run(["apply", "-f", str(file), "--yes"]) == 4
    said = capsys.readouterr().err
    assert "5 of 8 changes are applied" in said and "+ topic orders" in said and service.default == "allow"
    service.fails_at = ""
    assert run(["apply", "-f", str(file), "--yes"]) == 0
    assert service.default == "deny" and len(service.kinds["topics"]) == 2


def test_an_account_that_may_not_be_removed_is_known_before_anything_is_done(
    service: Service, file: Path
) -> None:
    """As that of the key which the command uses."""
    service.kinds["service-accounts"]["sa_own"] = {"id": "sa_own", "name": "own"}
    service.fails_at = "service-accounts"
    file.write_text("service_accounts: []\ntopics: [{name: orders}]")
    assert run(["apply", "-f", str(file), "--yes", "--prune"]) == 4
    assert not service.kinds["topics"] and service.calls()["POST"] == 0
    service.fails_at = ""
    assert run(["apply", "-f", str(file), "--yes", "--prune"]) == 0
    assert service.kinds["topics"] and not service.kinds["service-accounts"]


def test_prune_removes_all_but_topics(service: Service, file: Path) -> None:
    assert run(["apply", "-f", str(file), "--yes"]) == 0
    file.write_text(
        "service_accounts: []\nprincipal_groups: []\nacls: []\ntopics: []\naccess: {default: allow}\n"
    )
    service.asked.clear()
    assert run(["apply", "-f", str(file), "--yes"]) == 0 and len(service.kinds["acls"]) == 2
    assert run(["apply", "-f", str(file), "--yes", "--prune"]) == 0
    assert [len(service.kinds[kind]) for kind in ("acls", "principal-groups", "service-accounts", "topics")] == [
        0, 0, 0, 2
    ]  # fmt: skip
    changes = [asked for asked in service.asked if asked.method != "GET" and not asked.path.endswith(DRY_RUN)]
    assert changes[0].path == "/v1/access"
    assert run(["apply", "-f", str(file), "--yes", "--prune-topics"]) == 0 and not service.kinds["topics"]


def test_a_change_is_shown_field_by_field(
    service: Service, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["apply", "-f", str(file), "--yes"]) == 0
    file.write_text("topics: [{name: orders, partitions: 5, settings: {retention_ms: 90000000}}]\n")
    capsys.readouterr()
    assert run(["diff", "-f", str(file), "--json"]) == 2
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert change["fields"] == [
        {"field": "partitions", "before": 3, "after": 5},
        {"field": "settings.retention_ms", "before": 86400000, "after": 90000000},
    ]
    assert run(["apply", "-f", str(file), "--yes"]) == 0 and run(["diff", "-f", str(file)]) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("topics: [{name: new}, {name: orders, partitions: 2}]", "the number can only grow"),
        (
            "topics: [{name: new}, {name: orders, partitions: 3, settings: {durability: replicated}}]",
            "when a topic is made",
        ),
        ("principal_groups: [{name: x, members: [{person: q@b.c}]}]", "person:q@b.c is not there"),
    ],
)
def test_what_cannot_be_applied_is_refused_before_anything_is_done(
    text: str, said: str, service: Service, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["apply", "-f", str(file), "--yes"]) == 0
    file.write_text(text)
    service.asked.clear()
    assert run(["apply", "-f", str(file), "--yes"]) == 5
    assert run(["diff", "-f", str(file)]) == 1
    assert said in capsys.readouterr().err and service.calls().keys() == {"GET"}


def test_without_yes_and_terminal_nothing_is_done(service: Service, file: Path) -> None:
    assert run(["apply", "-f", str(file)]) == 2 and service.calls().keys() == {"GET"}


def test_a_wrong_option_of_diff_is_no_difference(service: Service, file: Path) -> None:
    assert run(["diff", "-f", str(file), "--colour"]) == 1 and not service.asked


def test_ten_thousand_unchanged_topics_cost_lists_only(service: Service, file: Path) -> None:
    names = [f"topic-{number}" for number in range(10_000)]
    service.kinds["topics"] = {
        name: {"id": name, "name": name, "partitions": 1, "settings": {"retention_ms": 86400000}}
        for name in names
    }
    rows = [{"name": name, "partitions": 1, "settings": {"retention_ms": 86400000}} for name in names]
    file.write_text(json.dumps({"topics": rows}))
    assert run(["apply", "-f", str(file), "--yes"]) == 0
    assert service.calls() == {"GET": 10}


LIMITS = """
service_accounts: [{name: billing}, {name: till}]
account_limits:
  default: {requests_per_s: 500}
  accounts:
    - {service_account: billing, produce_bytes_per_s: 1000000}
    - {service_account: till, consume_bytes_per_s: 0}
"""


def test_limits_of_accounts_that_the_file_makes_are_set_and_differ_no_more(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(LIMITS)
    assert run(["apply", "-f", str(file), "--yes"]) == 0
    own = service.kinds["service-account-limits"].values()
    assert [(one["name"], one["produce_bytes_per_s"], one["consume_bytes_per_s"]) for one in own] == [
        ("billing", 1000000, None),
        ("till", None, 0),
    ]
    assert service.each_account["requests_per_s"] == 500
    assert run(["diff", "-f", str(file)]) == 0
    file.write_text("account_limits: {accounts: [{service_account: billing, requests_per_s: 9}]}")
    capsys.readouterr()
    assert run(["apply", "-f", str(file), "--yes", "--prune"]) == 0
    shown = capsys.readouterr().out
    assert "~ account_limits of billing\n    produce_bytes_per_s: 1000000 → none\n" in shown
    assert "- account_limits of till" in shown and "- account_limits default" in shown
    (left,) = service.kinds["service-account-limits"].values()
    assert (left["name"], left["requests_per_s"], left["produce_bytes_per_s"]) == ("billing", 9, None)
    assert not service.each_account
    assert run(["diff", "-f", str(file), "--prune"]) == 0


def test_limits_that_may_not_be_set_are_refused_before_anything_is_done(
    service: Service, tmp_path: Path
) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text("topics: [{name: orders}]\naccount_limits: {default: {requests_per_s: 1}}")
    service.fails_at = "service-account-limits"
    assert run(["apply", "-f", str(file), "--yes"]) != 0
    assert not service.kinds["topics"]
