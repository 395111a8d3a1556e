"""The data sets by name: key, columns with their types, as docs/data-sets.md promises them."""

from dataclasses import dataclass
from functools import cache

from pyspark.sql.types import StructType

QUANTITY = "decimal(38,0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One data set. `columns` are (name, Spark type) in order, the first `key` of them its key."""

    name: str
    key: int
    columns: tuple[tuple[str, str], ...]
    window: str
    """Spark's expression for the window that a row belongs to, as text in which windows are in order."""
    internal: bool = False
    """What the next round goes on from. Its rows may be any of several that say the same, so it has no digest."""

    @property
    def key_names(self) -> list[str]:
        return [name for name, _ in self.columns[: self.key]]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    @property
    def struct(self) -> StructType:
        return _struct(self.columns)


@cache
def _struct(columns: tuple[tuple[str, str], ...]) -> StructType:
    """Spark's Java parses it."""
    parsed = StructType.fromDDL(", ".join(f"`{name}` {kind}" for name, kind in columns))
    assert isinstance(parsed, StructType)
    return parsed


def _of(name: str, key: str, values: str, *, window: str = "'all'", internal: bool = False) -> DataSet:
    keys, rest = _columns(key), _columns(values)
    return DataSet(name=name, key=len(keys), columns=(*keys, *rest), window=window, internal=internal)


