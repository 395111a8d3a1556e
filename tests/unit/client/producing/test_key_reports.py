"""A producer tells the leaders of its frequent keys: rarely, bounded, and never in the way of sending."""

from __future__ import annotations

import pytest

from penstock.client.producing.key_reports import KEYS_MAX, REPORT_MS, SPARED_MS
from penstock.client.producing.producer import ProducerCore
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2
from tests.unit.client.runner import Runner

from .test_slowed_partitions import started

ROUND_MS = REPORT_MS * 5 / 4


def send(runner: Runner, producer: ProducerCore, keys: list[bytes], times: int, partition: int = 0) -> None:
    for number in range(times):
        runner.send(producer, "orders", b"", keys[number % len(keys)], partition=partition)
        if number % 1_000 == 999:
            runner.run(10)
    runner.run(10)


def reported(runner: Runner) -> list[log_pb2.KeyReport]:
    return [one for _, request in runner.cluster.key_reports for one in request.partitions]


def rounds(runner: Runner, producer: ProducerCore, keys: list[bytes], count: int = 1) -> None:
    send(runner, producer, keys, 8_000)
    runner.run(ROUND_MS)
    for _ in range(count - 1):
        send(runner, producer, keys, 8_000)
        runner.run(ROUND_MS)


def test_a_key_that_is_half_of_a_partition_is_reported_to_its_leader() -> None:
    runner, producer = started(partitions=3, brokers=3)
    keys = [b for number in range(4_000) for b in (b"hot", b"cold-%d" % number)]
    rounds(runner, producer, keys)
    ((broker, request),) = runner.cluster.key_reports
    (report,) = request.partitions
    partition = runner.cluster.topics["orders"].partitions[0]
    assert (broker, report.partition) == (partition.leader, 0)
    assert report.topic_id == runner.cluster.topics["orders"].topic_id
    assert report.keys[0].key == b"hot" and report.keys[0].size == 3
    assert 0.3 < report.keys[0].messages / report.messages < 0.7
    assert sum(key.messages for key in report.keys) <= report.messages
    assert 4_000 < report.messages < 16_000
    assert REPORT_MS <= report.over_ms <= ROUND_MS


def test_a_hot_key_of_ten_messages_a_second_is_reported_too() -> None:
    runner, producer = started()
    for number in range(10 * 90):
        key = b"hot" if number % 2 else b"cold-%d" % number
        runner.send(producer, "orders", b"", key, partition=0)
        runner.run(100)
    last = reported(runner)[-1]
    assert last.keys[0].key == b"hot"
    assert 0.3 < last.keys[0].messages / last.messages < 0.7
    assert last.messages == pytest.approx(10 * last.over_ms / 1_000, rel=0.2)


def test_keys_that_never_come_twice_are_never_reported() -> None:
    """Rarely or in bursts, where a single look counts for many messages."""
    runner, producer = started(partitions=3)
    for number in range(150):
        for each in range(20 if number % 5 == 0 else 1):
            runner.send(producer, "orders", b"", b"order-%d-%d" % (number, each), partition=each % 3)
        runner.run(1_000)
    assert reported(runner) == []


def test_a_later_report_speaks_of_what_was_sent_since() -> None:
    runner, producer = started()
    rounds(runner, producer, [b"hot"], 3)
    assert [4_000 < report.messages < 16_000 for report in reported(runner)] == [True] * 3


def test_without_a_key_that_stands_out_nothing_is_reported() -> None:
    runner, producer = started()
    rounds(runner, producer, [b"%d" % number for number in range(8_000)])
    send(runner, producer, [b"hot"], 500, partition=1)
    runner.run(2 * ROUND_MS)
    assert not [report for report in reported(runner) if report.partition == 0]
    assert not [report for report in reported(runner) if report.partition == 1], "too few were looked at"


def test_a_producer_at_rest_reports_nothing_more() -> None:
    runner, producer = started()
    rounds(runner, producer, [b"hot"])
    assert len(runner.cluster.key_reports) == 1
    runner.run(20 * ROUND_MS)
    assert len(runner.cluster.key_reports) == 1


def test_a_report_names_few_keys_and_cuts_long_ones() -> None:
    runner, producer = started()
    keys = [bytes([number]) * 1_000 for number in range(9)] + [b"%d" % number for number in range(3)]
    rounds(runner, producer, keys)
    (report,) = reported(runner)
    assert len(report.keys) <= KEYS_MAX
    cut = [key for key in report.keys if key.size == 1_000]
    assert cut and all(len(key.key) == 128 for key in cut)


@pytest.mark.parametrize("setting", ["report_hot_keys", "sample_keys"])
def test_a_producer_that_is_not_to_report_does_not(setting: str) -> None:
    runner, producer = started(**{setting: False})
    rounds(runner, producer, [b"hot"], 2)
    assert not runner.cluster.key_reports and not [call for call in runner.calls if call[1] == "ReportKeys"]


def test_a_report_without_an_answer_is_dropped_and_counted_and_sending_goes_on() -> None:
    runner, producer = started()
    runner.cluster.refuses_key_reports = ErrorCode.THROTTLED
    rounds(runner, producer, [b"hot"])
    assert producer.stats(runner.now).key_reports_failed == 1
    runner.cluster.refuses_key_reports = None
    delivery = runner.send(producer, "orders", b"on", b"hot", partition=0)
    rounds(runner, producer, [b"hot"])
    assert delivery.receipt().offset == 8_000
    assert producer.failed_messages == 0
    (report,) = reported(runner)
    assert report.messages < 16_000, "what was dropped is not reported later"


def test_a_broker_that_does_not_know_the_call_is_spared_for_a_while() -> None:
    runner, producer = started()
    runner.cluster.refuses_key_reports = ErrorCode.INVALID_REQUEST
    rounds(runner, producer, [b"hot"], 4)
    assert [call for call in runner.calls if call[1] == "ReportKeys"] == [(0, "ReportKeys")]
    assert producer.stats(runner.now).key_reports_failed == 1
    runner.cluster.refuses_key_reports = None
    runner.run(100 * SPARED_MS)
    send(runner, producer, [b"hot"], 16_000)
    runner.run(ROUND_MS)
    (report,) = reported(runner)
    assert report.over_ms <= ROUND_MS, "it does not speak of the time at rest"


def test_a_producer_closes_while_its_report_is_under_way() -> None:
    runner, producer = started()
    send(runner, producer, [b"hot"], 8_000)
    for broker in list(runner.cluster.brokers):
        runner.cluster.silent[broker] = None
    runner.run(ROUND_MS)
    assert (0, "ReportKeys") in runner.calls
    producer.close(runner.now)
    runner.run(20_000)
    assert not runner.cluster.key_reports
