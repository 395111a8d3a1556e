"""The broker's configuration: one JSON file, settings from PENSTOCK_BROKER_* in the environment above it; read once.

| setting                | meaning                                                                | default        |
| ---------------------- | ---------------------------------------------------------------------- | -------------- |
| broker_id              | number of this broker, unique in the cluster                           | required       |
| cluster_id             | id of the cluster; checked against metadata and log directory          | required       |
| data                   | the log directory                                                      | required       |
| metadata               | the SQLite file that all brokers of this machine share, or {kind: etcd,|                |
|                        | endpoints: [...]}, see `data_plane/broker/metadata_config.py`          | required       |
| client_listen          | host:port of the client listener; port 0 chooses one                   | 127.0.0.1:0    |
| internal_listen        | host:port for other brokers and Admin calls; a loopback address        | 127.0.0.1:0    |
| http_listen            | host:port of /healthz, /readyz and /metrics                            | 127.0.0.1:0    |
| client_advertised      | what clients are told; required when the listener is on all addresses  | as bound       |
| internal_advertised    | what other brokers are told                                            | as bound       |
| zone                   | failure domain                                                         | the broker id  |
| cluster_secret_file    | file with the secret that internal calls carry                         | required       |
| pepper_files           | {version: file} of the peppers of API keys, hex                        | required       |
| tls_certificate_file   | PEM chain of the client listener; without it only loopback is served   | none           |
| tls_key_file           | its PEM key                                                            | none           |
| timings                | {name: ms}, see `data_plane/node/config.py`                            | as there       |
| limits                 | {name: bytes}: journal_bytes, tail_bytes, disk_soft_free_bytes and so on | as there       |
| metering               | usage is read into `__usage` and nothing unread deleted: true or false  | true           |
| log_level              | debug, info, warning, error                                            | info           |

In the environment `broker_id` is PENSTOCK_BROKER_BROKER_ID and so on; numbers and {…} are written as JSON.
Secret files hold one line; spaces around it do not count.
"""

import ipaddress
import json
import ssl
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from data_plane.broker.metadata_config import EtcdMetadata
from data_plane.node.config import NodeConfig, Timings
from penstock.contract.errors import ConfigurationError
from penstock.contract.ids import BrokerId

ENVIRONMENT_PREFIX = "PENSTOCK_BROKER_"
SECRET_LENGTH_MIN = 32
"""Of the cluster secret, in characters, and of a pepper, in hex digits."""
BROKER_ID_MAX = 999_999
"""Keys of the metadata store hold six digits."""
_LISTENERS = ("client_listen", "internal_listen", "http_listen")
_LIMITS = ("journal_bytes", "tail_bytes", "replica_window_bytes", "push_bytes_max", "unsynced_bytes_max",
           "disk_soft_free_bytes", "disk_hard_free_bytes", "ballast_bytes", "scrub_bytes_per_s", "stray_keep_ms",
           "damaged_keep_ms", "catch_up_bytes_per_s", "replica_open_max")  # fmt: skip
_LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """See the table of the module. Refuses to exist when a value is wrong (`ConfigurationError` naming it)."""

    broker_id: int
    cluster_id: str
    data: Path
    metadata: Path | EtcdMetadata
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
    metering: bool = True
    log_level: str = "info"

    def __post_init__(self) -> None:
        _demand(
            0 <= self.broker_id <= BROKER_ID_MAX,
            f"broker_id: {self.broker_id} is not within 0 to {BROKER_ID_MAX}",
        )
        _demand(bool(self.cluster_id), "cluster_id: is empty")
        hosts = {name: _host_of(name, getattr(self, name)) for name in _LISTENERS}
        for name in ("client_advertised", "internal_advertised"):
            if getattr(self, name):
                _host_of(name, getattr(self, name))
        self._check_exposure(hosts)
        _demand(
            self.log_level in _LOG_LEVELS,
            f"log_level: {self.log_level!r} is not one of {', '.join(_LOG_LEVELS)}",
        )
        _check_numbers("timings", self.timings, [item.name for item in fields(Timings)])
        _check_numbers("limits", self.limits, list(_LIMITS))
        _demand(bool(self.pepper_files), "pepper_files: is empty; keys are made with a pepper")
        for version in self.pepper_files:
            _demand(version.isdecimal(), f"pepper_files: {version!r} is no version number")

    def _check_exposure(self, hosts: Mapping[str, str]) -> None:
        """Secrets cross no network in plain text (RELIABILITY (e) 3)."""
        _demand(
            (self.tls_certificate_file is None) == (self.tls_key_file is None),
            "tls_certificate_file, tls_key_file: give both or none",
        )
        _demand(
            self.tls_certificate_file is not None or _is_loopback(hosts["client_listen"]),
            f"client_listen: {hosts['client_listen']} is not a loopback address; API keys need TLS there:"
            " give tls_certificate_file and tls_key_file",
        )
        _demand(
            _is_loopback(hosts["internal_listen"]),
            f"internal_listen: {hosts['internal_listen']} is not a loopback address; the cluster secret travels"
            " there in plain text, and all brokers of one metadata file are on this machine",
        )
        _demand(
            bool(self.client_advertised) or not _is_everywhere(hosts["client_listen"]),
            f"client_listen: {hosts['client_listen']} is no address that clients can be told;"
            " give client_advertised",
        )

    def node_config(self, client_address: str, internal_address: str) -> NodeConfig:
        """What the node gets, once the ports are bound."""
        return NodeConfig(
            broker_id=BrokerId(self.broker_id),
            cluster_id=self.cluster_id,
            client_address=self.client_advertised or client_address,
            internal_address=self.internal_advertised or internal_address,
            zone=self.zone or str(self.broker_id),
            cluster_secret=self.cluster_secret(),
            peppers={int(version): _pepper_of(Path(path)) for version, path in self.pepper_files.items()},
            timings=Timings(**self.timings),
            metering=self.metering,
            **self.limits,
        )

    def cluster_secret(self) -> str:
        """Raises `ConfigurationError` when the file cannot be read or holds no secret."""
        secret = _text_of(self.cluster_secret_file)
        _demand(
            len(secret) >= SECRET_LENGTH_MIN and secret.isascii() and secret.isprintable(),
            f"cluster_secret_file: {self.cluster_secret_file} holds no secret of at least"
            f" {SECRET_LENGTH_MIN} printable characters",
        )
        return secret

    def tls(self) -> tuple[bytes, bytes] | None:
        """(key, certificate chain) in PEM, None without TLS. Raises `ConfigurationError` when they do not fit."""
        certificate, key = self.tls_certificate_file, self.tls_key_file
        if certificate is None or key is None:
            return None
        try:
            pair = key.read_bytes(), certificate.read_bytes()
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, _no_password)
        except ssl.SSLError as error:
            raise ConfigurationError(
                f"tls_certificate_file {certificate} and tls_key_file {key}: no usable pair ({error.reason})"
            ) from None
        except OSError as error:
            raise ConfigurationError(f"{error.filename}: {error.strerror}") from None
        return pair


