"""`penstock diff` and `apply` against the real REST."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from control_plane.access.actions import create_key
from control_plane.topics import actions, queries
from control_plane.webhooks.models import Webhook
from penstock.cli import new_keys
from penstock.cli.__main__ import run
from penstock.contract.errors import OutcomeUnknown
from penstock.contract.limits import BUDGETS_PER_TENANT_MAX
from penstock.rest.client import RestClient
from quotas.models import Budget
from quotas.queries import limits_of
from tenants import queries as tenants
from tenants.models import ApiKey, ServiceAccount
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, House, everything_delivered, make_house

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

FILE = """
service_accounts: [{name: billing}]
principal_groups:
  - {name: outer, members: [{group: inner}]}
  - {name: inner, members: [{service_account: billing}]}
topics:
  - {name: orders, partitions: 4, settings: {retention_ms: 86400000}}
  - {name: clicks, partitions: 2}
access: {default: allow}
acls:
  - {effect: allow, principal: {group: outer}, resource: topic, name: orders, operations: [produce, describe]}
  - {effect: deny, principal: everyone, resource: group, name: secret, pattern: prefix, addresses: [10.0.0.0/8]}
  - {effect: allow, principal: {service_account: billing}, resource: tenant}
"""


def test_what_is_applied_differs_no_more(
    live_server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    house = make_house("acme")
    actions.create_topic(ACTOR, house.tenant, name="orders", partitions=3, settings={})
    _, text = create_key(ACTOR, house.tenant, name="cli")
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", text.reveal())
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    file = tmp_path / "team.yaml"
    file.write_text(FILE)
    assert run(["diff", "-f", str(file)]) == 2, capsys.readouterr()
    assert run(["apply", "-f", str(file), "--yes"]) == 0, capsys.readouterr()
    assert run(["diff", "-f", str(file), "--prune"]) == 0, capsys.readouterr()
    topics = {one.name: one for one in queries.topics(house.tenant)}
    assert topics["orders"].partitions == 4 and topics["clicks"].partitions == 2
    file.write_text("service_accounts: []\nprincipal_groups: []\nacls: []\n")
    assert run(["apply", "-f", str(file), "--yes", "--prune"]) == 0, capsys.readouterr()
    assert run(["diff", "-f", str(file), "--prune"]) == 0, capsys.readouterr()


Apply = Callable[..., int]


@pytest.fixture
def house(live_server: Any, monkeypatch: pytest.MonkeyPatch) -> House:
    """With the command line set up for its key."""
    made = make_house("acme")
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", made.credentials[Standing.KEY])
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    everything_delivered()
    return made


@pytest.fixture
def apply(house: House, tmp_path: Path) -> Apply:
    def applied(text: str, *options: str, command: str = "apply") -> int:
        file = tmp_path / "team.yaml"
        file.write_text(text)
        return run([command, "-f", str(file), *(("--yes",) if command == "apply" else ()), *options])

    return applied


KEYS = """
service_accounts: [{name: billing}]
keys:
  - {name: till, service_account: billing, scopes: [{resource: topic, name: a, operations: [consume]}]}
  - {name: desk, service_account: billing, expires_at: "2099-01-31T00:00:00Z"}
