"""The replicas of one broker: found by partition and by topic, counted in one look."""

from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.replication.health import Sound
from tests.unit.log.miniature import TOPIC, Miniature, where

from .test_follower_stream import led


def test_a_topics_replicas_are_found_without_looking_at_others() -> None:
    replicas, broker = ReplicaSet(), Miniature()
    for partition in range(3):
        replicas.add(led(broker, partition=partition))
    replicas.remove(where(1))
    assert replicas.of_topic(TOPIC) == [where(0), where(2)]
    replicas.remove(where(0))
    replicas.remove(where(2))
    assert replicas.of_topic(TOPIC) == [] and replicas.all() == []


def test_replicas_are_counted_by_what_is_wrong_with_them() -> None:
    replicas, broker = ReplicaSet(), Miniature()
    for partition in range(3):
        replicas.add(led(broker, partition=partition, turned=replicas.turned))
    broker.fill(2, 1)
    stopped = replicas.by_partition[where(2)]
    stopped.stop("a broken invariant")
    assert list(replicas.unsound) == [stopped]
    assert replicas.gauges() == {
        "replicas": 3,
        "replicas_broken": 1,
        "replicas_unborn": 0,
        "partitions_led": 2,
        "partitions_under_replicated": 2,
        "partitions_under_min_in_sync": 0,
        "log_bytes": broker.logs[1].size_bytes,
    }
    assert broker.logs[1].size_bytes > 0
    stopped.health = Sound()
    assert not replicas.unsound
    stopped.found_damage("a bad sector")
    replicas.remove(where(2))
    assert not replicas.unsound, "it has left"


def test_a_change_of_a_replica_that_has_left_meanwhile_is_in_no_list() -> None:
    replicas, broker = ReplicaSet(), Miniature()
    changes = replicas.changes()
    stays, leaves = led(broker, partition=0), led(broker, partition=1)
    for replica in (stays, leaves):
        replicas.add(replica)
    replicas.remove(leaves.where)
    replicas.changed(stays)
    replicas.changed(leaves)
    assert list(changes.take()) == [stays]
