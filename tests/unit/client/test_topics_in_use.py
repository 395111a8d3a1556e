"""Topics that a client watches: from the first owner that asks until the last one has gone, and errors on the way."""

from __future__ import annotations

import pytest

from penstock.client.cluster_view import TopicView
from penstock.client.core import ClientCore
from penstock.client.producing.producer import ProducerCore
from penstock.contract import errors, methods
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2
from tests.unit.client.fake_cluster import Refused
from tests.unit.client.runner import Runner


def started(*topics: str) -> tuple[Runner, ProducerCore, ProducerCore]:
    runner = Runner()
    for name in topics:
        runner.cluster.create(name)
    return runner, runner.producer(), runner.producer()


def watched(runner: Runner) -> list[str]:
    """Names that the client's watches ask for now."""
    requests = [
        log_pb2.WatchMetadataRequest.FromString(stream.request)
        for stream in runner.streams.values()
        if stream.method == methods.WATCH_METADATA
    ]
    return sorted({name for request in requests for name in request.topics})


def asked(runner: Runner) -> int:
    """How often metadata were asked for."""
    return [name for _, name in runner.calls].count("Metadata")


def test_a_topic_is_asked_for_one_time_however_many_want_it_and_then_known_at_once() -> None:
    runner, first, second = started("orders")
    core: ClientCore = runner.core
    for owner in (first, second, first):
        assert core.watch_topic("orders", owner) is None
    runner.run(0)
    assert asked(runner) == 1
    views = [core.watch_topic("orders", owner) for owner in (first, second)]
    assert all(isinstance(view, TopicView) and len(view.partitions) == 1 for view in views)
    runner.run(100)
    assert asked(runner) == 1 and watched(runner) == ["orders"]


def test_a_topic_is_watched_until_the_last_of_its_owners_has_gone() -> None:
    runner, first, second = started("orders", "others")
    core = runner.core
    for owner in (first, second):
        core.watch_topic("orders", owner)
    core.watch_topic("others", first)
    runner.run(100)
    core.forget_topic("orders", first)
    core.forget_topic("orders", first)
    core.forget_topic("nowhere", first)
    runner.run(1_000)
    assert watched(runner) == ["orders", "others"] and "orders" in core.view.topics
    core.forget_topic("orders", second)
    runner.run(1_000)
    assert watched(runner) == ["others"] and "orders" not in core.view.topics
    assert core.watch_topic("orders", second) is None, "it is asked for again"


def test_what_brokers_say_of_a_topic_is_raised_and_the_next_call_asks_again() -> None:
    runner, first, _ = started()
    core = runner.core
    assert first.route("orders") is None
    runner.run(10)
    with pytest.raises(errors.NotFound, match="orders: no such topic"):
        first.route("orders")
    runner.cluster.create("orders")
    assert first.route("orders") is None
    runner.run(10)
    assert first.route("orders") is not None and "orders" in core.view.topics


def test_a_refusal_to_tell_of_a_topic_is_raised_one_time_and_wakes_who_waits() -> None:
    runner, first, _ = started("orders")
    core, call, metadata = runner.core, runner.cluster.call, runner.cluster.metadata
    nothing = log_pb2.MetadataResponse(cluster_id="fake", revision=1).SerializeToString()

    def refuse(broker: int, method: str, request: bytes) -> bytes:
        if method == methods.METADATA:
            raise Refused(ErrorCode.FORBIDDEN, "not for this key")
        return call(broker, method, request)

    runner.cluster.call = refuse  # type: ignore[method-assign]
    runner.cluster.metadata = lambda names: nothing  # type: ignore[method-assign]
    assert core.watch_topic("orders", first) is None
    runner.run(10)
    with pytest.raises(errors.Forbidden, match="not for this key"):
        core.watch_topic("orders", first)
    runner.cluster.call, runner.cluster.metadata = call, metadata  # type: ignore[method-assign]
    assert core.watch_topic("orders", first) is None, "it is asked for again"


def test_a_question_about_a_topic_ends_with_the_interest_in_it() -> None:
    runner, first, _ = started("orders")
    runner.cluster.silent |= dict.fromkeys(range(3))
    core = runner.core
    core.watch_topic("orders", first)
    runner.run(10)
    waits = core.topic_waits("orders")
    assert waits.message.startswith("orders: no broker described its partitions")
    core.forget_topic("orders", first)
    before = asked(runner)
    runner.cluster.silent.clear()
    runner.run(60_000)
    assert asked(runner) == before and "orders" not in core.view.topics


def test_a_client_asks_registered_brokers_in_turn_and_its_first_addresses_before_it_knows_any() -> None:
    runner, first, _ = started("orders")
    core = runner.core
    assert core.address_count == 3
    core.watch_topic("orders", first)
    runner.run(10)
    runner.cluster.unregister(1)
    runner.run(10)
    assert core.address_count == 2
    addresses = {core.address_for(None) for _ in range(6)}
    assert addresses == {"b0", "b2"}
    assert (core.address_for(0), core.address_for(1)) == ("b0", None)


def test_whoever_is_removed_watches_nothing_more_and_others_go_on() -> None:
    runner, first, second = started("orders", "others")
    core = runner.core
    core.watch_topic("orders", first)
    core.watch_topic("others", first)
    core.watch_topic("others", second)
    runner.run(100)
    core.remove(first, runner.now)
    runner.run(1_000)
    assert watched(runner) == ["others"] and core.producers == [second] and first.closed
    core.close(runner.now)
    assert core.changed and second.closed and core.producers == []
    runner.run(1_000)
    assert watched(runner) == [] and runner.streams == {}