"""


def written(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_keys_are_made_once_and_their_texts_stand_in_a_private_file(
    apply: Apply, house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "keys.jsonl"
    assert apply(KEYS, "--keys-to", str(texts)) == 0, capsys.readouterr()
    assert stat.S_IMODE(texts.stat().st_mode) == 0o600
    rows = written(texts)
    assert [(one["name"], one["service_account"]) for one in rows] == [
        ("till", "billing"),
        ("desk", "billing"),
    ]
    shown = capsys.readouterr()
    assert not any(one["api_key"] in shown.out + shown.err for one in rows)
    assert {one["id"] for one in rows} == {
        key.public_id for key in ApiKey.objects.exclude(service_account=None)
    }
    assert apply(KEYS, "--keys-to", str(texts)) == 0
    assert apply(KEYS) == 0, "nothing is made, so no place is needed"
    assert apply(KEYS, command="diff") == 0
    assert written(texts) == rows


def test_a_text_that_goes_to_the_standard_output_is_all_that_stands_there(
    apply: Apply, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply(KEYS, "--keys-to", "-") == 0
    shown = capsys.readouterr()
    rows = [row.split("\t") for row in shown.out.splitlines()]
    assert [row[:2] for row in rows] == [["till", "billing"], ["desk", "billing"]]
    assert all(row[3].startswith("penstock_") and row[3] not in shown.err for row in rows)
    assert "+ key till of billing" in shown.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "say where with --keys-to"),
        (("--keys-to", "-", "--json"), "--keys-to a file"),
        (("--keys-to", "/nowhere/keys"), "No such file"),
        (("--keys-to", "/dev/null"), "chmod 600"),
    ],
)
def test_without_a_place_for_texts_nothing_is_made(
    options: tuple[str, ...], said: str, apply: Apply, house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply(KEYS, *options) in (2, 5)
    assert said in capsys.readouterr().err
    assert not ServiceAccount.objects.filter(tenant=house.tenant).exists()


def test_a_file_that_others_may_read_is_refused_and_stays(
    apply: Apply, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "keys.jsonl"
    texts.write_text("mine\n")
    texts.chmod(0o644)
    assert apply(KEYS, "--keys-to", str(texts)) == 5
    assert "only its owner reads" in capsys.readouterr().err and texts.read_text() == "mine\n"


def test_a_key_whose_text_is_lost_is_revoked_and_the_next_apply_goes_on(
    apply: Apply, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = tmp_path / "keys.jsonl"
    kept = new_keys.NewKeys.keep

    def full(self: new_keys.NewKeys, account: str, made: dict[str, Any]) -> None:
        if made["name"] == "desk":
            raise OSError("the disk is full")
        kept(self, account, made)

    monkeypatch.setattr(new_keys.NewKeys, "keep", full)
    assert apply(KEYS, "--keys-to", str(texts)) == 5
    said = capsys.readouterr().err
    assert "2 of 3 changes are applied" in said and "the key is revoked again" in said
    assert ApiKey.objects.get(name="desk").revoked_at is not None
    monkeypatch.setattr(new_keys.NewKeys, "keep", kept)
    assert apply(KEYS, "--keys-to", str(texts)) == 0
    assert [one["name"] for one in written(texts)] == ["till", "desk"]


class Killed(BaseException):
    """The command ends where it stands."""


KEY = """
service_accounts: [{name: billing}]
keys: [{name: till, service_account: billing}]
"""


def valid_keys(house: House) -> list[str]:
    return [key.public_id for key in tenants.counted_keys(house.tenant).exclude(service_account=None)]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


@pytest.fixture
def killed_before_its_answer(apply: Apply, house: House, texts: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of the key that was made, and whose text was lost."""

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(new_keys.NewKeys, "keep", kill)
        apply(KEY, "--keys-to", str(texts))
    assert stat.S_IMODE(new_keys.unanswered_file(texts).stat().st_mode) == 0o600
    assert written(texts) == []
    (lost,) = valid_keys(house)
    return lost


