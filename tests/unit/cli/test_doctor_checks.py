"""What `penstock doctor` makes of what the brokers say."""

import pytest

from penstock import BrokerDescription, PartitionDescription, TopicDescription
from penstock.cli.doctor_checks import Finding, State, data_plane


def topic(name: str, *replicas: tuple[int, ...]) -> TopicDescription:
    partitions = tuple(
        PartitionDescription(partition=number, leader=held[0], leader_epoch=1, replicas=held, in_sync=held)
        for number, held in enumerate(replicas)
    )
    return TopicDescription(name=name, topic_id="00" * 16, partitions=partitions)


def copies(brokers: int, *topics: TopicDescription) -> list[Finding]:
    registered = [BrokerDescription(broker=n, address=f"b{n}:1", zone="") for n in range(1, brokers + 1)]
    return [finding for finding in data_plane(registered, topics) if finding.check == "copies"]


@pytest.mark.parametrize(
    ("brokers", "held", "possible"),
    [(1, (1,), None), (2, (1,), 2), (2, (1, 2), None), (3, (1, 2), 3), (5, (1, 2, 3), None), (5, (4,), 3)],
)
def test_a_topic_with_fewer_copies_than_the_brokers_could_hold_is_named(
    brokers: int, held: tuple[int, ...], possible: int | None
) -> None:
    found = copies(brokers, topic("orders", held))
    if possible is None:
        assert found == []
    else:
        (finding,) = found
        assert finding.state is State.DOUBTFUL
        assert finding.fact.endswith(
            f"fewer than {possible} copies, which {brokers} brokers could hold: orders"
        )
        assert f"penstock topic alter orders --replication {possible}" in finding.remedy


def test_one_partition_that_is_not_there_yet_is_enough_and_many_topics_are_cut_short() -> None:
    assert copies(3, topic("orders", (1, 2, 3), (2, 3)))
    (finding,) = copies(3, *(topic(f"t{number}", (1,)) for number in range(7)))
    assert finding.fact.startswith("7 topics") and finding.fact.endswith("t0, t1, t2, t3, t4, ...")
