"""Replication 1 to 5: made, written through the loss of as many brokers as it stands, read whole; the only copy,
damaged, is read where it is good and repaired by an operator alone.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from chaos.replica_files import stored_batches
from penstock.contract.errors import CorruptLog, InvalidRequest, PenstockError
from penstock.contract.ids import TopicId, TopicPartition
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("cluster"), 5) as running:
        yield running


@pytest.fixture(scope="module")
def acme(cluster: Brokers) -> Tenant:
    return cluster.tenant("tn_acme")


def produce(cluster: Brokers, tenant: Tenant, topic: str, numbers: range) -> None:
    """One batch a message, each acknowledged by all in sync."""
    with cluster.client(tenant) as client, client.producer(linger_ms=0) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number).result(timeout=PATIENCE_S)


def consumed(cluster: Brokers, tenant: Tenant, topic: str, count: int, *, offset: int = 0) -> list[int]:
    """`count` messages from `offset` on. Raises what the reader meets."""
    found: list[int] = []
    with cluster.client(tenant) as client, client.consumer([topic], auto_offset_reset="earliest") as reader:
        reader.seek(topic, 0, offset=offset)

        def all_read() -> bool:
            found.extend(int(m.value or b"") for m in reader.poll(timeout=1))
            return len(found) >= count

        cluster.wait_until(f"{count} messages of {topic} read", all_read)
    return found[:count]


def test_each_replication_stands_the_brokers_that_it_promises_to_stand(
    cluster: Brokers, acme: Tenant
) -> None:
    """Two of five are killed at once: replication 5 with 3 in sync, 3 with 2 (of which one dies), 2 with 1 go on."""
    topics = {
        5: cluster.create_topic(
            acme, "five", replication=5, min_insync_replicas=3, assignments=[[1, 2, 3, 4, 5]]
        ),
        3: cluster.create_topic(acme, "three", replication=3, min_insync_replicas=2, assignments=[[1, 3, 4]]),
        2: cluster.create_topic(acme, "two", replication=2, min_insync_replicas=1, assignments=[[2, 3]]),
        1: cluster.create_topic(acme, "one", replication=1, min_insync_replicas=1, assignments=[[2]]),
    }
    names = {5: "five", 3: "three", 2: "two", 1: "one"}
    for name in names.values():
        produce(cluster, acme, name, range(20))
    cluster.kill(1, 2)
    for factor in (5, 3, 2):
        produce(cluster, acme, names[factor], range(20, 40))
        assert consumed(cluster, acme, names[factor], 40) == list(range(40))
        assert cluster.leader(topics[factor]) not in (1, 2)
    assert cluster.leader(topics[1]) == -1
    cluster.start(1, 2)
    assert consumed(cluster, acme, "one", 20) == list(range(20))
    for factor, topic_id in topics.items():
        cluster.wait_until(f"replication {factor} is whole", partial(cluster.whole, topic_id))
    described = cluster.admin.describe_cluster(partitions=True)
    assert [loss for loss in described.losses if loss.topic_id in topics.values()] == []


def spoil(cluster: Brokers, broker: int, where: TopicPartition, offset: int, end: int) -> Path:
    """Change a byte of the batch at `offset` on the disk of a broker that does not run."""
    directory = cluster.directory.log_directory(broker)
    batch = next(
        one for one in stored_batches(directory, where, end) if int.from_bytes(one.batch[:8], "big") == offset
    )
    (file,) = (directory / "topics" / str(where)).glob("*.log")
    data = bytearray(file.read_bytes())
    at = data.index(batch.batch)
    data[at + len(batch.batch) - 1] ^= 0xFF
    file.write_bytes(bytes(data))
    return file


def repaired(cluster: Brokers, acme: Tenant, topic_id: TopicId, name: str) -> None:
    with pytest.raises(CorruptLog):
        produce(cluster, acme, name, range(1))
    assert consumed(cluster, acme, name, 10) == list(range(10))
    assert consumed(cluster, acme, name, 19, offset=11) == list(range(11, 30))
    assumed = cluster.admin.declare_loss(topic_id, 0, None, accept=False)
    assert (assumed.declared, assumed.loss.offset, assumed.loss.known_end_offset) == (False, 10, 30)
    done = cluster.admin.declare_loss(topic_id, 0, None, accept=True, asked_by="olga")
    assert (done.declared, done.loss.kind, done.loss.log_generation) == (True, "repair of the only copy", 2)
    produce(cluster, acme, name, range(100, 105))
    assert consumed(cluster, acme, name, 15) == [*range(10), *range(100, 105)]


def test_the_only_copy_is_read_where_it_is_good_and_an_operator_gives_up_the_rest(
    cluster: Brokers, acme: Tenant
) -> None:
    topic_id = cluster.create_topic(acme, "single", replication=1, min_insync_replicas=1, assignments=[[4]])
    produce(cluster, acme, "single", range(30))
    with pytest.raises(InvalidRequest, match="nothing"):
        cluster.admin.declare_loss(topic_id, 0, None, accept=True)
    cluster.stop(4)
    assert cluster.status(4) == 0
    spoil(cluster, 4, TopicPartition(topic_id, 0), 10, 30)
    cluster.start(4)
    cluster.wait_until("it is led again", lambda: cluster.leader(topic_id) == 4)
    with pytest.raises(PenstockError):
        consumed(cluster, acme, "single", 30)
    repaired(cluster, acme, topic_id, "single")
    cluster.kill(4)
    cluster.start(4)
    cluster.wait_until("it is led again", lambda: cluster.leader(topic_id) == 4)
    assert consumed(cluster, acme, "single", 15) == [*range(10), *range(100, 105)]
    produce(cluster, acme, "single", range(105, 106))
    assert cluster.partitions(topic_id)[0].log_generation == 2
