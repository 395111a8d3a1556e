"""Wrong arguments of an application are refused at once, with what is required."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.client import call_arguments as check
from penstock.client.arguments import consumer_settings, producer_settings
from penstock.client.descriptions import metadata_call
from penstock.client.groups.descriptions import delete_group, describe_group, reset_group
from penstock.client.record_safety import delete_records
from penstock.contract.errors import ConfigurationError, InvalidRequest
from penstock.profiles import connection_settings
from tests.unit.client.runner import CONSUMER, PRODUCER, Runner

_COMPILED = "str object expected"
"""Compiled cores look at types themselves, before our checks."""
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "timeout text": (lambda: check.wait_ms("5"), "timeout: '5' is not a number of seconds"),
    "timeout nan": (lambda: check.wait_ms(math.nan), "timeout: nan is not"),
    "no count": (
        lambda: check.message_count("max_messages", None),
        "max_messages: None is not a whole number",
    ),
    "half a message": (lambda: check.message_count("max_messages", 2.5), r"max_messages: 2\.5 is not"),
    "less than none": (lambda: check.message_count("max_messages", -1), "max_messages: -1; 0 or more"),
    "topic": (lambda: check.topic_name(b"orders"), "topic: b'orders' is not a name"),
    "described topic": (lambda: metadata_call((None,)), f"topic: None is not a name|{_COMPILED}"),  # type: ignore[arg-type]
    "topic of no letters": (lambda: check.topic_name("t\ud800"), "topic: .* holds what is no letter"),
    "group of no letters": (lambda: check.group_name("g\udcff"), "group: .* holds what is no letter"),
    "group": (lambda: next(describe_group(None)), f"group: None is not a name|{_COMPILED}"),  # type: ignore[arg-type]
    "deleted group": (lambda: next(delete_group(5)), f"group: 5 is not a name|{_COMPILED}"),  # type: ignore[arg-type]
    "partition": (lambda: check.named_partition("orders", "0"), "partition: '0' is not a whole number"),
    "a name for pairs": (
        lambda: check.named_partitions("assign", "orders"),
        "assign: 'orders' is no sequence",
    ),
    "names for pairs": (lambda: check.named_partitions("assign", ["orders"]), "no sequence of"),
    "nothing for pairs": (lambda: check.named_partitions("assign", None), "assign: None is no sequence"),
    "a message for offsets": (
        lambda: check.partition_offsets("commit", object()),
        "behind one message it is",
    ),
    "offset text": (
        lambda: check.partition_offsets("commit", {("orders", 0): "1"}),
        "commit: offset of orders-0: '1' is not",
    ),
    "reset": (lambda: next(reset_group("g", {"orders": 1})), "reset_group: {'orders': 1} is no"),  # type: ignore[dict-item]
    "cut": (lambda: next(delete_records({("orders", 0): 1.5})), "delete_records: offset of orders-0: 1.5"),  # type: ignore[dict-item]
    "place": (lambda: check.log_offset("seek: offset", 1.5), r"seek: offset: 1\.5 is not a whole number"),
    "too far": (lambda: check.log_offset("seek: offset", 2**63), "at most 9223372036854775807 required"),
    "before all": (lambda: check.log_offset("seek: offset", -1), "seek: offset -1; 0 or more"),
    "values": (lambda: check.require_values(None, None), "values is one NoneType, a sequence"),
    "values of a generator": (
        lambda: check.require_values(iter([b"1"]), None),
        "a sequence of values required",
    ),
    "values of a mapping": (lambda: check.require_values({b"1": 1}, None), "values is one dict"),
    "one key": (lambda: check.require_values([b"1"], b"a"), "keys is one bytes, a sequence of keys"),
    "keys": (lambda: check.require_values([b"1"], [b"a", b"b"]), "2 keys for 1 values"),
    "callback": (lambda: check.require_function("callback", None), "callback: None is no function"),
    "partitioner": (
        lambda: producer_settings(**(PRODUCER | {"partitioner": 5})),  # type: ignore[arg-type]
        "partitioner: 5 is no function",
    ),
    "receipts": (
        lambda: producer_settings(**(PRODUCER | {"receipts": 5})),  # type: ignore[arg-type]
        "receipts: 5 is no path",
    ),
    "hook": (
        lambda: consumer_settings(topics="orders", **(CONSUMER | {"on_revoked": 5})),  # type: ignore[arg-type]
        "on_revoked: 5 is no function",
    ),
    "key": (
        lambda: connection_settings(bootstrap="a:1", api_key="k\u00e9y", environment={}),
        "api_key: has letters that no key has",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_given_wrongly_is_refused_with_what_is_required(case: str) -> None:
    call, said = REFUSED[case]
    with pytest.raises((TypeError, ValueError, InvalidRequest, ConfigurationError), match=said):
        call()


def test_what_is_given_rightly_passes(tmp_path: Path) -> None:
    assert check.wait_ms(None) == math.inf
    assert check.wait_ms(None, 3) == 3_000
    assert check.wait_ms(math.inf) == check.wait_ms(10**400) == 4e9
    assert check.message_count("max_messages", 2**70) == 2**63 - 1
    assert check.wait_ms(0.25) == 250
    assert check.named_partitions("assign", iter([("orders", 0), ["orders", True]])) == [
        ("orders", 0),
        ("orders", 1),
    ]
    assert check.partition_offsets("commit", {("orders", 0): 5}) == {("orders", 0): 5}
    for values in ([b"1"], (b"1",), deque([b"1"])):
        check.require_values(values, None)
    path: Any = tmp_path / "receipts"
    assert producer_settings(**(PRODUCER | {"receipts": path})).receipts == str(path)  # type: ignore[arg-type]
    key = connection_settings(bootstrap="a:1", api_key="key\n", environment={}).api_key
    assert key == "key", "files and secrets end with a newline"


def test_a_consumer_without_topics_says_so_and_one_that_was_assigned_nothing_reads_nothing() -> None:
    runner = Runner()
    runner.cluster.create("orders", 1)
    consumer = runner.consumer()
    with pytest.raises(ConfigurationError, match="it has no topics"):
        consumer.prepare()
    consumer.assign([])
    assert consumer.prepare() is None
