"""What a declarative file says, and what is refused with its line."""

from datetime import UTC, datetime

import pytest

from penstock import InvalidRequest
from penstock.admin.declaration import DeclaredKey, DeclaredScope
from penstock.admin.declared_file import FILE_BYTES_MAX, declared_of

WHOLE = b"""
service_accounts: [{name: billing}]
principal_groups:
  - name: team
    members: [{service_account: billing}, {person: A@b.c}]
topics:
  - {name: orders, partitions: 3, settings: {retention_ms: 86400000, durability: FSYNC}}
access: {default: deny}
acls:
  - {effect: allow, principal: {group: team}, resource: topic, name: orders, operations: [produce]}
quotas: {plan: committed, topics_max: 50}
keys:
  - name: till
    service_account: billing
    expires_at: "2030-01-31T00:00:00Z"
    scopes: [{resource: topic, name: orders., pattern: prefix, operations: [produce, describe]}, {resource: tenant}]
"""


def test_every_kind_is_read() -> None:
    wanted = declared_of(WHOLE, "team.yaml")
    assert wanted.service_accounts == ("billing",) and wanted.default == "deny"
    assert wanted.principal_groups == {"team": ("person:a@b.c", "service_account:billing")}
    assert wanted.topics is not None and wanted.topics[0].settings == {
        "retention_ms": 86400000,
        "durability": "fsync",
    }
    assert wanted.acls is not None and wanted.acls[0].principal == "group:team"
    assert wanted.quotas is not None and wanted.quotas.plan == "committed"
    assert wanted.quotas.limits == {"topics_max": 50}
    assert wanted.keys == (
        DeclaredKey(
            name="till",
            service_account="billing",
            expires_at=datetime(2030, 1, 31, tzinfo=UTC),
            scopes=(
                DeclaredScope(resource="tenant", name="", pattern="prefix", operations=()),
                DeclaredScope(
                    resource="topic", name="orders.", pattern="prefix", operations=("describe", "produce")
                ),
            ),
        ),
    )


def test_json_is_taken() -> None:
    wanted = declared_of(b'{"topics": [{"name": "orders", "partitions": 2}]}', "team.json")
    assert wanted.topics is not None and wanted.topics[0].partitions == 2 and wanted.acls is None


