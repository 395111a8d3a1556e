"""Figures: what a benchmark measures, its unit, its goal, and how it is run."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of all lie, by rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What the figure should reach: at least (`floor` True) or at most `value`."""

    value: float
    at_least: bool

    def met(self, value: float) -> bool:
        return value >= self.value if self.at_least else value <= self.value

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.value:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One figure as measured. `beside` are figures printed with it, not judged."""

    name: str
    value: float
    unit: str
    beside: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    """For the JSON line alone."""

    def line(self) -> str:
        values = {"name": self.name, "value": round(self.value, 3), "unit": self.unit}
        beside = {name: round(value, 3) for name, value in self.beside.items()}
        return json.dumps(values | beside | self.details)


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One run that measures one or more figures. `run(folder)` works in a folder of its own on a real disk."""

    figures: tuple[str, ...]
    run: Callable[[Path], list[Measured]]
    seconds: int
    """About how long it takes."""
    quick: bool = True
    """Whether it belongs to the quick set."""
    named_only: bool = False
    """Whether it is left out of all sets: it needs what a machine may not have."""


GOALS: dict[str, Goal] = {
    "usage_priced_s": Goal(value=60.0, at_least=False),
    "broker_fsync_floor_ratio": Goal(value=0.5, at_least=True),
    "ack_p99_floor_ratio": Goal(value=3.0, at_least=False),
    "replicate_tls_ratio": Goal(value=0.8, at_least=True),
    "ack_p99_tls_ratio": Goal(value=1.2, at_least=False),
    "small_batches_per_s": Goal(value=5_000, at_least=True),
    "leader_kill_p99_s": Goal(value=3.0, at_least=False),
    "planned_move_ms": Goal(value=200.0, at_least=False),
    "key_effective_p99_ms": Goal(value=1_000.0, at_least=False),
    "revoke_p99_ms": Goal(value=1_000.0, at_least=False),
    "placement_skew_after_join_percent": Goal(value=10.0, at_least=False),
    "placement_skew_after_drain_percent": Goal(value=10.0, at_least=False),
    "placement_skew_after_hot_spot_percent": Goal(value=10.0, at_least=False),
    "topic_create_p50_ms": Goal(value=60.0, at_least=False),
    "topic_create_p99_ms": Goal(value=200.0, at_least=False),
    "topics_created_1000_s": Goal(value=2.0, at_least=False),
    "broker_calls_per_change": Goal(value=3.0, at_least=False),
    "topic_create_many_ratio": Goal(value=1.2, at_least=False),
    "list_10k_topics_p99_ms": Goal(value=100.0, at_least=False),
    "apply_10k_unchanged_s": Goal(value=10.0, at_least=False),
    "reconcile_10k_topics_s": Goal(value=60.0, at_least=False),
    "reconcile_at_rest_core_percent": Goal(value=2.0, at_least=False),
    "sign_up_to_first_message_ms": Goal(value=1_000.0, at_least=False),
    "change_beside_10k_topics_ratio": Goal(value=1.2, at_least=False),
    "many_partitions_rss_mb": Goal(value=2_000.0, at_least=False),
    "many_partitions_idle_percent": Goal(value=5.0, at_least=False),
    "many_partitions_fail_over_p99_s": Goal(value=5.0, at_least=False),
    "many_partitions_restart_s": Goal(value=30.0, at_least=False),
    "metering_overhead_percent": Goal(value=3.0, at_least=False),
    "round_at_rest_cpu_s": Goal(value=1.0, at_least=False),
    "quota_reach_percent": Goal(value=95.0, at_least=True),
    "quota_error_percent": Goal(value=5.0, at_least=False),
    "budget_overshoot_percent": Goal(value=1.0, at_least=False),
    "noisy_neighbour": Goal(value=1.25, at_least=False),
    "noisy_neighbour_throughput": Goal(value=0.9, at_least=True),
    "broker_recovery_10gb_s": Goal(value=30.0, at_least=False),
}
"""Goals that hold now. `ack_p99_500_partitions_ms` is judged against twice `ack_p99_ms` of the same run."""
