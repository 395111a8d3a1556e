"""The coordinator's broker is killed: no commit is lost, the group goes on without moving a partition."""

import signal
import threading
import time

import pytest

from penstock import Consumer
from tests.integration.brokers import Brokers
from tests.integration.groups.watching import coordinator_of, produced, watched
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.processes, pytest.mark.slow]


class Reading(threading.Thread):
    """Polls a consumer until told to end, then closes it."""

    def __init__(self, consumer: Consumer) -> None:
        super().__init__(daemon=True)
        self.consumer = consumer
        self.seen = dict[int, set[int]]()
        self.ending = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ending.is_set():
                for message in self.consumer.poll(timeout=0.1):
                    self.seen.setdefault(message.partition, set()).add(message.offset)
            self.consumer.close()
        except BaseException as error:
            self.failure = error
            raise


@pytest.mark.parametrize("hurt", ["killed", "paused"])
def test_a_coordinator_that_falls_loses_no_commit_and_the_group_goes_on(cluster: Brokers, hurt: str) -> None:
    tenant = cluster.tenant(f"surviving-{hurt}")
    cluster.create_topic(tenant, "orders", 4)
    events: list[str] = []
    with cluster.client(tenant) as first, cluster.client(tenant) as second:
        readers = [
            Reading(
                client.consumer(
                    "orders",
                    group="readers",
                    auto_commit_interval_ms=50,
                    on_revoked=lambda places: events.append(f"revoked {places}"),
                )
            )
            for client in (first, second)
        ]
        with produced(cluster, tenant, "orders") as load, watched(cluster, tenant, "readers") as watch:
            for reader in readers:
                reader.start()
            wait_until("two share", lambda: all(len(r.consumer.assignment()) == 2 for r in readers))
            shares = [reader.consumer.assignment() for reader in readers]
            wait_until("something of everything is committed", lambda: len(watch.highest) == 4)
            events.clear()

            killed = coordinator_of(cluster, tenant.name, "readers")
            before = dict(watch.highest)
            if hurt == "killed":
                cluster.kill(killed)
            else:
                cluster.signal(signal.SIGSTOP, killed)
            wait_until(
                "another broker coordinates",
                lambda: coordinator_of(cluster, tenant.name, "readers") not in (killed, -1),
            )
            wait_until(
                "commits go on",
                lambda: all(watch.highest[tp] > offset for tp, offset in before.items()),
            )
            time.sleep(0.5)
            assert [reader.consumer.assignment() for reader in readers] == shares, "nothing moved"
            assert not events
            if hurt == "killed":
                cluster.start(killed)
            else:
                cluster.signal(signal.SIGCONT, killed)

        def all_read() -> bool:
            return all(
                set(range(end)) <= set().union(*(reader.seen.get(partition, set()) for reader in readers))
                for partition, end in load.ends.items()
            )

        wait_until("every message was delivered", all_read)
        for reader in readers:
            reader.ending.set()
        for reader in readers:
            reader.join(PATIENCE_S)
            assert reader.failure is None
        assert watch.back == []
        ends = {tp: offset for (_, tp), offset in first.group("readers").offsets.items()}
        assert ends == load.ends


def test_what_was_committed_a_moment_before_the_kill_is_there_after_it(cluster: Brokers) -> None:
    tenant = cluster.tenant("careful")
    cluster.create_topic(tenant, "orders", 1)
    with cluster.client(tenant) as client:
        with client.producer() as producer:
            for number in range(100):
                producer.send("orders", b"%d" % number)
            producer.flush(PATIENCE_S)
        with client.consumer("orders", group="by-hand", auto_commit=False) as consumer:
            read = 0
            while read < 40:
                read += len(consumer.poll(max_messages=40 - read, timeout=5))
            consumer.commit()
            killed = coordinator_of(cluster, tenant.name, "by-hand")
            cluster.kill(killed)
            assert consumer.committed() == {("orders", 0): 40}
            while read < 60:
                read += len(consumer.poll(max_messages=60 - read, timeout=5))
            consumer.commit()
        cluster.start(killed)
        assert client.group("by-hand", timeout=PATIENCE_S).offsets == {("orders", 0): 60}
        with client.consumer("orders", group="by-hand") as again:
            assert again.poll(max_messages=1, timeout=PATIENCE_S)[0].offset == 60