def test_after_a_kill_before_its_answer_the_same_command_revokes_the_lost_key_and_makes_another(
    killed_before_its_answer: str,
    apply: Apply,
    house: House,
    texts: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert apply(KEY, "--keys-to", str(texts)) == 0
    said = capsys.readouterr().err
    assert (
        f"The text of key till of billing was lost when an earlier run ended: {killed_before_its_answer}"
        in said
    )
    (row,) = written(texts)
    assert valid_keys(house) == [row["id"]]
    assert row["id"] != killed_before_its_answer
    assert not new_keys.unanswered_file(texts).exists()
    assert apply(KEY, "--keys-to", str(texts)) == 0
    assert written(texts) == [row]


def test_after_a_kill_before_the_request_left_no_other_key_stays(
    apply: Apply, house: House, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = RestClient.post

    def post(self: RestClient, path: str, *given: Any, **more: Any) -> Any:
        if path == "/v1/keys":
            raise Killed
        return right(self, path, *given, **more)

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(RestClient, "post", post)
        apply(KEY, "--keys-to", str(texts))
    assert valid_keys(house) == []
    assert apply(KEY, "--keys-to", str(texts)) == 0
    (row,) = written(texts)
    assert valid_keys(house) == [row["id"]]


def test_a_lost_key_that_is_not_the_callers_or_too_old_is_named_and_left_to_people(
    killed_before_its_answer: str,
    apply: Apply,
    house: House,
    texts: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = new_keys.unanswered_file(texts)
    before = asked.read_text()
    asked.write_text(json.dumps({**json.loads(before), "asked_at": "2020-01-01T00:00:00+00:00"}))
    assert apply(KEY, "--keys-to", str(texts)) == 5
    assert "then remove this file" in capsys.readouterr().err
    asked.write_text(before)
    _, another = create_key(ACTOR, house.tenant, name="another caller")
    monkeypatch.setenv("PENSTOCK_API_KEY", another.reveal())
    assert apply(KEY, "--keys-to", str(texts)) == 5
    assert f"it may be {killed_before_its_answer}" in capsys.readouterr().err
    assert valid_keys(house) == [killed_before_its_answer]
    asked.write_text("{")
    assert apply(KEY, "--keys-to", str(texts)) == 5
    assert "is not what penstock apply writes" in capsys.readouterr().err


def test_a_key_that_is_refused_leaves_nothing_to_look_after(apply: Apply, texts: Path) -> None:
    wrong = KEY.replace("name: till,", 'name: till, expires_at: "2020-01-31T00:00:00Z",')
    assert apply(wrong, "--keys-to", str(texts)) != 0
    assert not new_keys.unanswered_file(texts).exists()


def test_keys_that_the_file_does_not_name_are_revoked_where_that_is_asked_for(
    apply: Apply, house: House, tmp_path: Path
) -> None:
    assert apply(KEYS, "--keys-to", str(tmp_path / "keys")) == 0
    assert apply("keys: []", "--prune", command="diff") == 0
    assert apply("keys: []", "--prune-keys", command="diff") == 2
    assert apply("keys: []", "--prune-keys") == 0
    valid = tenants.counted_keys(house.tenant).exclude(service_account=None)
    assert not valid.exists()


def test_limits_that_differ_are_refused_to_a_tenants_key_before_anything_is_done(
    apply: Apply, house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    there = limits_of(house.tenant).partitions_max
    text = "topics: [{name: fresh}]\nquotas: {partitions_max: %d}"
    assert apply(text % (there + 1), command="diff") == 2
    assert f"partitions_max: {there} → {there + 1}" in capsys.readouterr().out
    assert apply(text % (there + 1)) == 4
    assert "quotas: they differ, and operators set them" in capsys.readouterr().err
    assert not queries.topics(house.tenant).exists()
    assert apply(text % there) == 0, "limits that are as the file says are no difference"
    assert queries.topics(house.tenant).exists()


def test_an_operator_sets_the_limits_of_one_tenant_and_nothing_else(
    apply: Apply, house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "operator.token"
    token.write_text(house.credentials[Standing.OPERATOR])
    other = make_house("other").tenant
    before = limits_of(other)
    options = ("--token-file", str(token), "--tenant", house.tenant.public_id)
    assert apply("quotas: {plan: committed, topics_max: 12}", *options) == 0, capsys.readouterr()
    assert limits_of(house.tenant).topics_max == 12
    assert limits_of(other) == before
    assert apply("quotas: {plan: committed, topics_max: 12}", *options, command="diff") == 0
    assert apply("quotas: {topics_max: 1}\ntopics: []", *options) == 5
    assert "an operator sets quotas and nothing else" in capsys.readouterr().err
    assert apply("quotas: {topics_maxx: 1}", *options) == 5
    assert "did you mean topics_max?" in capsys.readouterr().err
    assert apply("quotas: {bin_days: 100000}", *options) == 5
    assert "bin_days" in capsys.readouterr().err


def test_a_half_done_apply_says_what_is_done_and_goes_on_when_it_is_repeated(
    apply: Apply, house: House, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "service_accounts: [{name: a}]\ntopics: [{name: x}, {name: y, settings: {replication: 99}}]"
    assert apply(text) == 5
    said = capsys.readouterr().err
    assert "2 of 3 changes are applied" in said and "+ topic x" in said and "+ topic y" not in said
    assert "it goes on with the rest" in said and "topic y is refused: replication: 99" in said
    assert apply(text.replace(", settings: {replication: 99}", "")) == 0
    assert [one.name for one in queries.topics(house.tenant)] == ["x", "y"]
    assert ServiceAccount.objects.filter(tenant=house.tenant, name="a").count() == 1


def test_a_file_of_a_hundred_megabytes_is_refused_without_being_read(
    house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "large.yaml"
    with file.open("wb") as output:
        output.truncate(100_000_000)
    assert run(["apply", "-f", str(file), "--yes"]) == 5
    assert "over 10000000 bytes" in capsys.readouterr().err


def test_a_dry_run_shows_what_would_be_applied_and_changes_nothing(
    apply: Apply, house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply("topics: [{name: fresh, partitions: 3}]", "--dry-run", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in shown["changes"]] == ["fresh"] and shown["applied"] == 0
    assert not queries.topics(house.tenant).exists()


def test_a_setting_that_is_null_in_the_file_goes_back_to_the_default_as_the_preview_says(
    apply: Apply, house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = {"retention_ms": 7_200_000, "replication": 2, "flush_ms": 500}
    actions.create_topic(ACTOR, house.tenant, name="orders", partitions=3, settings=changed)
    file = tmp_path / "null.yaml"
    nulls = "{retention_ms: null, replication: ~, segment_bytes: null}"
    file.write_text(
        f"topics: [{{name: orders, partitions: 3, settings: {nulls}}}, {{name: new, settings: {nulls}}}]"
    )
    assert run(["diff", "-f", str(file), "--json"]) == 2
    orders = json.loads(capsys.readouterr().out)["changes"][0]
    assert [(each["field"], each["before"], each["after"]) for each in orders["fields"]] == [
        ("settings.replication", 2, 3),
        ("settings.retention_ms", 7_200_000, 604_800_000),
    ]
    assert run(["apply", "-f", str(file), "--yes"]) == 0, capsys.readouterr()
    there = queries.topic(house.tenant, "orders").settings
    assert there == {**queries.topic(house.tenant, "new").settings, "flush_ms": 500, "min_insync_replicas": 2}
    assert run(["diff", "-f", str(file)]) == 0, capsys.readouterr()
    # One that the file does not name stays as it is.
    assert apply("topics: [{name: orders, partitions: 3}]") == 0
    assert queries.topic(house.tenant, "orders").settings == there


def test_a_dry_run_of_a_command_is_the_services_own(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    actions.create_topic(ACTOR, house.tenant, name="orders", partitions=3, settings={})
    everything_delivered()
    assert run(["topic", "alter", "orders", "--partitions", "5", "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "\tpartitions\t3\t5" in shown.out and "Nothing was changed" in shown.err
    assert run(["topic", "delete", "orders", "--dry-run"]) == 0
    assert run(["topic", "alter", "orders", "--partitions", "2", "--dry-run"]) == 5, "as without it"
    assert run(["topic", "create", "orders", "--partitions", "1", "--dry-run"]) == 5
    assert queries.topic(house.tenant, "orders").partitions == 3


WEBHOOKS = """
webhooks:
  - {name: siem, url: "https://siem.example.com/hush"}
  - {name: keys, url: "https://hooks.example.com/k", events: [audit.key.*, audit.acl.*]}
"""


def test_webhooks_are_made_changed_and_removed_and_their_secrets_stand_in_a_private_file(
    apply: Apply,
    house: House,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = tmp_path / "secrets.jsonl"
    assert apply(WEBHOOKS, "--keys-to", str(texts)) == 4, "a key has no webhooks"
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.OWNER])
    assert apply(WEBHOOKS) == 2, "where do the secrets go?"
    assert apply(WEBHOOKS, command="diff") == 2
    assert "hush" not in capsys.readouterr().out
    assert apply(WEBHOOKS, "--keys-to", str(texts)) == 0, capsys.readouterr()
    rows = written(texts)
    assert [one["webhook"] for one in rows] == ["siem", "keys"]
    shown = capsys.readouterr()
    assert all(one["secret"].startswith("whsec_") and one["secret"] not in shown.out for one in rows)
    assert apply(WEBHOOKS, command="diff") == 0, capsys.readouterr()
    changed = WEBHOOKS.replace("/hush", "/hush-2").replace(", audit.acl.*", "")
    assert apply(changed) == 0, capsys.readouterr()
    shown = capsys.readouterr()
    assert "events: audit.acl.*, audit.key.* → audit.key.*" in shown.out and "hush" not in shown.out
    assert {one.name: one.url for one in Webhook.objects.all()}["siem"] == "https://siem.example.com/hush-2"
    assert apply("webhooks: []") == 0 and Webhook.objects.count() == 2, "nothing goes without --prune"
    assert apply("webhooks: []", "--prune") == 0 and not Webhook.objects.exists()
    assert written(texts) == rows


def test_a_webhook_whose_answer_was_lost_is_named_with_what_to_do(
    apply: Apply,
    house: House,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.OWNER])
    right = RestClient.post

    def post(self: RestClient, path: str, *given: Any, **more: Any) -> Any:
        answer = right(self, path, *given, **more)
        if path.endswith("?dry_run=true"):
            return answer
        raise OutcomeUnknown("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(RestClient, "post", post)
        assert apply(WEBHOOKS, "--keys-to", str(tmp_path / "secrets.jsonl")) != 0
    said = capsys.readouterr().err
    assert "shows siem now, its secret is lost: penstock webhook rotate makes another" in said
    assert [one.name for one in Webhook.objects.all()] == ["siem"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("webhooks: [{name: a}]", "url is missing"),
        ("webhooks: [{name: a, url: http://hush.example.com}]", "https://host/path"),
        ("webhooks: [{name: a, url: https://x.example.com, events: []}]", "at least one pattern"),
        ("webhooks: [{name: a, url: https://x.example.com, secret: whsec_a}]", "no known field"),
        ("webhooks: [{name: a, url: https://x.example.com}, {name: a, url: https://y.example.com}]", "same"),
    ],
)
def test_a_webhook_that_cannot_be_is_refused_by_its_line(
    apply: Apply, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    assert apply(text, command="diff") == 1
    told = capsys.readouterr().err
    assert says in told and "team.yaml:1" in told and "hush" not in told


BUDGETS = """
service_accounts: [{name: billing}]
topics: [{name: orders}]
budgets:
  - {name: all, measure: bytes, amount: 500000000000, thresholds: [100, 50, 100]}
  - {name: orders, measure: messages, amount: 1000, period: day, policy: slow, slow_bytes_per_s: 100000,
     topic: orders, counts_reads: true}
  - {name: robot, measure: bytes, amount: 7, policy: refuse, service_account: billing}
"""


def test_budgets_are_made_with_what_they_name_changed_and_removed(
    apply: Apply, house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.OWNER])
    assert apply(BUDGETS, command="diff") == 2
    assert apply(BUDGETS) == 0, capsys.readouterr()
    made = {row.name: row for row in Budget.objects.select_related("account").order_by("pk")}
    assert [(row.period, row.policy, row.topic) for row in made.values()] == [
        ("month", "notify", ""),
        ("day", "slow", "orders"),
        ("month", "refuse", ""),
    ]
    assert made["all"].thresholds == [50, 100] and made["orders"].counts_reads
    assert made["robot"].account == ServiceAccount.objects.get(tenant=house.tenant, name="billing")
    assert apply(BUDGETS, "--prune", command="diff") == 0, capsys.readouterr()
    changed = BUDGETS.replace("amount: 7,", "amount: 8, thresholds: [90],").replace(
        "slow_bytes_per_s: 100000", "slow_bytes_per_s: 5"
    )
    capsys.readouterr()
    assert apply(changed) == 0, capsys.readouterr()
    shown = capsys.readouterr().out
    assert "~ budget robot" in shown and "amount: 7 → 8" in shown and "thresholds: 50, 80, 100 → 90" in shown
    assert "slow_bytes_per_s: 100000 → 5" in shown and "budget all" not in shown
    assert Budget.objects.get(name="robot").pk == made["robot"].pk, "it counts on"
    assert apply("budgets: []") == 0 and Budget.objects.count() == 3, "nothing goes without --prune"
    nothing = "budgets: []\nservice_accounts: []"
    assert apply(nothing, "--prune") == 0, capsys.readouterr()
    assert not Budget.objects.exists() and not ServiceAccount.objects.filter(ended_at=None).exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("budgets: [{name: a, measure: bytes, amount: 0}]", "amount: 0 is not within 1 to"),
        ("budgets: [{name: a, measure: gold, amount: 1}]", "measure: one of cost, bytes, messages required"),
        ("budgets: [{name: a, measure: bytes}]", "amount is missing"),
        (
            "budgets: [{name: a, measure: bytes, amount: 1, thresholds: [0]}]",
            "thresholds: 0 is not within 1 to",
        ),
        (
            "budgets: [{name: a, measure: bytes, amount: 1, thresholds: [1,2,3,4,5,6,7,8,9,10,11]}]",
            "thresholds: 11 of them, at most 10 allowed",
        ),
        (
            "budgets: [{name: a, measure: bytes, amount: 1, counts_reads: 1}]",
            "counts_reads: true or false required",
        ),
        ("budgets: [{name: a, measure: bytes, amount: 1, used: 1}]", "'used' is no known field"),
        (
            "budgets: [{name: a, measure: bytes, amount: 1, service_account: nobody}]",
            "service_account:nobody is not there",
        ),
    ],
)
def test_a_budget_that_cannot_be_is_refused_before_anything_is_done(
    apply: Apply, house: House, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    assert apply(f"{text}\ntopics: [{{name: fresh}}]") == 5
    assert says in capsys.readouterr().err
    assert not queries.topics(house.tenant).exists()


def test_what_the_service_refuses_of_a_budget_is_heard_before_anything_is_done(
    apply: Apply, house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "topics: [{name: fresh}]\nbudgets: [{name: a, measure: bytes, amount: 1%s}]"
    assert apply(text % "") == 4, "no key makes budgets"
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.OWNER])
    assert apply(text % ", policy: slow") == 5
    assert "slow_bytes_per_s" in capsys.readouterr().err
    assert not queries.topics(house.tenant).exists()
    assert apply(text % "") == 0
    assert apply(text.replace("fresh", "fresher") % ", policy: slow") == 5, "a change likewise"
    assert [topic.name for topic in queries.topics(house.tenant)] == ["fresh"]


def test_what_a_budget_has_for_good_is_no_change(
    apply: Apply, house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.OWNER])
    assert apply("budgets: [{name: a, measure: bytes, amount: 1, topic: orders}]") == 0
    for other, says in (
        ("measure: bytes, amount: 1", "topic is orders, the file says none"),
        ("measure: messages, amount: 1, topic: orders", "measure is bytes, the file says messages"),
        (
            "measure: bytes, amount: 1, topic: orders, counts_reads: true",
            "counts_reads is false, the file says true",
        ),
    ):
        assert apply(f"budgets: [{{name: a, {other}}}]", command="diff") == 1
        said = capsys.readouterr().err
        assert f"budget a: {says}" in said and "declare another name" in said


@pytest.fixture
def owner(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line has the token of a sign-in."""
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.OWNER])


@pytest.mark.usefixtures("owner")
def test_a_budget_of_an_account_that_is_made_with_it_is_tried_before_too(
    apply: Apply, house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "service_accounts: [{name: fresh}]\n"
        "budgets: [{name: a, measure: bytes, amount: 1, policy: slow, service_account: fresh}]"
    )
    assert apply(text) == 5
    assert "slow_bytes_per_s" in capsys.readouterr().err
    assert not ServiceAccount.objects.filter(tenant=house.tenant).exists()
    assert apply(text.replace("policy: slow, ", "")) == 0, capsys.readouterr()


def budgets_named(*names: str) -> str:
    return f"budgets: [{', '.join(f'{{name: {name}, measure: bytes, amount: 1}}' for name in names)}]"


@pytest.mark.usefixtures("owner")
def test_budgets_make_way_for_others_where_there_can_be_no_more(
    apply: Apply, house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    first = [f"a{number}" for number in range(BUDGETS_PER_TENANT_MAX)]
    assert apply(f"{budgets_named(*first, 'more')}\ntopics: [{{name: fresh}}]") == 5
    assert "budgets: 11 of them in the end, at most 10 allowed" in capsys.readouterr().err
    assert not queries.topics(house.tenant).exists()
    assert apply(budgets_named(*first)) == 0
    other = [*first[1:], "other"]
    assert apply(budgets_named(*other)) == 5, "nothing makes way without --prune"
    assert apply(budgets_named(*other), "--prune") == 0, capsys.readouterr()
    assert sorted(Budget.objects.values_list("name", flat=True)) == sorted(other)
    assert apply(budgets_named(), "--prune") == 0, capsys.readouterr()


@pytest.mark.usefixtures("owner")
@pytest.mark.parametrize("policy", ["", ", policy: refuse"])
def test_a_budget_that_is_not_to_slow_any_more_has_no_rate(
    apply: Apply, policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "budgets: [{name: a, measure: bytes, amount: 1000000000000000000%s}]"
    assert apply(text % ", policy: slow, slow_bytes_per_s: 5") == 0, capsys.readouterr()
    assert apply(text % policy) == 0, capsys.readouterr()
    assert Budget.objects.get().slow_bytes_per_s == 0
    assert apply(text % policy, command="diff") == 0


@pytest.mark.usefixtures("owner")
def test_what_cannot_be_removed_or_named_is_heard_before_anything_is_done(
    apply: Apply, house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply(budgets_named("a")) == 0
    assert apply("budgets: [{name: ' b ', measure: bytes, amount: 1}]", command="diff") == 1
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.KEY])
    assert apply("budgets: []\ntopics: [{name: fresh}]", "--prune") == 4
    assert not queries.topics(house.tenant).exists() and Budget.objects.count() == 1


@pytest.mark.usefixtures("owner")
def test_a_file_of_budgets_alone_knows_the_accounts_that_are_there(apply: Apply, house: House) -> None:
    assert apply("service_accounts: [{name: billing}]") == 0
    assert apply("budgets: [{name: a, measure: bytes, amount: 1, service_account: billing}]") == 0
    account = Budget.objects.select_related("account").get().account
    assert account is not None and account.name == "billing"
