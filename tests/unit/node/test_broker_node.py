"""A whole broker from its boot to its clean stop: what it says of itself, when it acts, and what its end leaves."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods as own_methods
from data_plane.metadata import broker_records
from data_plane.metadata.port import Delete
from data_plane.node.groups.group_coordinators import GROUPS_TOPIC
from data_plane.node.log_directory.directory import CLEAN_FILE, WrongDirectory
from data_plane.node.membership.only_one import IdTaken
from data_plane.node.ports import Caller, ConnectionLost
from data_plane.testkit.cluster import TENANT, BrokerState, SimBroker
from data_plane.testkit.connection import StreamRefused
from data_plane.testkit.disk import DISK_BYTES, SimDisk
from data_plane.testkit.medium import CutChoice
from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import NO_BROKER, SYSTEM_TENANT
from tests.unit.node.brokers import TIMINGS, Brokers, topic
from tests.unit.node.storage import CALLER

DRAIN_S = TIMINGS.drain_ms / 1_000


# -- booting ------------------------------------------------------------------------------------------------


def test_a_broker_says_that_it_boots_until_its_log_directory_is_recovered_and_counts_nothing() -> None:
    async def story(brokers: Brokers) -> None:
        brokers.store.cut(brokers.broker().host)
        brokers.cluster.start(brokers.broker())
        await asyncio.sleep(5)
        node = brokers.node()
        assert not node.ready and node.ready_reason.startswith("the metadata store cannot be asked: ")
        assert node.warnings() == {} and set(node.gauges().values()) == {0}
        node.stalled()
        with pytest.raises(ConnectionLost, match="has not booted"):
            await node.drain()
        brokers.store.heal(brokers.broker().host)
        reasons: list[str] = []
        brokers.loop.on_step = lambda process: reasons.append(node.ready_reason)
        await brokers.until(lambda: node.ready)
        brokers.loop.on_step = None
        assert list(dict.fromkeys(reasons))[1:] == ["booting", "not registered", ""]

    Brokers(boots=False).run(story)


def test_a_broker_that_is_ready_counts_what_it_does() -> None:
    async def story(brokers: Brokers) -> None:
        node = brokers.node()
        assert (node.ready, node.ready_reason, node.warnings()) == (True, "", {})
        groups = replace(topic(GROUPS_TOPIC), partitions=3)
        await brokers.cluster.create_topic(groups, SYSTEM_TENANT)
        await brokers.until(lambda: node.gauges()["group_partitions_coordinated"] > 0)
        authorization = f"Bearer {brokers.cluster.api_key}"
        with node.client_service.enter(Caller(peer="c", authorization=authorization, identity=None)):
            gauges = node.gauges()
        expected = {
            "registered": 1,
            "controller": 1,
            "client_connections": 1,
            "group_partitions_coordinated": groups.partitions,
            "partitions_led": groups.partitions + 1,
            "replicas": groups.partitions + 1,
            "clock_trusted": 1,
        }
        assert {name: gauges[name] for name in expected} == expected
        assert node.gauges()["client_connections"] == 0 and node.stats.registrations == 1

    Brokers(1, topic()).run(story)


def test_of_several_brokers_one_counts_as_controller_and_the_leases_of_all() -> None:
    async def story(brokers: Brokers) -> None:
        gauges = [brokers.node(number).gauges() for number in range(3)]
        assert sorted(gauge["controller"] for gauge in gauges) == [0, 0, 1]
        assert all(gauge["registered"] == 1 for gauge in gauges)

    Brokers(3).run(story)


def test_a_broker_with_the_log_directory_of_another_ends_before_it_serves() -> None:
    async def story(brokers: Brokers) -> None:
        first, second = brokers.broker(0), brokers.broker(1)
        brokers.cluster.swap(first, second)
        brokers.cluster.start(first)
        await brokers.until(lambda: first.state is BrokerState.DOWN)
        assert first.ended.startswith(f"{WrongDirectory.__name__}: ")

    Brokers(2).run(story)


def test_a_second_broker_with_an_id_that_is_in_use_ends_with_that_error_itself() -> None:
    async def story(brokers: Brokers) -> None:
        first = brokers.broker()
        second = SimBroker(first.broker_id, first.clock, lives=5)
        brokers.cluster.start(second)
        await brokers.until(lambda: second.state is BrokerState.DOWN)
        ((ended, error),) = brokers.cluster.unexpected_ends
        assert ended is second and isinstance(error, IdTaken)
        assert brokers.node().ready

    Brokers(timings=replace(TIMINGS, session_ttl_ms=3_000)).run(story)


def test_a_broker_whose_disk_fails_ends_with_that_error_itself() -> None:
    async def story(brokers: Brokers) -> None:
        broker = brokers.broker()

        def fail(which: SimBroker, kind: str, path: str) -> None:
            broker.faults.failing_syncs = int(path.startswith("topics/"))

        brokers.cluster.disk_hook = fail
        creating = asyncio.create_task(brokers.cluster.create_topic(topic("more")))
        await brokers.until(lambda: broker.state is BrokerState.DOWN)
        creating.cancel()
        assert broker.ended.startswith("LogDirectoryFailed: ")
        assert brokers.cluster.unexpected_ends == []

    Brokers().run(story)


# -- the services -------------------------------------------------------------------------------------------

STREAMS = {
    own_methods.REPLICATE, own_methods.CONTROL, own_methods.LEASES, own_methods.STORAGE, own_methods.BUDGETS,
}  # fmt: skip
BETWEEN_BROKERS = {
    own_methods.COMPARE_SEGMENTS, own_methods.REPLICA_ENDS, own_methods.APPEND_USAGE, own_methods.CUT_PARTITIONS,
    own_methods.HAND_OVER,
}  # fmt: skip


def test_every_method_of_the_service_is_offered_to_those_who_call_it() -> None:
    async def story(brokers: Brokers) -> None:
        node = brokers.node()
        every = {
            value for name, value in vars(own_methods).items() if name.isupper() and value.startswith("/")
        }
        assert set(node.peer_service.streams) == STREAMS
        assert set(node.internal_service.calls) == every - STREAMS - BETWEEN_BROKERS
        assert BETWEEN_BROKERS <= set(node.peer_service.calls) <= every - STREAMS
        assert not node.internal_service.streams
        asked = {
            own_methods.DESCRIBE_LOAD: pb.DescribeLoadRequest(),
            own_methods.DESCRIBE_CLUSTER: pb.DescribeClusterRequest(),
        }
        for method, request in asked.items():
            assert await node.internal_service.calls[method](CALLER, request.SerializeToString())

    Brokers().run(story)


# -- registrations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [False, True], ids=["shown at once", "shown late"])
def test_a_broker_that_is_fenced_leads_nothing_until_it_is_registered_again_and_then_leads_again(
    late: bool,
) -> None:
    async def story(brokers: Brokers) -> None:
        node, replica = brokers.node(), brokers.node().replicas.by_partition[brokers.where()]
        assert replica.leading is not None
        epoch, reasons, led = node.registration.epoch, list[str](), list[bool]()

        def watch(process: object) -> None:
            reasons.append(node.ready_reason)
            if reasons[-1]:
                led.append(replica.leading is not None)

        brokers.loop.on_step = watch
        if late:
            brokers.store.faults.watch_delayed_chance, brokers.store.faults.watch_delay_ms = 1.0, 900.0
        brokers.fence()
        await brokers.until(lambda: node.registration.epoch > epoch and replica.leading is not None)
        brokers.loop.on_step = None
        assert "not registered" in reasons and not any(led)
        assert node.stats.registrations == 2 and node.ready
        assert node.gauges()["partitions_led"] == 1

    Brokers(1, topic()).run(story)


def test_a_broker_whose_loop_stood_still_serves_nothing_stale_until_its_session_is_confirmed() -> None:
    async def story(brokers: Brokers) -> None:
        registration = brokers.node().registration
        assert registration.confident()
        brokers.node().stalled()
        assert not registration.confident()
        assert await brokers.until(registration.confident) <= 1

    Brokers(timings=replace(TIMINGS, session_ttl_ms=3_000)).run(story)


@pytest.mark.parametrize("what", ["key", "tenant", "all listed again"])
def test_streams_end_at_once_when_the_metadata_end_what_they_were_let_in_by(what: str) -> None:
    async def story(brokers: Brokers) -> None:
        await brokers.cluster.create_topic(topic())
        streams = [await brokers.stream(method) for method in (methods.CONSUME, methods.PRODUCE)]
        await asyncio.sleep(1)
        if what == "all listed again":
            brokers.store.cut(brokers.broker().host)
            await asyncio.sleep(1)
        if what == "tenant":
            request: Any = pb.PutTenantRequest(tenant=TENANT, generation=9, suspended=True)
            await brokers.cluster.admin_call(own_methods.PUT_TENANT, request.SerializeToString())
        else:
            brokers.store.apply_txn((), [Delete(item.key) for item in brokers.store.snapshot("/keys/").items])
        if what == "all listed again":
            brokers.store.compact(brokers.store.revision)
            brokers.store.heal(brokers.broker().host)
        code = ErrorCode.FORBIDDEN if what == "tenant" else ErrorCode.UNAUTHENTICATED
        for stream in streams:
            with pytest.raises(StreamRefused) as refused:
                async with asyncio.timeout(2):
                    while True:
                        await stream.receive()
            assert refused.value.code == code

    Brokers().run(story)


# -- a clean stop -------------------------------------------------------------------------------------------


def test_a_broker_that_stops_says_so_leaves_its_keys_and_marks_its_directory() -> None:
    async def story(brokers: Brokers) -> None:
        node, medium = brokers.node(), brokers.broker().medium
        epoch, reasons = node.registration.epoch, list[str]()
        brokers.loop.on_step = lambda process: reasons.append(node.ready_reason)
        assert await brokers.drained() < 1
        brokers.loop.on_step = None
        assert list(dict.fromkeys(reasons)) == ["", "draining"]
        assert not node.ready
        assert not brokers.store.snapshot(broker_records.live_key(0)).items and not brokers.store.session_ids
        (stored,) = brokers.store.snapshot(broker_records.broker_key(0)).items
        assert broker_records.BrokerRecord.decode(stored.value).draining, "it was said before"
        file = SimDisk(medium.after_cut(CutChoice())).open(CLEAN_FILE, create=False)
        assert json.loads(file.read_at(0, file.size())) == {"broker_epoch": epoch}
        brokers.cluster.start(brokers.broker())
        await brokers.until(brokers.cluster.all_ready)
        record = brokers.node().view.image.partition(brokers.where())
        assert record is not None and (record.leader, record.in_sync) == (0, (0,)), "it lost nothing"

    Brokers(1, topic()).run(story)


def test_a_broker_that_was_killed_has_no_mark_of_a_clean_stop() -> None:
    async def story(brokers: Brokers) -> None:
        brokers.cluster.kill(brokers.broker())
        assert not SimDisk(brokers.broker().medium).exists(CLEAN_FILE)

    Brokers(1, topic()).run(story)


def test_a_broker_without_space_for_its_last_checkpoint_stops_without_the_mark() -> None:
    async def story(brokers: Brokers) -> None:
        broker = brokers.broker()
        broker.faults.capacity_bytes = 1
        await brokers.drained()
        broker.faults.capacity_bytes = DISK_BYTES
        assert not SimDisk(broker.medium).exists(CLEAN_FILE)
        brokers.cluster.start(broker)
        await brokers.until(brokers.cluster.all_ready)

    Brokers(1, topic()).run(story)


def test_a_broker_that_stops_hands_over_and_another_leads_before_it_has_gone() -> None:
    async def story(brokers: Brokers) -> None:
        leader = brokers.leader()
        await brokers.in_sync(3)
        other = next(number for number in range(3) if number != leader)
        stopping = brokers.node(leader)
        epochs = [brokers.node(other).view.image.epoch_of(brokers.broker(leader).broker_id)]
        brokers.loop.on_step = lambda process: epochs.append(
            brokers.node(other).view.image.epoch_of(brokers.broker(leader).broker_id)
            if brokers.leader(number=other) == leader
            else -1
        )
        assert await brokers.drained(leader) < 1
        brokers.loop.on_step = None
        assert brokers.leader(number=other) not in (leader, NO_BROKER)
        assert 0 not in epochs, "it was registered for as long as it led"
        assert stopping.stats.leaders_handed_over == 1, "by itself, not by the controller"
        assert brokers.node(other).ready

    Brokers(3, topic(replicas=3)).run(story)


def test_a_broker_that_stops_does_not_wait_for_what_no_other_can_lead() -> None:
    async def story(brokers: Brokers) -> None:
        leader = brokers.leader()
        assert await brokers.drained(leader) < DRAIN_S / 2
        assert brokers.leader(number=1 - leader) == leader or brokers.leader(number=1 - leader) == NO_BROKER

    Brokers(2, topic()).run(story)


def test_a_broker_that_stops_waits_no_longer_than_its_time_for_those_who_could_lead() -> None:
    async def story(brokers: Brokers) -> None:
        leader = brokers.leader()
        await brokers.in_sync(2)
        brokers.cluster.pause(brokers.broker(1 - leader))
        took_s = await brokers.drained(leader)
        assert DRAIN_S <= took_s < DRAIN_S + 2 * TIMINGS.hand_over_ms / 1_000 + 0.5

    Brokers(2, topic(replicas=2)).run(story)


def test_a_broker_that_lost_its_registration_stops_without_waiting() -> None:
    async def story(brokers: Brokers) -> None:
        leader = brokers.leader()
        await brokers.in_sync(2)
        brokers.cluster.pause(brokers.broker(1 - leader))
        brokers.cluster.drain(brokers.broker(leader))
        await asyncio.sleep(1)
        await brokers.node(leader).registration.end()
        assert await brokers.until(lambda: brokers.broker(leader).state is BrokerState.DOWN) < 1

    Brokers(2, topic(replicas=2)).run(story)
