"""Gauges of placement at /metrics: skew, moves, and hot partitions."""

from prometheus_client import Gauge

from control_plane.api.metrics import registry
from control_plane.placement import queries
from control_plane.placement.hot import HOT_KEY_PERCENT, hot_partitions
from control_plane.placement.models import OPEN
from control_plane.placement.weighing import reports_skew

_skew = Gauge(
    "penstock_placement_skew_percent",
    "Largest distance of a broker from the mean of all, in percent of the mean, by what is weighed.",
    ["of"],
    registry=registry,
)
_moves = Gauge(
    "penstock_placement_moves",
    "Number of moves of partitions that have not ended.",
    ["state"],
    registry=registry,
)
_bytes = Gauge(
    "penstock_placement_move_bytes",
    "Bytes to copy for moves that have not ended, as known when they were planned.",
    ["state"],
    registry=registry,
)
_hot = Gauge(
    "penstock_placement_hot_partitions",
    "Number of partitions that take and give far more than others of their broker or tenant.",
    registry=registry,
)
_hot_keys = Gauge(
    "penstock_placement_hot_keys",
    "Number of hot partitions of which one key has a quarter of the messages or more.",
    registry=registry,
)


def refresh() -> None:
    """Set the gauges from the database."""
    for name, percent in reports_skew(list(queries.load_sums().values())).items():
        _skew.labels(name).set(percent)
    by_state = queries.open_by_state()
    for state in OPEN:
        number, size = by_state.get(state, (0, 0))
        _moves.labels(state.value).set(number)
        _bytes.labels(state.value).set(size)
    hot = hot_partitions()
    _hot.set(len(hot))
    _hot_keys.set(sum(one.hot_key_percent >= HOT_KEY_PERCENT for one in hot))