def read_config(file: Path, environment: Mapping[str, str]) -> BrokerConfig:
    """The file's settings, those of the environment above them. Raises `ConfigurationError` naming the setting."""
    try:
        values: Any = json.loads(file.read_text())
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{file}: is not JSON: {error}") from None
    _demand(isinstance(values, dict), f"{file}: a JSON object is required")
    settings = {item.name: item for item in fields(BrokerConfig)}
    for name in values:
        _demand(name in settings, f"{file}: {name!r} is no setting; known: {', '.join(settings)}")
    for name, text in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX):
            setting = name.removeprefix(ENVIRONMENT_PREFIX).lower()
            _demand(setting in settings, f"{name}: {setting!r} is no setting; known: {', '.join(settings)}")
            values[setting] = _from_environment(name, text, settings[setting])
    missing = [name for name, item in settings.items() if name not in values and _required(item)]
    _demand(not missing, f"{file}: missing {', '.join(missing)}")
    return BrokerConfig(**{name: _typed(settings[name], value) for name, value in values.items()})


def _from_environment(name: str, text: str, setting: "Field[Any]") -> Any:
    if setting.name == "metadata" and not text.startswith("{"):
        return text
    if (
        setting.name != "metadata"
        and setting.type not in (int, bool)
        and not str(setting.type).startswith("collections.abc.Mapping")
    ):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise ConfigurationError(f"{name}: {text!r} is not JSON") from None


def _typed(setting: "Field[Any]", value: Any) -> Any:
    """The value as its field wants it. Raises `ConfigurationError`."""
    kind, name = setting.type, setting.name
    if kind is int:
        _demand(type(value) is int, f"{name}: {value!r} is no whole number")
        return value
    if kind is bool:
        _demand(type(value) is bool, f"{name}: {value!r} is neither true nor false")
        return value
    if kind is str:
        _demand(isinstance(value, str), f"{name}: {value!r} is no text")
        return value
    if str(kind).startswith("collections.abc.Mapping"):
        _demand(isinstance(value, dict), f"{name}: {value!r} is no object")
        return value
    if name == "metadata" and isinstance(value, dict):
        return EtcdMetadata.of(value)
    if value is None and setting.default is None:
        return None
    _demand(isinstance(value, str) and bool(value), f"{name}: {value!r} is no file name")
    return Path(value)


def _required(item: "Field[Any]") -> bool:
    return item.default is MISSING and item.default_factory is MISSING


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigurationError(message)


def _check_numbers(setting: str, values: Mapping[str, Any], known: list[str]) -> None:
    for name, value in values.items():
        _demand(name in known, f"{setting}: {name!r} is unknown; known: {', '.join(known)}")
        _demand(type(value) is int and value > 0, f"{setting}: {name}: {value!r} is no whole number above 0")


def _host_of(name: str, address: str) -> str:
    host, _, port = address.rpartition(":")
    _demand(
        bool(host) and port.isascii() and port.isdecimal() and int(port) < 65_536,
        f"{name}: {address!r} is not host:port",
    )
    return host.strip("[]")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_everywhere(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file}: is no text") from None


def _pepper_of(file: Path) -> bytes:
    text = _text_of(file)
    try:
        pepper = bytes.fromhex(text)
    except ValueError:
        raise ConfigurationError(f"{file}: a pepper is hex digits") from None
    _demand(len(text) >= SECRET_LENGTH_MIN, f"{file}: a pepper is at least {SECRET_LENGTH_MIN} hex digits")
    return pepper


def _no_password() -> str:
    """A broker starts without anybody typing: an encrypted key is refused, not asked about."""
    return ""
