"""The page of metrics: what brokers and the control plane export, by name."""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from daemon.hang_ups import hang_up_metric
from daemon.identity_metrics import EXPIRES, EXPIRES_SAID, REFUSED, REFUSED_SAID
from data_plane.broker import disk
from data_plane.broker.crowds import STRANGERS, STRANGERS_SAID
from data_plane.broker.disk import DiskStats
from data_plane.broker.metrics import BUILD_INFO, BUILD_INFO_SAID, PREFIX, family, fields_of
from data_plane.node import broker_node, conditions, stats
from data_plane.node.gauges import GAUGES
from data_plane.node.replicas import replica_set
from data_plane.node.stats import NodeStats
from data_plane.node.storage_limits import wing as storage_wing
from docs.reference import markdown
from docs.reference.markdown import code, said_of, table
from spark_usage import metrics as runner

_COLUMNS = ("metric", "kind", "labels", "meaning")
Row = tuple[str, str, str, str]


def page() -> str:
    """Every export. Django has to be set up."""
    rows = [
        _row(InfoMetricFamily(BUILD_INFO, BUILD_INFO_SAID), ("version", "cores")),
        _row(GaugeMetricFamily(EXPIRES, EXPIRES_SAID), ("certificate",)),
        _row(CounterMetricFamily(REFUSED, REFUSED_SAID), ("side", "reason")),
        _row(hang_up_metric(()), ("listener", "reason")),
        _row(GaugeMetricFamily(STRANGERS, STRANGERS_SAID), ("listener",)),
        *_counted(NodeStats(), said_of(stats, "NodeStats")),
        *_counted(DiskStats(), said_of(disk, "DiskStats")),
        *(_row(GaugeMetricFamily(PREFIX + name, said, value=0)) for name, said in _gauges().items()),
    ]
    return markdown.page(
        "Metrics",
        "the counters themselves (`data_plane/node/stats.py`, `data_plane/broker`, `daemon/identity_metrics.py`, "
        "`daemon/hang_ups.py`, `tenants/password_line.py`, "
        "`control_plane/api/metrics.py`, `control_plane/certificate_metrics.py`, `control_plane/server_checks.py`, "
        "`control_plane/brokers/metrics.py`, `billing/metrics.py`, `payments/metrics.py`, `control_plane/worker.py`, "
        "`control_plane/prober_health.py`, `spark_usage/metrics.py`)",
        "All are OpenMetrics text. A broker serves them at `/metrics` of its HTTP listener, the web application "
        "at `/metrics` of `web_metrics_listen`, worker, runner and prober at `/metrics` of `worker_listen`, "
        "`runner_listen` and `prober_listen`; none asks for a key, so bind them where only you reach them. "
        "Durations are histograms in seconds.",
        "## Brokers",
        table(_COLUMNS, sorted(rows)),
        "## Control plane",
        table(_COLUMNS, sorted(_control_plane())),
        "## Worker",
        table(_COLUMNS, sorted(_worker())),
        "## Runner",
        table(_COLUMNS, sorted(_runner())),
        "## Prober",
        table(_COLUMNS, sorted(_prober())),
    )


def _counted(counted: Any, said: dict[str, str]) -> list[Row]:
    mute = [name for name in fields_of(counted) if not said[name]]
    if mute:
        raise ValueError(f"{type(counted).__name__}: no docstring says what these count: {', '.join(mute)}")
    values = {name: getattr(counted, name) for name in fields_of(counted)}
    return [_row(made := family(name, value), _labels_of(made), said[name]) for name, value in values.items()]


def _labels_of(made: Metric) -> Sequence[str]:
    """Prometheus' own class has no other way to them before there is a sample. Those of a histogram are no one's."""
    return () if made.type == "histogram" else getattr(made, "_labelnames", ())


def _row(metric: Metric, labels: Sequence[str] = (), said: str = "") -> Row:
    suffix = {"counter": "_total", "info": "_info"}.get(metric.type, "")
    return code(metric.name + suffix), metric.type, ", ".join(labels), said or metric.documentation


def _gauges() -> Mapping[str, str]:
    """Levels with what they say; those that the node reports, no more and no fewer."""
    found = {
        str(ast.literal_eval(key))
        for module in (broker_node, conditions, replica_set, storage_wing)
        for function in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef) and function.name == "gauges"
        for answer in ast.walk(function)
        if isinstance(answer, ast.Dict)
        for key in answer.keys
        if key is not None
    }
    if found != GAUGES.keys():
        raise ValueError(f"data_plane/node/gauges.py and the node disagree: {sorted(found ^ GAUGES.keys())}")
    return GAUGES


def _worker() -> list[Row]:
    from control_plane import worker

    hang_ups = _row(hang_up_metric(()), ("listener", "reason"))
    counted = [value for value in vars(worker).values() if hasattr(value, "_labelnames")]
    return [
        hang_ups,
        *(_row(collector.describe()[0], collector._labelnames) for collector in counted),
        *(_row(GaugeMetricFamily(PREFIX + name, said)) for name, said in worker.GAUGES.items()),
        *(
            _row(GaugeMetricFamily(PREFIX + name, said), (label,))
            for name, (said, label) in worker.LEVELS_OF.items()
        ),
    ]


def _runner() -> list[Row]:
    return [
        _row(hang_up_metric(()), ("listener", "reason")),
        *(
            _row(GaugeMetricFamily(PREFIX + name, said), runner.LABELS.get(name, ()))
            for name, said in runner.GAUGES.items()
        ),
        *(_row(CounterMetricFamily(PREFIX + name, said)) for name, said in runner.COUNTERS.items()),
    ]


def _prober() -> list[Row]:
    from control_plane import prober_health as prober

    return [
        *(_row(GaugeMetricFamily(PREFIX + name, said)) for name, said in prober.GAUGES.items()),
        *(
            _row(CounterMetricFamily(PREFIX + name, said), labels)
            for name, (said, labels) in prober.COUNTERS.items()
        ),
    ]


def _control_plane() -> list[Row]:
    from billing import metrics as billing
    from control_plane import certificate_metrics, server_checks
    from control_plane.api import metrics
    from control_plane.brokers import metrics as brokers
    from payments import metrics as payments
    from tenants import password_line

    modules = (metrics, certificate_metrics, server_checks, brokers, billing, payments, password_line)
    # A module may have two names for one.
    collectors = dict.fromkeys(
        value for module in modules for value in vars(module).values() if hasattr(value, "_labelnames")
    )
    return [
        _row(hang_up_metric(()), ("listener", "reason")),
        *(_row(collector.describe()[0], collector._labelnames) for collector in collectors),
    ]
