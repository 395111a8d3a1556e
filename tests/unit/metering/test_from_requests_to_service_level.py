"""From a broker's counters over usage records to a month's formulas: an outage of known length is measured within 1 %.

The clock is simulated. Records are folded here in plain Python as `spark_usage/service_levels.py` does it; that Spark
does the same, each record once, is shown in tests/spark_usage.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from data_plane.contract.usage_pb2 import UsageRecord
from data_plane.metering.increments import Increments, RequestTally
from data_plane.node.metering.record_draft import RecordDraft
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId
from penstock.rules.latency_buckets import percentile_us
from penstock.rules.service_levels import (
    PRODUCE,
    WHOLE,
    WINDOW_S,
    Counts,
    FailedMinute,
    OperationMonth,
    operation_month,
)

ACME = TenantId("tn_acme")
HOUR_S = 3_600
BEGIN_S = 1_788_220_800


@dataclass(slots=True)
class Broker:
    """One that counts each request, gathers every second and writes every ten."""

    tally: RequestTally = field(default_factory=lambda: RequestTally(ACME, PRODUCE))
    increments: Increments = field(default_factory=Increments)
    written: list[bytes] = field(default_factory=list)

    def second(self, at_s: int, errors: list[int]) -> None:
        for error in errors:
            self.tally.count(error)
            if not error:
                self.tally.took(2.0)
        self.increments.gather(self.tally, at_s * 1_000 + 500)
        if at_s % 10 == 9:
            draft = RecordDraft()
            draft.take_increments(self.increments)
            if draft.rows:
                draft.record.sequence = len(self.written) + 1
                self.written.append(draft.record.SerializeToString())


def measured(brokers: list[Broker], length_s: int) -> tuple[OperationMonth, dict[int, int]]:
    windows: dict[int, Counts] = {}
    minutes: dict[int, FailedMinute] = {}
    latencies: dict[int, int] = defaultdict(int)
    for broker in brokers:
        for value in broker.written:
            for row in UsageRecord.FromString(value).requests:
                window = row.minute * 60 // WINDOW_S * WINDOW_S
                known = windows.get(window, Counts())
                windows[window] = Counts(valid=known.valid + row.valid, bad=known.bad + row.bad)
                one = minutes.get(row.minute, FailedMinute(
                    minute=row.minute, valid=0, bad=0, succeeded_seconds=0, failed_seconds=0
                ))  # fmt: skip
                minutes[row.minute] = FailedMinute(
                    minute=row.minute, valid=one.valid + row.valid, bad=one.bad + row.bad,
                    succeeded_seconds=one.succeeded_seconds | row.succeeded_seconds,
                    failed_seconds=one.failed_seconds | row.failed_seconds,
                )  # fmt: skip
                for bucket, count in zip(row.latency_buckets, row.latency_counts, strict=True):
                    latencies[bucket] += count
    failed = [minute for minute in minutes.values() if minute.bad]
    bounds = (BEGIN_S, BEGIN_S + length_s)
    return operation_month(PRODUCE, bounds, windows, {}, failed, []), dict(latencies)


def test_an_outage_of_all_brokers_is_measured_within_one_percent() -> None:
    """403 s of an hour, from the middle of a minute; client faults in between count neither way."""
    begin, end = BEGIN_S + 1_000, BEGIN_S + 1_403
    brokers = [Broker(), Broker()]
    for at in range(BEGIN_S, BEGIN_S + HOUR_S):
        down = begin <= at < end
        for broker in brokers:
            broker.second(at, [ErrorCode.NOT_ENOUGH_REPLICAS if down else 0] * 3 + [ErrorCode.FORBIDDEN])
    found, latencies = measured(brokers, HOUR_S)
    assert found.runs == ((begin, end),)
    for parts in (found.mean_parts, found.runs_parts):
        assert parts is not None
        assert abs((WHOLE - parts) * HOUR_S / WHOLE - 403) <= 4.03
    assert (found.valid, found.bad) == (2 * 3 * HOUR_S, 2 * 3 * 403)
    assert sum(latencies.values()) == found.valid - found.bad
    middle = percentile_us(latencies, 500)
    assert middle is not None and abs(middle - 2_000) <= 20


def test_an_outage_of_one_of_three_brokers_is_partial_and_counts_in_the_mean_alone() -> None:
    begin, end = BEGIN_S + 600, BEGIN_S + 1_200
    brokers = [Broker(), Broker(), Broker()]
    for at in range(BEGIN_S, BEGIN_S + HOUR_S):
        for number, broker in enumerate(brokers):
            broker.second(at, [ErrorCode.DISK_FULL if number == 0 and begin <= at < end else 0] * 2)
    found, _ = measured(brokers, HOUR_S)
    assert found.mean_parts is not None
    assert abs((WHOLE - found.mean_parts) * HOUR_S / WHOLE - 200) <= 2
    assert found.minutes_parts == found.runs_parts == WHOLE and found.down_minutes == 0
