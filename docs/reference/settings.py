"""The page of settings: what each process of the service reads from its configuration file and from the environment."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from control_plane import config as control_plane
from control_plane import server_tls
from daemon.settings import Settings
from data_plane.broker import config as broker
from data_plane.broker import metadata_config
from data_plane.node import config as node
from docs.reference import markdown
from docs.reference.markdown import code, said_of, table
from spark_usage import configuration as runner

_COLUMNS = ("setting", "default", "meaning")
_VARIABLES = (
    ("PENSTOCK_CONFIG", "web, worker, runner", "their configuration file"),
    (
        "PENSTOCK_CLOCK_OFFSET_MS",
        "all",
        "milliseconds added to the machine's clock, the same in all processes; for trying out what happens at the end "
        "of a month",
    ),
    ("PENSTOCK_SPARK_MEMORY", "runner", "memory of Spark's driver, 1g unless given"),
    (f"{broker.ENVIRONMENT_PREFIX}<SETTING>", "broker", "a setting of the broker, above its file"),
)


def page() -> str:
    """Every model, setting by setting."""
    return markdown.page(
        "Settings",
        "the models (`data_plane/broker/config.py`, `control_plane/config.py`, `spark_usage/configuration.py`)",
        "Each process reads one JSON file once, when it starts. What is wrong is refused with the file, the path of "
        "the setting, the fact and the demand; a name that is no setting is answered with the nearest one:",
        "```\n/etc/penstock.json: brokers.pepper_verson: no such setting; did you mean pepper_version?\n```",
        "## Broker",
        "`python -m data_plane.broker --config FILE`. In the environment `zone` is "
        f"`{broker.ENVIRONMENT_PREFIX}ZONE` and so on; numbers, true and false, and objects are written as JSON there.",
        table(_COLUMNS, _settings(broker, broker.BrokerConfig)),
        '`metadata` as an object, with `"kind": "etcd"`:',
        table(_COLUMNS, _settings(metadata_config, metadata_config.EtcdMetadata)),
        "`timings`, in ms:",
        table(_COLUMNS, _numbers("Timings", fields(node.Timings))),
        "`limits`, in bytes where the name does not say otherwise:",
        table(
            _COLUMNS, _numbers("NodeConfig", [x for x in fields(node.NodeConfig) if x.name in broker.LIMITS])
        ),
        "## Web application and worker",
        "`PENSTOCK_CONFIG` names the file, which both share with the usage pipeline.",
        table(_COLUMNS, _settings(control_plane, control_plane.Config)),
        "`database_tls` and `redis_tls`, each an object:",
        table(_COLUMNS, _settings(server_tls, server_tls.ServerTls)),
        "## Usage pipeline",
        "The runner reads these of the same file; its own file may leave out the others.",
        table(_COLUMNS, _settings(runner, runner.Configuration)),
        "## Environment",
        table(
            ("variable", "read by", "meaning"),
            [(code(name), processes, meaning) for name, processes, meaning in _VARIABLES],
        ),
    )


def _settings(module: ModuleType, model: type[Settings], above: str = "") -> list[Sequence[str]]:
    """A row for each setting; those of an object follow it with their path."""
    said = said_of(module, model.__name__)
    rows: list[Sequence[str]] = []
    for field in msgspec.structs.fields(model):
        if field.name == "file":
            continue  # the process gives it
        inner = field.type if isinstance(field.type, type) and issubclass(field.type, Settings) else None
        if inner is not None:
            rows += _settings(sys.modules[inner.__module__], inner, f"{above}{field.name}.")
        else:
            if not said[field.name]:
                raise ValueError(f"{module.__name__}: no docstring says what {field.name} is")
            rows.append((code(above + field.name), _default(field), said[field.name]))
    return rows


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return "none" if value in (None, "", (), {}) else code(msgspec.json.encode(value).decode().strip('"'))


def _numbers(model: str, found: Iterable[Any]) -> list[Sequence[str]]:
    said = said_of(Path(str(node.__file__)), model)
    return [(code(field.name), f"{field.default:,}", said[field.name]) for field in found]