def _columns(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [entry.split() for entry in text.split(";")]
    return tuple((name, kind) for name, kind in pairs)


_LAST_DAY_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def _day_of_ms(value: str) -> str:
    return f"date_format(timestamp_millis(greatest(-1, least({value}, {_LAST_DAY_MS}))), 'yyyy-MM-dd')"


def _day_of(column: str) -> str:
    return f"date_format({column}, 'yyyy-MM-dd')"


PLACES_A_WINDOW = 20_000
"""Offsets of `__usage` that share a window of `chain` or `rejected`."""
CUT_WINDOWS = 64
_BY_POSITION = f"format_string('%05d-%012d', src_partition, src_offset div {PLACES_A_WINDOW})"
_BY_CUT = f"format_string('%02d', crc32(cut_id) % {CUT_WINDOWS})"
_BY_MINUTE = _day_of("timestamp_seconds(minute * 60)")
_SEAL_ENDS_MS = "CAST(conv(hex(substring(seal, 71, 8)), 16, 10) AS BIGINT)"
"""When the last batch of a segment was accepted: the eight bytes from 70 on of its seal."""
_TOPIC = "tenant string; topic_id string; topic string"
_LOG = f"{_TOPIC}; partition int; log_generation bigint"
_SOURCE = "src_partition int; src_offset bigint"

USAGE_HOUR = _of(
    "usage_hour",
    f"{_LOG}; hour timestamp; principal bigint; group string; meter string",
    f"quantity {QUANTITY}",
    window=_day_of("hour"),
)
USAGE_DAY = _of(
    "usage_day",
    f"{_TOPIC}; day date; meter string",
    f"quantity {QUANTITY}; partitions int",
    window=_day_of("day"),
)
PRINCIPAL_DAY = _of(
    "principal_day",
    f"{_TOPIC}; day date; principal bigint; group string; meter string",
    f"quantity {QUANTITY}",
    window=_day_of("day"),
)
USAGE_MINUTE = _of(
    "usage_minute",
    f"{_TOPIC}; minute bigint; meter string",
    f"quantity {QUANTITY}",
    window=_BY_MINUTE,
)
CUT_USAGE = _of(
    "cut_usage",
    f"cut_id string; {_LOG}; day date; meter string",
    f"quantity {QUANTITY}; first_offset bigint; end_offset bigint",
    window=_BY_CUT,
)
CUT_COVERAGE = _of(
    "cut_coverage",
    f"cut_id string; {_LOG}",
    "start_offset bigint; end_offset bigint; status string; reason string; missing string",
    window=_BY_CUT,
)
SEAL = _of(
    "seal",
    "tenant string; topic_id string; partition int; log_generation bigint; base_offset bigint",
    f"end_offset bigint; seal binary; {_SOURCE}",
    window=_day_of_ms(_SEAL_ENDS_MS),
)
CHAIN = _of("chain", _SOURCE, "sha256 string", window=_BY_POSITION)
REJECTED = _of("rejected", f"{_SOURCE}; row int", "reason string; record binary", window=_BY_POSITION)
WAIVED = _of("waived", "broker_id int; boot_id string", "first_missing bigint; missing bigint; open boolean")
COVERAGE_ISSUE = _of("coverage_issue", "src_partition int; first_missing bigint", "missing bigint")
SLA_5M = _of(
    "sla_5m",
    "tenant string; operation string; window timestamp",
    "valid bigint; bad bigint",
    window=_day_of("window"),
)
_REQUESTS = "valid bigint; bad bigint; succeeded_seconds bigint; failed_seconds bigint"
SLA_MINUTE = _of("sla_minute", "tenant string; operation string; minute bigint", _REQUESTS, window=_BY_MINUTE)
SLA_SLOW_5M = _of(
    "sla_slow_5m",
    "tenant string; operation string; window timestamp; over_ms int",
    "slow bigint",
    window=_day_of("window"),
)
LATENCY_DAY = _of(
    "latency_day",
    "tenant string; operation string; day date; bucket int",
    "requests bigint",
    window=_day_of("day"),
)
ALL = (
    REJECTED, WAIVED, COVERAGE_ISSUE, USAGE_HOUR, USAGE_DAY, PRINCIPAL_DAY, USAGE_MINUTE, SLA_5M, SLA_MINUTE,
    SLA_SLOW_5M, LATENCY_DAY, SEAL, CHAIN, CUT_USAGE, CUT_COVERAGE,
)  # fmt: skip
"""In the order in which a round publishes them: `cut_coverage`, which invoices wait for, is the last."""

_PRINCIPAL_ROWS = "array<struct<principal:bigint,messages:bigint,bytes:bigint>>"
_RETAINED = "retained_until bigint; byte_minutes bigint; replicated_byte_minutes bigint"
_POINT = "topic_id string; partition int; log_generation bigint; end_offset bigint"
READING = _of(
    "reading",
    f"{_POINT}; {_SOURCE}; row int",
    f"made_ms bigint; tenant string; topic string; accepted_ms bigint; totals array<bigint>; "
    f"principal_rows {_PRINCIPAL_ROWS}; reading_kind int; cut_id string; cut_end_ms bigint; last boolean; "
    f"broker_id int; boot_id string; leader_epoch int; retained_since bigint; {_RETAINED}",
    window=_day_of_ms("greatest(accepted_ms, coalesce(retained_until, 0) * 60000)"),
    internal=True,
)
LOG = _of(
    "log",
    "topic_id string; partition int",
    f"log_generation bigint; end_offset bigint; tenant string; topic string; accepted_ms bigint; "
    f"totals array<bigint>; principal_rows {_PRINCIPAL_ROWS}; began_ms bigint; rough boolean",
    internal=True,
)
LEADERSHIP = _of(
    "leadership",
    "topic_id string; partition int",
    f"leader_epoch int; broker_id int; boot_id string; retained_since bigint; tenant string; topic string; "
    f"{_RETAINED}; all_until bigint",
    internal=True,
)
REQUEST_MINUTE = _of(
    "request_minute",
    "tenant string; operation string; minute bigint",
    _REQUESTS,
    window=_BY_MINUTE,
    internal=True,
)
"""All minutes: a request that failed may come in a later round than others of its minute."""
BOOT = _of(
    "boot",
    "broker_id int; boot_id string; first bigint",
    "end bigint; began_ms bigint; ends boolean",
    internal=True,
)
STATES = (REQUEST_MINUTE, READING, LOG, LEADERSHIP, BOOT)
"""Where a round ends, so that the next goes on from there; `boot` is published last."""
EVERY = (*ALL, *STATES)
