"""The hash of a cut: every value of it counts, its order does not."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.invariant import InvariantBroken
from penstock.records.cut import CutEnd, cut_sha256

TOPIC = TopicId(bytes(range(16)))
FIRST = CutEnd(
    where=TopicPartition(TOPIC, 0), log_generation=1, end_offset=25, accepted_ms=7, messages=20, bytes=900
)
SECOND = replace(FIRST, where=TopicPartition(TOPIC, 1), last=True)


def test_its_bytes_are_frozen() -> None:
    told = cut_sha256("tn_1", "cut_1", 1_700_000_000_000, [FIRST, SECOND])
    assert told == "9c0898db2dd3a51e3f9f6f5434ec75aed368bf7fb6bb731cd90fb156067908b1"
    assert cut_sha256("tn_1", "cut_1", 1_700_000_000_000, [SECOND, FIRST]) == told


@pytest.mark.parametrize(
    "change",
    [
        {"where": TopicPartition(TopicId(bytes(16)), 0)}, {"where": TopicPartition(TOPIC, 2)},
        {"log_generation": 2}, {"end_offset": 24}, {"accepted_ms": 8}, {"messages": 21}, {"bytes": 901},
        {"last": True},
    ],
    ids=str,
)  # fmt: skip
def test_every_value_of_a_partition_counts(change: dict[str, Any]) -> None:
    assert cut_sha256("tn_1", "cut_1", 5, [replace(FIRST, **change), SECOND]) != cut_sha256(
        "tn_1", "cut_1", 5, [FIRST, SECOND]
    )


@pytest.mark.parametrize(
    "named", [("tn_2", "cut_1", 5), ("tn_1", "cut_2", 5), ("tn_1", "cut_1", 6), ("tn_1cut_", "1", 5)]
)
def test_tenant_id_and_end_count_each_by_itself(named: tuple[str, str, int]) -> None:
    assert cut_sha256(*named, [FIRST]) != cut_sha256("tn_1", "cut_1", 5, [FIRST])


def test_a_partition_stands_in_a_cut_once_and_has_whole_numbers() -> None:
    with pytest.raises(InvariantBroken):
        cut_sha256("tn_1", "cut_1", 5, [FIRST, replace(FIRST, log_generation=2)])
    with pytest.raises(InvariantBroken):
        replace(FIRST, end_offset=-1)
    with pytest.raises(InvariantBroken):
        replace(FIRST, where=TopicPartition(TopicId(b"short"), 0))
