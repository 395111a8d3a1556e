"""The blocking and the asyncio surface do the same in a group: one story, told once and run on both."""

import asyncio
import inspect
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

import penstock
import penstock.asyncio
from tests.integration.brokers import Brokers, Tenant
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.processes

T = TypeVar("T")
Places = list[tuple[str, int]]


class Surface:
    """Calls either surface: what is awaitable is run on the loop at once."""

    def __init__(self, awaited: bool) -> None:
        self.awaited = awaited
        self._runner = asyncio.Runner() if awaited else None

    def __call__(self, made: Any) -> Any:
        if self._runner is not None and inspect.isawaitable(made):

            async def wait() -> Any:
                return await made

            return self._runner.run(wait())
        return made

    @contextmanager
    def client(self, cluster: Brokers, tenant: Tenant) -> Iterator[Any]:
        module = penstock.asyncio if self.awaited else penstock
        made = module.Client(bootstrap=cluster.bootstrap, api_key=tenant.api_key)
        try:
            yield made
        finally:
            self(made.close())

    def end(self) -> None:
        if self._runner is not None:
            self._runner.close()


@pytest.fixture(params=[False, True], ids=["blocking", "asyncio"])
def surface(request: pytest.FixtureRequest) -> Iterator[Surface]:
    made = Surface(request.param)
    yield made
    made.end()


def filled(cluster: Brokers, name: str, partitions: int = 2, messages: int = 20) -> Tenant:
    tenant = cluster.tenant(name)
    cluster.create_topic(tenant, "orders", partitions)
    with cluster.client(tenant) as client, client.producer() as producer:
        for partition in range(partitions):
            # At once, so that they are one batch and one poll can return any number of them.
            values = [b"%d" % number for number in range(partition, messages, partitions)]
            producer.send_many("orders", values, partition=partition)
        producer.flush(PATIENCE_S)
    return tenant


def stepping(surface: Surface, consumer: Any) -> Any:
    """Takes the next message of a loop over a consumer."""
    messages = aiter(consumer) if surface.awaited else iter(consumer)
    return lambda: surface(anext(messages) if surface.awaited else next(messages))


def test_a_slow_loop_stays_a_member_moves_on_and_gives_up_what_it_must(
    cluster: Brokers, surface: Surface
) -> None:
    tenant = filled(cluster, f"loop-{surface.awaited}", messages=400)
    told: list[tuple[str, Places]] = []

    def revoked(places: Places) -> None:
        told.append(("revoked", places))
        if len(told) == 2:
            time.sleep(2.3)  # it keeps what it has: longer than a member may be silent

    with surface.client(cluster, tenant) as client:
        one = client.consumer(
            ["orders"],
            group="loop",
            max_poll_interval_ms=2_000,
            auto_commit_interval_ms=200,
            on_assigned=lambda places: told.append(("assigned", places)),
            on_revoked=revoked,
        )
        step = stepping(surface, one)
        read = []
        for _ in range(6):
            read.append(step())
            time.sleep(0.4)
        assert [kind for kind, _ in told] == ["assigned"], "2.4 s over the messages of one poll"

        def kept() -> int:
            return sum(surface(client.group("loop")).offsets.values())

        read.append(step())
        wait_until("the loop's offsets are kept", lambda: kept() >= len(read) - 1)
        assert kept() < len(read), "the last one is not done"

        two = client.consumer("orders", group="loop")
        surface(two.poll(timeout=0.05))
        for _ in range(12):
            surface(two.poll(timeout=0.05))
            if len(told) == 1:
                time.sleep(0.2)
                read.append(step())
        assert told[1:] == [("revoked", [("orders", 1)])], "within the loop, without another poll"
        rest = [step() for _ in range(200 - sum(message.partition == 0 for message in read))]
        assert {message.partition for message in rest} == {0}, "all of the other one, and no more of this one"
        surface(one.seek("orders", 0, offset=197))
        after = [step() for _ in range(3)]
        assert [(message.partition, message.offset) for message in after] == [(0, 197), (0, 198), (0, 199)]
        assert len(told) == 2
        surface(two.close())
        surface(one.close())
        with pytest.raises(penstock.Closed):
            step()


def test_a_loop_that_is_stopped_ends_with_its_message_and_commits_what_it_is_done_with(
    cluster: Brokers, surface: Surface
) -> None:
    tenant = filled(cluster, f"stopped-{surface.awaited}", partitions=1)
    with surface.client(cluster, tenant) as client:
        one = client.consumer("orders", group="stopped")
        step = stepping(surface, one)
        assert [step().offset for _ in range(2)] == [0, 1]
        one.stop()
        with pytest.raises((StopIteration, StopAsyncIteration)):
            step()
        assert surface(one.poll(timeout=None)) == surface(one.poll_batches(timeout=None)) == []
        surface(one.close())
        assert surface(client.group("stopped")).offsets == {("orders", 0): 2}