def refusal(text: bytes) -> str:
    with pytest.raises(InvalidRequest) as refused:
        declared_of(text, "f.yaml")
    return refused.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "f.yaml:1: the file is empty"),
        (b"{}", "f.yaml:1: the file is empty"),
        (b"# nothing\n", "f.yaml:1: the file is empty"),
        (b"topics: [\n", "this is no YAML"),
        (b"topics: []\n---\ntopics: []\n", "f.yaml:2: a second document begins"),
        (b"topics: &a []\n", "f.yaml:1: anchors and aliases"),
        (b"acls: []\ntopics: *a\n", "f.yaml:2: anchors and aliases"),
        (b"topics: " + b"[" * 100_000, "nested deeper than 16 levels"),
        (b"topics: !!python/name:os.system x\n", "is not taken"),
        (b"topics: []\nacls: []\ntopics: []\n", "f.yaml:3: 'topics' stands twice, first on line 1"),
        (b"topics:\n- name: a\n- name: b\n- name: a\n", "f.yaml:4: topics: the same stands on line 2"),
        (b"service_accounts:\n- name: a\n- name: a\n", "f.yaml:3: service_accounts: the same stands on line 2"),
        (b"topics:\n- name: a\n  partition: 3\n", "f.yaml:3: 'partition' is no known field; did you mean partitions?"),
        (b"topics:\n- name: a\n  settings: {retention_mss: 3}\n", "did you mean retention_ms?"),
        (b"topic: []\n", "did you mean topics?"),
        (b"queues: []\n", "known: quotas, service_accounts"),
        (b"quotas: []\n", "f.yaml:1: quotas: fields required"),
        (b"quotas: {}\n", "a plan or a limit required"),
        (b"quotas: {topics_max: many}\n", "topics_max: a whole number required"),
        (b"quotas: {topics_max: -1}\n", "topics_max: -1 is below 0"),
        (b"quotas: {plan_version: 2, topics_max: 1}\n", "plan_version: name the plan too"),
        (b"quotas: {plan: ''}\n", "printable characters required"),
        (b"quotas:\n  topics_max: 1\n  topics_max: 2\n", "f.yaml:3: 'topics_max' stands twice"),
        (b"keys:\n- {name: till}\n", "f.yaml:2: service_account is missing"),
        (b"keys:\n- {name: till, service_account: a, key: x}\n", "'key' is no known field"),
        (
            b"keys:\n- {name: till, service_account: a}\n- {name: till, service_account: a}\n",
            "f.yaml:3: keys: the same stands on line 2",
        ),
        (b"keys:\n- {name: k, service_account: a, expires_at: 2030-01-31}\n", "put it in quotes"),
        (b"keys:\n- {name: k, service_account: a, expires_at: '2030-01-31'}\n", "has no time zone"),
        (b"keys:\n- {name: k, service_account: a, expires_at: soon}\n", "'soon' is no moment"),
        (b"keys:\n- {name: k, service_account: a, scopes: [{name: x}]}\n", "resource is missing"),
        (b"keys:\n- {name: k, service_account: a, scopes: [{resource: queue, name: x}]}\n", "resource"),
        (
            b"keys:\n- {name: k, service_account: a, scopes: [{resource: group, name: x, operations: [produce]}]}\n",
            "'produce' of a group is not one of",
        ),
        (
            b"keys:\n- {name: k, service_account: a, scopes: [" + b"{resource: tenant}," * 200 + b"]}\n",
            "scopes: 200 of one key, at most",
        ),
        (b"topics: 3\n", "topics: a list required"),
        (b"- topics\n", "fields required"),
        (b"topics:\n- name: no\n", "f.yaml:2: name: text required; put it in quotes"),
        (b"topics:\n- name: a\n  partitions: '3'\n", "partitions: a whole number required"),
        (b"topics:\n- name: a\n  partitions: true\n", "partitions: a whole number required"),
        (b"topics:\n- name: a\n  partitions: 1.5\n", "partitions: a whole number required"),
        (b"topics:\n- name: a\n  partitions: 0\n", "not within 1 to"),
        (b"topics:\n- name: a\n  partitions: 0x" + b"f" * 6000, "f.yaml:3: '0xffff"),
        (b"topics:\n- name: a\n  partitions: " + b"9" * 6000, "written in decimal digits, 18 at most"),
        (b"topics:\n- name: a\n  partitions: 010\n", "'010': whole numbers are written in decimal digits"),
        (b"topics:\n- name: a\n  partitions: 1:30\n", "'1:30': whole numbers are written in decimal digits"),
        (b"topics:\n- name: a\n  settings:\n    retention_ms: -5\n", "f.yaml:4: retention_ms: -5 is not within"),
        (b"topics:\n- name: a\n  settings: {durability: later}\n", "durability: 'later' is not one of"),
        (b"topics:\n- partitions: 1\n", "name is missing"),
        (b"topics:\n- name: a\n  partitions: null\n", "f.yaml:3: partitions: null is taken of a topic's settings"),
        (b"topics:\n", "f.yaml:1: topics: null is taken of a topic's settings alone; leave the field out"),
        (b"quotas: {topics_max: null}\n", "topics_max: a whole number required"),
        (b"topics:\n- name: a\n  settings: {retention: null}\n", "'retention' is no known field"),
        (b"topics:\n- name: a b\n", "f.yaml:2: name: 'a b'"),
        (b"service_accounts:\n- name: ''\n", "printable characters required"),
        (b"access: {default: maybe}\n", "neither allow nor deny"),
        (b"acls:\n- {effect: allow, principal: bob, resource: tenant}\n", "a principal is"),
        (b"acls:\n- {effect: allow, principal: {team: x}, resource: tenant}\n", "no known field"),
        (b"acls:\n- {effect: allow, principal: everyone, resource: queue}\n", "f.yaml:2: resource"),
        (b"acls:\n- {effect: deny, principal: everyone, resource: topic, name: 'a*'}\n", "no topic can be called"),
        (b"principal_groups:\n- {name: a, members: [everyone]}\n", "cannot be a member"),
        (b"topics: \xff\xfe\n", "this is no YAML"),
        (b"x" * (FILE_BYTES_MAX + 1), "over 10000000 bytes"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(text: bytes, said: str) -> None:
    assert said in refusal(text)
