"""What a broker says of its load: sums over all of its partitions, and by name those that weigh most."""

import asyncio

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.testkit.cluster import SimBroker
from tests.simulation.test_cuts import METERED, Period, topic
from tests.simulation.test_placement_calls import asked


async def load_of(period: Period, broker: SimBroker, partitions_max: int = 100) -> pb.DescribeLoadResponse:
    request = pb.DescribeLoadRequest(partitions_max=partitions_max)
    return await asked(period, broker, methods.DESCRIBE_LOAD, request, pb.DescribeLoadResponse)


def test_a_broker_names_its_busy_partitions_and_sums_up_all() -> None:
    async def story(period: Period) -> None:
        where = period.where("busy")
        leader, other = period.led_by(where)
        before = await load_of(period, leader)
        assert before.replicas > 1 and not before.bytes_in_per_s
        for _ in range(6):
            await period.produce("busy", 40)
            await asyncio.sleep(2)
        load = await load_of(period, leader)
        named = {(p.topic_id, p.partition): p for p in load.partitions}
        busy = named[where.topic_id, 0]
        assert busy.leads and busy.bytes_in_per_s > 0 and busy.batches_per_1000_s > 0
        assert 0 < busy.bytes_in_per_s <= load.bytes_in_per_s
        assert 0 < busy.log_bytes <= load.led_log_bytes <= load.log_bytes
        assert 0 < load.disk_used_bytes < load.disk_total_bytes
        node = leader.node
        assert node is not None
        assert (load.leaders, load.replicas) == (
            sum(replica.leading is not None for replica in node.replicas.all()),
            len(node.replicas.all()),
        )
        follower = await load_of(period, other)
        assert (where.topic_id, 0) not in {(p.topic_id, p.partition) for p in follower.partitions}
        assert follower.log_bytes > 0

    Period(METERED, topic("busy"), topic("calm")).run(story)


def test_the_answer_names_no_more_than_it_was_asked_for() -> None:
    async def story(period: Period) -> None:
        leader, _ = period.led_by(period.where("many"))
        assert len((await load_of(period, leader, 2)).partitions) == 2
        assert len((await load_of(period, leader, 0)).partitions) == 0

    Period(METERED, topic("many", partitions=12)).run(story)
