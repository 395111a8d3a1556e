"""Members come and go under load: only their partitions move, no commit goes back, nothing is left unread."""

import pytest

from tests.integration.brokers import Brokers
from tests.integration.groups.watching import MemberProcess, produced, watched
from tests.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PARTITIONS = 6
STAYS_MS, KILLED_MS = 300_000, 6_000
"""After which silence a member is given up: one that stays is not, on no busy machine; one that is killed is soon."""


def test_only_the_partitions_of_who_joins_and_who_is_killed_move(cluster: Brokers) -> None:
    tenant = cluster.tenant("moving")
    cluster.create_topic(tenant, "orders", PARTITIONS)
    members: list[MemberProcess] = []

    def joined(session_timeout_ms: int) -> MemberProcess:
        members.append(MemberProcess(cluster, tenant, "orders", "readers", session_timeout_ms))
        return members[-1]

    try:
        with produced(cluster, tenant, "orders") as load, watched(cluster, tenant, "readers") as watch:
            one = joined(STAYS_MS)
            wait_until("the first member owns everything", lambda: len(one.owned) == PARTITIONS)
            two = joined(STAYS_MS)
            wait_until("two share", lambda: len(one.owned) == len(two.owned) == 3)
            stable = {id(one): set(one.owned), id(two): set(two.owned)}
            told = {id(one): len(one.events), id(two): len(two.events)}

            three = joined(KILLED_MS)
            wait_until("three share", lambda: len(one.owned) == len(two.owned) == len(three.owned) == 2)
            for old in (one, two):
                revoked = [set(places) for event, places in old.events[told[id(old)] :] if event == "revoked"]
                assert [len(places) for places in revoked] == [1], "each gave up one partition, once"
                assert old.owned == stable[id(old)] - revoked[0], "and kept the others"
                assert revoked[0] <= three.owned

            stable = {id(one): set(one.owned), id(two): set(two.owned)}
            told = {id(one): len(one.events), id(two): len(two.events)}
            lost = set(three.owned)
            wait_until("the third has read", lambda: bool(three.read))
            three.kill()
            wait_until("two share again", lambda: len(one.owned) == len(two.owned) == 3)
            for old in (one, two):
                assert all(event == "assigned" for event, _ in old.events[told[id(old)] :]), "nobody gave up"
                assert stable[id(old)] < old.owned
            assert (one.owned | two.owned) - stable[id(one)] - stable[id(two)] == lost

            two.end()
            assert two.exit_code == 0
            wait_until(
                "what it had moves at once, not with its session", lambda: len(one.owned) == PARTITIONS
            )

        def all_read() -> bool:
            return all(
                set(range(end)) <= set().union(*(member.read.get(partition, set()) for member in members))
                for partition, end in load.ends.items()
            )

        wait_until("every message was delivered", all_read)
        assert sum(load.ends.values()) == load.acknowledged > 0
    finally:
        for member in members:
            member.end()
    assert watch.back == []
    assert watch.looks > 0
    back, kept = (
        sum(
            cluster.metric(number, f"penstock_group_offsets_committed{which}_total") for number in cluster.ids
        )
        for which in ("_back", "")
    )
    assert (back, kept > 0) == (0, True)
    with cluster.client(tenant) as client:
        described = client.group("readers")
        assert described.state == "empty"
        assert {p: offset for (_, p), offset in described.offsets.items()} == load.ends