def test_what_a_loop_left_is_polled_with_news_and_a_paused_partition_is_not(
    cluster: Brokers, surface: Surface
) -> None:
    tenant = filled(cluster, f"left-{surface.awaited}", messages=200)
    told: list[tuple[str, Places]] = []
    with surface.client(cluster, tenant) as client:
        one = client.consumer(
            ["orders"], group="left", on_revoked=lambda places: told.append(("revoked", places))
        )
        step = stepping(surface, one)
        read = [step() for _ in range(3)]
        surface(one.pause("orders", read[-1].partition))
        paused, other = read[-1].partition, 1 - read[-1].partition
        read = surface(one.poll(max_messages=1))
        assert [message.partition for message in read] == [other]
        surface(one.resume("orders", paused))
        two = client.consumer("orders", group="left")

        def shared() -> bool:
            surface(one.poll(max_messages=1, timeout=0.05))
            surface(two.poll(max_messages=1, timeout=0.05))
            return bool(surface(two.assignment()))

        wait_until("the second member has a partition", shared)
        assert told == [("revoked", [("orders", 1)])]
        assert {message.partition for message in surface(one.poll(timeout=5))} == {0}
        surface(two.close())
        surface(one.close())


def test_what_a_hook_could_not_keep_is_read_again_by_the_next_member(
    cluster: Brokers, surface: Surface
) -> None:
    tenant = filled(cluster, f"unkept-{surface.awaited}", partitions=1)

    def away(places: Places) -> None:
        raise OSError("the database is away")

    with surface.client(cluster, tenant) as client:
        one = client.consumer("orders", group="unkept", on_revoked=away)
        read: list[Any] = []
        while len(read) < 20:
            read += surface(one.poll(timeout=5))
        with pytest.raises(OSError, match="away"):
            surface(one.close())
        assert one.closed
        surface(one.close())
        two = client.consumer("orders", group="unkept")
        again: list[Any] = []
        while len(again) < 20:
            again += surface(two.poll(timeout=5))
        assert [message.offset for message in again] == list(range(20))
        surface(two.close())

    other = penstock.asyncio if surface.awaited else penstock
    client = other.Client(bootstrap=cluster.bootstrap, api_key=tenant.api_key)
    members = [client.consumer("orders", group=f"unkept-{name}", on_revoked=away) for name in "ab"]
    for member in members:
        while not surface(member.poll(timeout=5)):
            pass
    with pytest.raises(OSError, match="away"):
        surface(client.close())
    assert all(member.closed for member in members), "each of them, and the client"
    surface(client.close())


def test_members_share_commit_and_hand_over(cluster: Brokers, surface: Surface) -> None:
    tenant = filled(cluster, f"story-{surface.awaited}")
    told: list[tuple[str, Places]] = []
    with surface.client(cluster, tenant) as client:
        one = client.consumer(
            ["orders"],
            group="readers",
            auto_commit=False,
            on_assigned=lambda places: told.append(("assigned", places)),
            on_revoked=lambda places: told.append(("revoked", places)),
        )
        read: list[Any] = []
        while len(read) < 20:
            read += surface(one.poll(timeout=5))
        assert told == [("assigned", [("orders", 0), ("orders", 1)])]
        assert surface(one.committed()) == {}
        surface(one.commit({("orders", 0): 4}))
        assert surface(one.committed()) == {("orders", 0): 4}
        surface(one.commit())
        assert surface(one.committed()) == {("orders", 0): 10, ("orders", 1): 10}

        two = client.consumer("orders", group="readers")

        def shared() -> bool:
            surface(one.poll(timeout=0.05))
            surface(two.poll(timeout=0.05))
            return bool(surface(two.assignment()))

        wait_until("the second member has a partition", shared)
        assert surface(one.assignment()) == [("orders", 0)]
        assert surface(two.assignment()) == [("orders", 1)]
        assert told[1:] == [("revoked", [("orders", 1)])]
        with pytest.raises(penstock.InvalidRequest, match="orders-1 is not assigned"):
            surface(one.commit({("orders", 1): 1}))

        described = surface(client.group("readers"))
        assert (described.state, len(described.members)) == ("stable", 2)
        assert [group.group for group in surface(client.groups())] == ["readers"]
        with pytest.raises(penstock.GroupNotEmpty):
            surface(client.reset_group("readers", {("orders", 0): 0}))

        surface(two.close())
        surface(one.close())
        assert told[-1] == ("revoked", [("orders", 0)])
        assert surface(client.group("readers")).state == "empty"
        with pytest.raises(
            penstock.OffsetOutOfRange, match="orders-0: its next message has offset 10, and 11 is"
        ):
            surface(client.reset_group("readers", {("orders", 0): 11}))
        assert surface(client.group("readers")).offsets == {("orders", 0): 10, ("orders", 1): 10}
        surface(client.reset_group("readers", {("orders", 0): 7}))
        assert surface(client.group("readers")).offsets == {("orders", 0): 7, ("orders", 1): 10}
        surface(client.delete_group("readers"))
        with pytest.raises(penstock.GroupNotFound, match="readers"):
            surface(client.group("readers"))


