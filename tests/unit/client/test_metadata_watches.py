"""Two brokers are watched for metadata: which ones, for which topics, and when another takes a silent one's place."""

from __future__ import annotations

import pytest

from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2
from tests.unit.client.runner import Runner


def watching(brokers: int = 3, seed: int = 1) -> Runner:
    """A client that produces to topic `t`, with its watches open."""
    runner = Runner(brokers=brokers, seed=seed)
    runner.cluster.create("t", 1)
    runner.cluster.create("u", 1)
    runner.producer().route("t")
    runner.run(200)
    return runner


def watches(runner: Runner) -> dict[int, list[str]]:
    """The topics that are watched, by broker."""
    watched: dict[int, list[str]] = {}
    for stream in runner.streams.values():
        if stream.method == methods.WATCH_METADATA:
            assert stream.broker not in watched, "one watch a broker"
            watched[stream.broker] = list(log_pb2.WatchMetadataRequest.FromString(stream.request).topics)
    return watched


@pytest.mark.parametrize("seed", range(6))
def test_two_of_several_brokers_are_watched_and_a_single_one_once(seed: int) -> None:
    assert list(watches(watching(3, seed)).values()) == [["t"], ["t"]]
    assert watches(watching(1, seed)) == {0: ["t"]}


@pytest.mark.parametrize("seed", range(6))
def test_a_broker_that_sends_no_state_for_two_seconds_is_left_and_asked_last(seed: int) -> None:
    runner = watching(3, seed)
    first, second = watches(runner)
    (silent,) = {0, 1, 2} - {first, second}
    runner.cluster.silent[silent] = None
    runner.lose_streams(first)
    runner.run(200)
    assert set(watches(runner)) == {second, silent}, "the one that was lost is doubted"
    runner.run(1_700)
    asked = {runner.core.address_for(None) for _ in range(6)}
    assert f"b{silent}" in asked, "it has its two seconds"
    runner.run(600)
    assert set(watches(runner)) == {first, second}
    asked = {runner.core.address_for(None) for _ in range(6)}
    assert f"b{silent}" not in asked


def test_topics_that_come_into_use_together_and_go_out_of_use_are_watched_with_one_opening() -> None:
    runner = watching()
    opened = set(runner.streams)
    producer = runner.producer()
    producer.route("u")
    runner.run(40)
    assert list(watches(runner).values()) == [["t"], ["t"]], "more may come"
    runner.run(20)
    assert list(watches(runner).values()) == [["t", "u"], ["t", "u"]]
    assert len(set(runner.streams) - opened) == 2
    runner.core.remove(producer, runner.now)
    runner.run(60)
    assert list(watches(runner).values()) == [["t"], ["t"]]
    for owner in list(runner.core.producers):
        runner.core.remove(owner, runner.now)
    runner.run(60)
    assert watches(runner) == {}


def test_a_broker_that_is_registered_no_more_is_watched_no_more() -> None:
    runner = watching()
    departed = next(iter(watches(runner)))
    runner.cluster.registered = {number: f"b{number}" for number in range(3) if number != departed}
    runner.cluster.changed()
    runner.run(200)
    assert set(watches(runner)) == {0, 1, 2} - {departed}
    assert watches(runner).keys() == set(runner.cluster.registered)


def test_a_watch_that_a_broker_ends_with_a_reason_casts_no_doubt_on_its_address() -> None:
    for code, is_doubted in ((int(ErrorCode.THROTTLED), False), (None, True)):
        runner = watching(2)
        (token, stream), *_ = list(runner.streams.items())
        del runner.streams[token]
        runner.core.stream_lost(token, code, "over", runner.now)
        asked = [runner.core.address_for(None) for _ in range(4)]
        assert (f"b{stream.broker}" not in asked) == is_doubted
        runner.run(2_000)
        assert set(watches(runner)) == {0, 1}, "it is opened again"
