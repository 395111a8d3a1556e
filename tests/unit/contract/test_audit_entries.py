"""The chain of audit entries: its bytes are frozen, and what entries are found by is read out of what is hashed."""

from typing import Any

import pytest

from penstock.contract.audit_entries import NO_HASH, ChainCheck, Facts, entry_hash, facts

FIRST = {
    "tenant": "tn_0",
    "sequence": 1,
    "at": "2026-01-31T12:00:00.000001+00:00",
    "actor_kind": "person",
    "actor_id": "usr_ann",
    "action": "topic.create",
    "object_id": "top_0",
    "before": {},
    "after": {"name": "orders", "partitions": 3, "ü": [1, None]},
    "request_id": "r1",
    "source": "192.0.2.1",
}
SECOND = {**FIRST, "sequence": 2, "action": "topic.delete", "before": {"name": "orders"}, "after": {}}
FROZEN = (
    "9ce80b412680b5d14209e9736b5a2f6b8ed867aceb5d0f53ef1ed1ff1053d744",
    "f25e8f4e8cbeb784337c25974103d59b9a91720b71c22cb07ac3f8bcbae38570",
)
"""As release 0.1 computed them."""


def chained(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    made, previous = [], NO_HASH
    for entry in entries:
        told = facts(entry["action"], entry["before"], entry["after"])
        digest = entry_hash(previous, entry)
        made.append(
            {
                **entry,
                "outcome": told.outcome,
                "times": told.times,
                "object_kind": told.object_kind,
                "object_name": told.object_name,
                "previous_hash": previous,
                "hash": digest,
            }
        )
        previous = digest
    return made


def test_hashes_are_those_of_the_first_release() -> None:
    first = entry_hash(NO_HASH, FIRST)
    assert (first, entry_hash(first, SECOND)) == FROZEN


@pytest.mark.parametrize(
    ("action", "before", "after", "expected"),
    [
        ("topic.create", {}, {"name": "a"}, ("done", 1, "topic", "a")),
        ("topic.delete", {"name": "a"}, {}, ("done", 1, "topic", "a")),
        ("topic.rename", {"name": "a"}, {"name": "b"}, ("done", 1, "topic", "b")),
        ("key.read", {}, {"audit": {"outcome": "done", "times": 3}}, ("done", 3, "key", "")),
        ("key.write", {}, {"audit": {"outcome": "refused", "times": 12}}, ("refused", 12, "key", "")),
        ("bare", {}, {"name": 7, "audit": {"times": True}}, ("done", 1, "bare", "")),
        ("x.y", {}, {"audit": ["refused"]}, ("done", 1, "x", "")),
        ("x.y", {}, {"audit": {"outcome": "maybe", "times": -1}}, ("done", 1, "x", "")),
        ("x.y", {}, {"name": "n" * 300}, ("done", 1, "x", "n" * 255)),
    ],
)
def test_what_an_entry_is_found_by(
    action: str, before: dict[str, Any], after: dict[str, Any], expected: tuple[str, int, str, str]
) -> None:
    outcome, times, kind, name = expected
    assert facts(action, before, after) == Facts(
        outcome=outcome, times=times, object_kind=kind, object_name=name
    )


def test_a_chain_is_followed_from_its_beginning_and_from_a_known_entry() -> None:
    first, second = chained(FIRST, SECOND)
    whole = ChainCheck()
    assert (whole.problem(first), whole.problem(second)) == ("", "")
    assert (whole.tenant, whole.sequence, whole.hash) == ("tn_0", 2, FROZEN[1])
    assert ChainCheck("tn_0", 1, FROZEN[0]).problem(second) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tenant": "tn_1"}, "another tenant"),
        ({"sequence": 3}, "2 is missing"),
        ({"previous_hash": "1" * 64}, "does not follow"),
        ({"actor_id": "usr_bob"}, "its hash is not"),
        ({"hash": "0" * 64}, "its hash is not"),
        ({"outcome": "refused"}, "outcome is not"),
        ({"times": 9}, "times is not"),
        ({"object_kind": "key"}, "object_kind is not"),
        ({"object_name": ""}, "object_name is not"),
    ],
)
def test_an_alteration_is_named_and_the_check_stays_before_it(changed: dict[str, Any], said: str) -> None:
    first, second = chained(FIRST, SECOND)
    check = ChainCheck()
    assert check.problem(first) == ""
    assert said in check.problem({**second, **changed})
    assert (check.sequence, check.problem(second)) == (1, "")


@pytest.mark.parametrize(
    "line", [None, 7, "x", [], {}, {"tenant": "tn_0"}, {**chained(FIRST)[0], "before": None}]
)
def test_what_is_no_entry_is_named_as_such(line: Any) -> None:
    assert ChainCheck().problem(line)
