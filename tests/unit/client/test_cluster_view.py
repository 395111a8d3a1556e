"""The view of the cluster only moves forward, whichever broker speaks."""

from __future__ import annotations

from itertools import permutations

from penstock.client.cluster_view import ClusterView
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2


def answer(
    revision: int,
    leader: int,
    epoch: int,
    brokers: tuple[int, ...] = (1, 2),
    topic_id: bytes = b"id",
    **rest: object,
) -> log_pb2.MetadataResponse:
    response = log_pb2.MetadataResponse(revision=revision, cluster_id="c")
    for broker in brokers:
        response.brokers.add(id=broker, address=f"b{broker}:1")
    topic = response.topics.add(name="t", topic_id=topic_id, **rest)
    topic.partitions.add(partition=0, leader=leader, leader_epoch=epoch, replicas=[1, 2], in_sync=[1])
    return response


def test_a_higher_leader_epoch_counts_even_in_an_older_answer() -> None:
    view = ClusterView()
    view.apply(answer(10, leader=1, epoch=3))
    assert view.apply(answer(9, leader=2, epoch=4)) == ["t"]
    assert view.topics["t"].partitions[0].leader == 2


def test_a_lower_leader_epoch_never_counts() -> None:
    view = ClusterView()
    view.apply(answer(10, leader=2, epoch=4))
    assert view.apply(answer(11, leader=1, epoch=3)) == []
    assert view.topics["t"].partitions[0].leader == 2


def test_brokers_and_where_they_are_go_by_the_newest_answer_in_whatever_order_answers_come() -> None:
    answers = [answer(revision, leader=2, epoch=4, brokers=(revision,)) for revision in (10, 11, 12)]
    for response in answers:
        response.brokers[0].host, response.brokers[0].zone = f"h{response.revision}", f"z{response.revision}"
    for order in permutations(answers):
        view = ClusterView()
        for response in order:
            view.apply(response)
        view.apply(log_pb2.MetadataResponse(revision=13))
        assert view.brokers == {12: "b12:1"}, "an answer about topics alone says nothing of brokers"
        assert view.domains == {12: ("h12", "z12")}
        assert view.revision == 13


def test_an_answer_without_change_changes_nothing() -> None:
    view = ClusterView()
    assert view.apply(answer(10, leader=2, epoch=4)) == ["t"]
    assert view.apply(answer(11, leader=2, epoch=4)) == []


def test_an_error_replaces_a_topic_unless_it_is_older() -> None:
    view = ClusterView()
    view.apply(answer(10, leader=2, epoch=4))
    gone = log_pb2.MetadataResponse(revision=9)
    gone.topics.add(name="t", error=ErrorCode.NOT_FOUND, message="t: no such topic")
    assert view.apply(gone) == []
    gone.revision = 11
    assert view.apply(gone) == ["t"]
    error = view.topics["t"].error
    assert error is not None
    assert error.code is ErrorCode.NOT_FOUND


def test_a_topic_made_anew_under_the_same_name_is_another() -> None:
    view = ClusterView()
    view.apply(answer(10, leader=2, epoch=40))
    assert view.apply(answer(9, leader=1, epoch=50, topic_id=b"older")) == []
    assert view.apply(answer(11, leader=1, epoch=1, topic_id=b"new")) == ["t"]
    assert view.topics["t"].topic_id == b"new"
    assert view.topics["t"].partitions[0].leader == 1


def test_an_older_answer_of_the_same_leader_epoch_changes_nothing() -> None:
    view = ClusterView()
    newer = answer(10, leader=1, epoch=3)
    newer.topics[0].partitions[0].in_sync.append(2)
    view.apply(newer)
    assert view.apply(answer(9, leader=-1, epoch=3)) == []
    partition = view.topics["t"].partitions[0]
    assert (partition.leader, partition.in_sync) == (1, (1, 2))
