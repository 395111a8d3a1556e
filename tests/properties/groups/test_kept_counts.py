"""What a coordinator counts as records come equals what one counts that reads only what is kept now."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.groups.coordinator import Coordinator
from data_plane.groups.records import (
    CommittedOffset,
    GroupRecord,
    Member,
    Record,
    group_record,
    member_record,
    offset_record,
)
from tests.unit.groups.setup import partition

TENANTS = ("tn_a", "tn_b")


def some_record(chosen: random.Random) -> Record:
    """Of few names, so that what is there is replaced and deleted again and again."""
    tenant, group = chosen.choice(TENANTS), chosen.choice(("readers", "writers"))
    deletes = chosen.random() < 0.4
    kind = chosen.random()
    if kind < 0.2:
        return group_record(
            tenant, group, None if deletes else GroupRecord(epoch=chosen.randrange(9), assignor="uniform")
        )
    if kind < 0.6:
        name = chosen.choice(("a", "b", "c"))
        member = Member(
            member_id=name, topics=("orders",), session_timeout_ms=10_000, rebalance_timeout_ms=60_000
        )
        return member_record(tenant, group, name, None if deletes else member)
    offset = CommittedOffset(offset=chosen.randrange(100), metadata="m" * chosen.randrange(4))
    return offset_record(tenant, group, partition("orders", chosen.randrange(3)), None if deletes else offset)


def counted(core: Coordinator) -> dict[str, object]:
    return {
        "tenants": sorted(core.tenants),
        "groups": {tenant: core.groups_count(tenant) for tenant in TENANTS},
        "members": {tenant: core._members[tenant] for tenant in TENANTS},
        "bytes of offsets": {tenant: core._kept_bytes[tenant] for tenant in TENANTS},
        "size": core.size,
    }


def recounted(core: Coordinator) -> dict[str, object]:
    """What a coordinator counts that applies each record of what is kept, once."""
    other = Coordinator()
    for key in list(core.keys()):
        kept = core.kept(key)
        assert kept is not None
        other.apply(Record(kept[0].key, kept[0].value), 0.0)
    return counted(other)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_counts_are_those_of_what_is_kept_after_each_record(seed: int) -> None:
    chosen = random.Random(seed)
    core = Coordinator()
    for number in range(60):
        record = some_record(chosen)
        core.apply(record, float(number))
        assert counted(core) == recounted(core), f"seed {seed}, record {number}: {record.key!r}"
