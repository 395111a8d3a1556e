"""The data sets by name: key, columns with their types, as docs/data-sets.md promises them."""

from dataclasses import dataclass

from pyspark.sql.types import StructType

QUANTITY = "decimal(38,0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One data set. `columns` are (name, Spark type) in order, the first `key` of them its key."""

    name: str
    key: int
    columns: tuple[tuple[str, str], ...]

    @property
    def key_names(self) -> list[str]:
        return [name for name, _ in self.columns[: self.key]]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    @property
    def struct(self) -> StructType:
        parsed = StructType.fromDDL(", ".join(f"`{name}` {kind}" for name, kind in self.columns))
        assert isinstance(parsed, StructType)
        return parsed


def _of(name: str, key: str, values: str) -> DataSet:
    keys, rest = _columns(key), _columns(values)
    return DataSet(name=name, key=len(keys), columns=(*keys, *rest))


def _columns(text: str) -> tuple[tuple[str, str], ...]:
    pairs = [entry.split() for entry in text.split(";")]
    return tuple((name, kind) for name, kind in pairs)


_TOPIC = "tenant string; topic_id string; topic string"
_LOG = f"{_TOPIC}; partition int; log_generation bigint"
_SOURCE = "src_partition int; src_offset bigint"

USAGE_HOUR = _of(
    "usage_hour",
    f"{_LOG}; hour timestamp; principal bigint; group string; meter string",
    f"quantity {QUANTITY}",
)
USAGE_DAY = _of("usage_day", f"{_TOPIC}; day date; meter string", f"quantity {QUANTITY}; partitions int")
USAGE_MINUTE = _of("usage_minute", f"{_TOPIC}; minute bigint; meter string", f"quantity {QUANTITY}")
CUT_USAGE = _of(
    "cut_usage",
    f"cut_id string; {_LOG}; day date; meter string",
    f"quantity {QUANTITY}; first_offset bigint; end_offset bigint",
)
CUT_COVERAGE = _of(
    "cut_coverage",
    f"cut_id string; {_LOG}",
    "start_offset bigint; end_offset bigint; status string; reason string; missing string",
)
SEAL = _of(
    "seal",
    "tenant string; topic_id string; partition int; log_generation bigint; base_offset bigint",
    f"end_offset bigint; seal binary; {_SOURCE}",
)
CHAIN = _of("chain", _SOURCE, "sha256 string")
REJECTED = _of("rejected", f"{_SOURCE}; row int", "reason string; record binary")
WAIVED = _of("waived", "broker_id int; boot_id string", "first_missing bigint; missing bigint; open boolean")
COVERAGE_ISSUE = _of("coverage_issue", "src_partition int; first_missing bigint", "missing bigint")
SLA_5M = _of("sla_5m", "tenant string; operation string; window timestamp", "valid bigint; bad bigint")
SLA_MINUTE = _of(
    "sla_minute",
    "tenant string; operation string; minute bigint",
    "valid bigint; bad bigint; succeeded_seconds bigint; failed_seconds bigint",
)
SLA_SLOW_5M = _of(
    "sla_slow_5m", "tenant string; operation string; window timestamp; over_ms int", "slow bigint"
)
LATENCY_DAY = _of("latency_day", "tenant string; operation string; day date; bucket int", "requests bigint")
COST_HOUR = _of(
    "cost_hour",
    "tenant string; asset string; hour timestamp; method string",
    f"bytes {QUANTITY}; cost_micro {QUANTITY}",
)
ALL = (
    REJECTED, WAIVED, COVERAGE_ISSUE, USAGE_HOUR, USAGE_DAY, USAGE_MINUTE, SLA_5M, SLA_MINUTE, SLA_SLOW_5M,
    LATENCY_DAY, COST_HOUR, SEAL, CHAIN, CUT_USAGE, CUT_COVERAGE,
)  # fmt: skip
"""In the order in which a round publishes them: `cut_coverage`, which invoices wait for, is the last."""