def test_closing_the_client_leaves_the_group(cluster: Brokers, surface: Surface) -> None:
    tenant = filled(cluster, f"closing-{surface.awaited}")
    with surface.client(cluster, tenant) as client:
        consumer = client.consumer("orders", group="readers")
        assert surface(consumer.poll(max_messages=5, timeout=PATIENCE_S))
    with cluster.client(tenant) as client:
        described = client.group("readers")
        assert described.state == "empty"
        assert sum(described.offsets.values()) == 5


def test_a_loop_left_early_loses_nothing(cluster: Brokers, surface: Surface) -> None:
    tenant = filled(cluster, f"early-{surface.awaited}", partitions=1)

    async def three_of(consumer: Any) -> list[int]:
        found: list[int] = []
        async for message in consumer:
            found.append(message.offset)
            if len(found) == 3:
                return found
        raise AssertionError

    def three(consumer: Any) -> list[int]:
        found: list[int] = []
        for message in consumer:
            found.append(message.offset)
            if len(found) == 3:
                return found
        raise AssertionError

    take = three_of if surface.awaited else three
    with surface.client(cluster, tenant) as client:
        first = client.consumer("orders", group="readers")
        assert surface(take(first)) == [0, 1, 2]
        surface(first.commit())
        assert surface(first.committed()) == {("orders", 0): 3}
        assert surface(take(first)) == [3, 4, 5]
        assert [m.offset for m in surface(first.poll(max_messages=2, timeout=PATIENCE_S))] == [6, 7]
        assert surface(first.position("orders", 0)) == 8
        surface(first.close())
        second = client.consumer("orders", group="readers")
        assert surface(second.poll(max_messages=1, timeout=PATIENCE_S))[0].offset == 8
        surface(second.close())


def test_a_client_that_ends_by_an_exception_commits_nothing_of_its_last_poll(
    cluster: Brokers, surface: Surface
) -> None:
    tenant = filled(cluster, f"raising-{surface.awaited}", partitions=1)
    module = penstock.asyncio if surface.awaited else penstock
    client: Any = module.Client(bootstrap=cluster.bootstrap, api_key=tenant.api_key)
    consumer = client.consumer("orders", group="readers")
    assert len(surface(consumer.poll(max_messages=4, timeout=PATIENCE_S))) == 4
    assert len(surface(consumer.poll(max_messages=4, timeout=PATIENCE_S))) == 4
    leave = client.__aexit__ if surface.awaited else client.__exit__
    surface(leave(ValueError, ValueError("ours"), None))
    with cluster.client(tenant) as other:
        assert other.group("readers").offsets == {("orders", 0): 4}


def test_a_silent_application_leaves_and_its_late_commit_is_refused(
    cluster: Brokers, surface: Surface
) -> None:
    tenant = filled(cluster, f"silent-{surface.awaited}")
    with surface.client(cluster, tenant) as client:
        slow = client.consumer(
            "orders", group="readers", auto_commit=False, max_poll_interval_ms=300, instance_id=None
        )
        assert surface(slow.poll(timeout=PATIENCE_S))
        quick = client.consumer("orders", group="readers", auto_commit=False)

        def has_all() -> bool:
            surface(quick.poll(timeout=0.05))
            return len(surface(quick.assignment())) == 2

        wait_until("the other one has all", has_all)
        assert surface(slow.assignment()) == []
        with pytest.raises(penstock.UnknownMember, match="was away too long and lost its partitions"):
            surface(slow.commit())
        assert surface(quick.committed()) == {}


def test_a_group_needs_what_a_group_needs(cluster: Brokers, surface: Surface) -> None:
    tenant = filled(cluster, f"needs-{surface.awaited}")
    with surface.client(cluster, tenant) as client:
        alone = client.consumer("orders")
        with pytest.raises(penstock.ConfigurationError, match="commit: needs a consumer group"):
            surface(alone.commit())
        member = client.consumer("orders", group="readers")
        with pytest.raises(penstock.ConfigurationError, match="assign: a member of a group"):
            surface(member.assign([("orders", 0)]))


def test_a_coroutine_is_awaited_when_it_is_told(cluster: Brokers) -> None:
    tenant = filled(cluster, "coroutines")
    told: list[str] = []

    async def assigned(places: Places) -> None:
        await asyncio.sleep(0)
        told.append(f"assigned {len(places)}")

    async def story() -> None:
        client = penstock.asyncio.Client(bootstrap=cluster.bootstrap, api_key=tenant.api_key)
        async with client, client.consumer("orders", group="readers", on_assigned=assigned) as consumer:
            assert await consumer.poll(timeout=PATIENCE_S)
            assert told == ["assigned 2"]

    asyncio.run(story())
