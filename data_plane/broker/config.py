"""The broker's configuration: one JSON file, settings from PENSTOCK_BROKER_* in the environment above it; read once.

| setting                | meaning                                                                | default        |
| ---------------------- | ---------------------------------------------------------------------- | -------------- |
| broker_id              | number of this broker, unique in the cluster                           | required       |
| cluster_id             | id of the cluster; checked against metadata and log directory          | required       |
| data                   | the log directory                                                      | required       |
| metadata               | the SQLite file that all brokers of this machine share                 | required       |
| client_listen          | host:port of the client listener; port 0 chooses one                   | 127.0.0.1:0    |
| internal_listen        | host:port of the listener for other brokers and Admin calls            | 127.0.0.1:0    |
| http_listen            | host:port of /healthz, /readyz and /metrics                            | 127.0.0.1:0    |
| client_advertised      | what clients are told, when it is not what is bound                    | as bound       |
| internal_advertised    | what other brokers are told                                            | as bound       |
| zone                   | failure domain                                                         | the broker id  |
| cluster_secret_file    | file with the secret that internal calls carry                         | required       |
| pepper_files           | {version: file} of the peppers of API keys, hex                        | required       |
| tls_certificate_file   | PEM chain of the client listener; without it only loopback is served   | none           |
| tls_key_file           | its PEM key                                                            | none           |
| timings                | {name: ms}, see `data_plane/node/config.py`                            | as there       |
| limits                 | {name: bytes}: journal_bytes, tail_bytes, disk_soft_free_bytes and so on | as there       |
| log_level              | debug, info, warning, error                                            | info           |
"""

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from data_plane.node.config import NodeConfig, Timings
from penstock.contract.errors import ConfigurationError
from penstock.contract.ids import BrokerId

ENVIRONMENT_PREFIX = "PENSTOCK_BROKER_"
_LIMITS = ("journal_bytes", "tail_bytes", "replica_window_bytes", "push_bytes_max", "unsynced_bytes_max",
           "disk_soft_free_bytes")  # fmt: skip
_LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """See the table of the module. Refuses to exist when a value is wrong (`ConfigurationError` naming it)."""

    broker_id: int
    cluster_id: str
    data: Path
    metadata: Path
    client_listen: str = "127.0.0.1:0"
    internal_listen: str = "127.0.0.1:0"
    http_listen: str = "127.0.0.1:0"
    client_advertised: str = ""
    internal_advertised: str = ""
    zone: str = ""
    cluster_secret_file: Path
    pepper_files: Mapping[str, str]
    tls_certificate_file: Path | None = None
    tls_key_file: Path | None = None
    timings: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    log_level: str = "info"

    def __post_init__(self) -> None:
        _demand(self.broker_id >= 0, f"broker_id: {self.broker_id} is negative")
        _demand(bool(self.cluster_id), "cluster_id: is empty")
        for name in ("client_listen", "internal_listen", "http_listen"):
            _split(name, getattr(self, name))
        _demand(
            (self.tls_certificate_file is None) == (self.tls_key_file is None),
            "tls_certificate_file, tls_key_file: give both or none",
        )
        host, _ = _split("client_listen", self.client_listen)
        _demand(
            self.tls_certificate_file is not None or _is_loopback(host),
            f"client_listen: {host} is not a loopback address; API keys need TLS there (tls_certificate_file)",
        )
        _demand(
            self.log_level in _LOG_LEVELS,
            f"log_level: {self.log_level!r} is not one of {', '.join(_LOG_LEVELS)}",
        )
        timings = [item.name for item in fields(Timings)]
        for name in self.timings:
            _demand(name in timings, f"timings: {name!r} is unknown; known: {', '.join(timings)}")
        for name in self.limits:
            _demand(name in _LIMITS, f"limits: {name!r} is unknown; known: {', '.join(_LIMITS)}")

    def node_config(self, client_address: str, internal_address: str) -> NodeConfig:
        """What the node gets, once the ports are bound."""
        return NodeConfig(
            broker_id=BrokerId(self.broker_id),
            cluster_id=self.cluster_id,
            client_address=self.client_advertised or client_address,
            internal_address=self.internal_advertised or internal_address,
            zone=self.zone or str(self.broker_id),
            cluster_secret=self.cluster_secret(),
            peppers={int(version): _hex_of(Path(path)) for version, path in self.pepper_files.items()},
            timings=Timings(**self.timings),
            **self.limits,
        )

    def cluster_secret(self) -> str:
        secret = _text_of(self.cluster_secret_file)
        _demand(
            len(secret) >= 32,
            f"cluster_secret_file: {self.cluster_secret_file} holds less than 32 characters",
        )
        return secret


def read_config(file: Path, environment: Mapping[str, str]) -> BrokerConfig:
    """The file's settings, those of the environment above them. Raises `ConfigurationError` naming the setting."""
    try:
        values: dict[str, Any] = json.loads(file.read_text())
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{file}: is not JSON: {error}") from None
    _demand(isinstance(values, dict), f"{file}: a JSON object is required")
    kinds = {item.name: str(item.type) for item in fields(BrokerConfig)}
    for name, value in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX):
            setting = name.removeprefix(ENVIRONMENT_PREFIX).lower()
            values[setting] = (
                json.loads(value) if kinds.get(setting, "").startswith(("int", "Mapping")) else value
            )
    for name, value in values.items():
        _demand(name in kinds, f"{file}: {name!r} is no setting; known: {', '.join(kinds)}")
        if "Path" in kinds[name] and value is not None:
            values[name] = Path(value)
        elif kinds[name] == "int":
            _demand(
                isinstance(value, int) and not isinstance(value, bool),
                f"{name}: {value!r} is no whole number",
            )
    missing = [item.name for item in fields(BrokerConfig) if item.name not in values and _required(item)]
    _demand(not missing, f"{file}: missing {', '.join(missing)}")
    return BrokerConfig(**values)


def _required(item: Any) -> bool:
    from dataclasses import MISSING

    return item.default is MISSING and item.default_factory is MISSING


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigurationError(message)


def _split(name: str, address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    _demand(bool(host) and port.isdigit() and int(port) < 65_536, f"{name}: {address!r} is not host:port")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _text_of(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from None


def _hex_of(file: Path) -> bytes:
    try:
        return bytes.fromhex(_text_of(file))
    except ValueError:
        raise ConfigurationError(f"{file}: a pepper is hex digits") from None
