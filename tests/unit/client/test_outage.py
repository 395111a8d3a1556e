"""While no broker answers the log says what is tried and why it fails."""

from __future__ import annotations

import pytest

from penstock.client.outage import TELL_MS
from tests.unit.client.runner import Runner


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "penstock"]


def test_after_a_second_without_any_broker_one_line_names_each_address_and_its_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runner = Runner(brokers=2)
    runner.cluster.create("orders", 1)
    producer = runner.producer()
    runner.down = {0: None, 1: None}
    producer.route("orders")
    runner.run(TELL_MS - 500)
    assert lines(caplog) == []
    runner.run(30_000)
    (told,) = lines(caplog)
    assert told.startswith("penstock: no broker has answered for")
    assert "b0: connection refused" in told
    assert "b1: connection refused" in told
    runner.down = {}
    runner.run(5_000)
    assert lines(caplog)[1:] == ["penstock: a broker answers again"]


def test_an_outage_while_messages_wait_is_told_too_and_each_anew(caplog: pytest.LogCaptureFixture) -> None:
    runner = Runner(brokers=1)
    runner.cluster.create("orders", 1)
    producer = runner.producer()
    runner.send(producer, "orders", b"before")
    runner.run(100)
    for outage in (1, 2):
        runner.cluster.silent = {0: None}
        runner.send(producer, "orders", b"during")
        runner.run(25_000)
        assert len([line for line in lines(caplog) if "no broker has answered" in line]) == outage
        runner.cluster.silent = {}
        runner.run(25_000)


def test_one_broker_that_is_down_beside_others_is_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    runner = Runner(brokers=3)
    runner.cluster.create("orders", 3)
    runner.down = {1: None}
    producer = runner.producer()
    runner.send(producer, "orders", b"x", partition=0)
    runner.run(30_000)
    assert lines(caplog) == []


@pytest.mark.parametrize("seed", range(8))
def test_what_is_sent_after_an_outage_does_not_wait_out_a_pause_that_grew_in_it(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    runner = Runner(brokers=3, seed=seed)
    runner.cluster.create("orders", 1)
    producer = runner.producer(delivery_timeout_ms=1_000)
    runner.send(producer, "orders", b"before")
    runner.run(100)
    runner.cluster.silent = {0: None, 1: None, 2: None}
    lost = runner.send(producer, "orders", b"in vain")
    runner.run(10)
    runner.cluster.silent, runner.down = {}, {0: None, 1: None, 2: None}
    for broker in range(3):
        runner.lose_streams(broker)
    runner.run(20_000)
    assert lost.error is not None
    runner.down = {}
    for _ in range(200):
        runner.run(10)
        if lines(caplog)[1:]:
            break
    assert lines(caplog)[1:] == ["penstock: a broker answers again"]
    after = runner.send(producer, "orders", b"after")
    runner.run(100)
    assert after.receipt().offset == 1
