"""The page of settings: what each process of the service reads from its configuration file and from the environment."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from control_plane import config as control_plane
from daemon import data_set_store, server_tls
from daemon.settings import Settings
from data_plane.broker import config as broker
from data_plane.broker import metadata_config
from data_plane.node import config as node
from docs.reference import markdown
from docs.reference.markdown import code, said_of, table
from spark_usage import configuration as runner

_COLUMNS = ("setting", "default", "meaning")
_VARIABLES = (
    (
        "PENSTOCK_CONFIG",
        "commands of `python -m control_plane` and `python -m spark_usage`",
        "the service's file",
    ),
    (
        "PENSTOCK_CLOCK_OFFSET_MS",
        "all",
        "milliseconds added to the machine's clock, the same in all processes; for trying out what happens at the end "
        "of a month",
    ),
    ("PENSTOCK_SPARK_MEMORY", "runner", "memory of Spark's driver, 1g unless given"),
    (f"{broker.ENVIRONMENT_PREFIX}<SETTING>", "broker", "a setting of the broker, above its file"),
    (
        f"{control_plane.ENVIRONMENT_PREFIX}<SETTING>",
        "web, worker, runner",
        "a setting of the service, above its file; each process passes over those of the others",
    ),
)
BROKER_EXAMPLE = {
    "broker_id": 1,
    "cluster_id": "shop",
    "zone": "a",
    "data": "/var/lib/penstock/broker",
    "metadata": "/var/lib/penstock/metadata.sqlite",
    "client_listen": "127.0.0.1:9092",
    "internal_listen": "127.0.0.1:9093",
    "peer_listen": "127.0.0.1:9094",
    "http_listen": "127.0.0.1:9095",
    "identity": {
        "ca_file": "/etc/penstock/certificates/ca.pem",
        "certificate_file": "/etc/penstock/certificates/broker-1.pem",
        "key_file": "/etc/penstock/certificates/broker-1-key.pem",
    },
    "pepper_files": {"1": "/etc/penstock/pepper-1"},
}
SERVER_EXAMPLE = {
    "environment": "live",
    "secret_key": "<32 random characters or more>",
    "database_url": "postgresql://penstock:<password>@db-1:5432,db-2:5432/penstock",
    "database_tls": {"ca_file": "/etc/penstock/certificates/ca.pem"},
    "celery_broker_url": "rediss://:<password>@redis-1:6379/0",
    "redis_tls": {"ca_file": "/etc/penstock/certificates/ca.pem"},
    "public_url": "https://penstock.example.com",
    "listen": "127.0.0.1:8080",
    "worker_listen": "127.0.0.1:8081",
    "runner_listen": "127.0.0.1:8082",
    "prober_listen": "127.0.0.1:8083",
    "brokers": {
        "bootstrap": ["broker-1.example.com:9092"],
        "internal": ["127.0.0.1:9093"],
        "pepper_file": "/etc/penstock/pepper-1",
        "pepper_version": 1,
    },
    "identity": {
        "ca_file": "/etc/penstock/certificates/ca.pem",
        "certificate_file": "/etc/penstock/certificates/control-plane.pem",
        "key_file": "/etc/penstock/certificates/control-plane-key.pem",
    },
    "datasets": "/srv/penstock/datasets",
    "usage_key_file": "/etc/penstock/usage.key",
    "operator_token_file": "/etc/penstock/operator.token",
    "spark": {"master": "local[2]"},
    "pipeline_interval_s": 20,
    "state": "/var/lib/penstock/state",
}


def page() -> str:
    """Every model, setting by setting."""
    return markdown.page(
        "Settings",
        "the models (`data_plane/broker/config.py`, `control_plane/config.py`, `spark_usage/configuration.py`, "
        "`daemon/data_set_store.py`)",
        "Each process reads one JSON file once, when it starts. What is wrong is refused with the file, the path of "
        "the setting, the fact and the demand; a name that is no setting is answered with the nearest one:",
        "```\n/etc/penstock.json: brokers.pepper_verson: no such setting; did you mean pepper_version?\n```",
        "`penstock config check FILE` says of a file what its process would refuse, and more, before it is started.",
        "## Broker",
        "`penstock broker run --config FILE`. In the environment `zone` is "
        f"`{broker.ENVIRONMENT_PREFIX}ZONE` and so on; numbers, true and false, and objects are written as JSON there.",
        "A file, with what each setting means; the comments are not part of it, since JSON has none:",
        _example(BROKER_EXAMPLE, broker, broker.BrokerConfig),
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
        "`penstock server web --config FILE` and `penstock server worker --config FILE`. Both share the file with the "
        f"usage pipeline. In the environment `listen` is `{control_plane.ENVIRONMENT_PREFIX}LISTEN` and so on, as with "
        "the broker: a host's own addresses need no file of their own.",
        _example(SERVER_EXAMPLE, control_plane, control_plane.Config, (runner, runner.Configuration)),
        table(_COLUMNS, _settings(control_plane, control_plane.Config)),
        "`database_tls` and `redis_tls`, each an object:",
        table(_COLUMNS, _settings(server_tls, server_tls.ServerTls)),
        "`data_set_bucket` as an object:",
        table(_COLUMNS, _settings(data_set_store, data_set_store.BucketSettings)),
        "## Usage pipeline",
        "`penstock server runner --config FILE` reads these of the same file; its own file may leave out the others.",
        table(_COLUMNS, _settings(runner, runner.Configuration)),
        "## Environment",
        table(
            ("variable", "read by", "meaning"),
            [(code(name), processes, meaning) for name, processes, meaning in _VARIABLES],
        ),
    )


def _example(
    values: dict[str, Any],
    module: ModuleType,
    model: type[Settings],
    *others: tuple[ModuleType, type[Settings]],
) -> str:
    """A file with the meaning of each setting above it."""
    said = {
        name: text
        for one, kind in ((module, model), *others)
        for name, text in said_of(one, kind.__name__).items()
    }
    lines = ["{"]
    for name, value in values.items():
        lines.append(f"  // {said[name]}")
        text = json.dumps(value, indent=2).replace("\n", "\n  ")
        lines.append(f'  "{name}": {text},')
    lines[-1] = lines[-1].removesuffix(",")
    return "\n".join(["```jsonc", *lines, "}", "```"])


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
