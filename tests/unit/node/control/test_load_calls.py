"""The load of a broker as it says it: sums over all it has, and the partitions that weigh most."""

import asyncio

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.node.control.load_calls import LoadCalls
from data_plane.node.ports import Caller
from data_plane.node.replicas.loads import FOLD_MS
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.stats import NodeStats
from data_plane.placement.hot_keys import HotKeyTable
from data_plane.testkit.rng import Chances, SimRng
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import TOPIC, Miniature, where
from tests.unit.node.replicas.test_follower_stream import OTHER, StillClock, led
from tests.unit.node.serving.allowances import environment
from tests.unit.node.storage import CONFIG

pytestmark = pytest.mark.pure  # stand-ins for what mypyc gives a type

CALLER = Caller(peer="p", authorization="", identity=None)
BATCHES = (3, 1, 2)
"""In the log of each partition."""
FOLLOWED = 1


class Loaded:
    """A broker with three partitions, of which it follows the second; partitions 2 and 0 have traffic."""

    def __init__(self) -> None:
        clock, storage = StillClock(), Miniature()
        self.replicas = ReplicaSet()
        for number, batches in enumerate(BATCHES):
            replica = led(storage, clock=clock, partition=number)
            for _ in range(batches):
                storage.append(number, batch=made_batch(2, 400))
            self.replicas.add(replica)
        followed = self.replicas.all()[FOLLOWED]
        assert followed.record is not None
        followed.follow(followed.record.changed(leader=OTHER, leader_epoch=2))
        loads = self.replicas.loads
        for folded in range(1, 51):
            for _ in range(10):
                loads.took(where(2), 10_000)
            loads.pushed(where(0), 20_000)
            loads.fold(folded * FOLD_MS)
        self.disk = storage.disk
        self._calls = LoadCalls(
            environment(clock, SimRng(1, Chances(1)), NodeStats(), storage.disk),
            replicas=self.replicas,
            connections=lambda: 9,
            hot_keys=HotKeyTable(),
        )

    def described(self, partitions_max: int = 10) -> pb.DescribeLoadResponse:
        request = pb.DescribeLoadRequest(partitions_max=partitions_max).SerializeToString()
        return pb.DescribeLoadResponse.FromString(asyncio.run(self._calls.describe_load(CALLER, request)))


def sizes(loaded: Loaded) -> list[int]:
    return [replica.log.size_bytes for replica in loaded.replicas.all()]


def test_sums_are_over_all_that_the_broker_has() -> None:
    loaded = Loaded()
    answer, of_logs = loaded.described(), sizes(loaded)
    assert (answer.broker, answer.connections) == (CONFIG.broker_id, 9)
    assert (answer.replicas, answer.leaders) == (3, 2)
    assert answer.log_bytes == sum(of_logs) and answer.led_log_bytes == of_logs[0] + of_logs[2]
    assert answer.bytes_in_per_s == pytest.approx(20_000, rel=0.01)
    assert answer.bytes_out_per_s == pytest.approx(4_000, rel=0.01)
    usage = loaded.disk.usage()
    assert answer.disk_total_bytes == usage.total_bytes
    assert answer.disk_used_bytes == usage.total_bytes - usage.free_bytes


def test_each_partition_is_told_with_its_rates_and_size() -> None:
    loaded = Loaded()
    answer, of_logs = loaded.described(), sizes(loaded)
    told = {partition.partition: partition for partition in answer.partitions}
    assert set(told) == {0, 2}, "what is followed and has no traffic is not named"
    assert all(partition.topic_id == TOPIC and partition.leads for partition in told.values())
    assert [told[number].log_bytes for number in (0, 2)] == [of_logs[0], of_logs[2]]
    assert told[2].bytes_in_per_s == pytest.approx(20_000, rel=0.01)
    assert told[2].batches_per_1000_s == pytest.approx(2_000, rel=0.01)
    assert (told[2].bytes_out_per_s, told[2].slow_downs_per_1000_s, told[2].hot_key_percent) == (0, 0, 0)
    assert told[0].bytes_out_per_s == pytest.approx(4_000, rel=0.01)
    assert (told[0].bytes_in_per_s, told[0].batches_per_1000_s) == (0, 0)


@pytest.mark.parametrize(("partitions_max", "named"), [(0, []), (1, [2]), (2, [2, 0]), (3, [2, 0])])
def test_half_of_those_named_have_most_traffic_and_the_others_are_largest(
    partitions_max: int, named: list[int]
) -> None:
    answer = Loaded().described(partitions_max)
    assert [partition.partition for partition in answer.partitions] == named
