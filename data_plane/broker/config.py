"""The broker's configuration: one JSON file, settings from PENSTOCK_BROKER_* in the environment above it; read once.

`docs/reference/settings.md` lists the settings, made from the model. Secret files hold one line; spaces around it do
not count.
"""

import ipaddress
import logging
import re
import ssl
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from daemon import certificates, pepper_folder, settings
from daemon.certificates import FileEnd
from daemon.identity import Role
from daemon.settings import Settings, require
from daemon.tls import IdentityConfig, OwnIdentity
from data_plane.authz.peppers import ReadPeppers
from data_plane.broker.metadata_config import EtcdMetadata, is_namespace
from data_plane.broker.transition import TransitionConfig
from data_plane.metadata.features import Supported
from data_plane.node.config import NodeConfig, Timings
from penstock import __version__
from penstock.contract.errors import ConfigurationError
from penstock.contract.ids import BROKER_ID_MAX, BrokerId
from penstock.contract.limits import DOMAIN_NAME_LENGTH_MAX
from penstock.rules.addresses import is_loopback
from penstock.rules.names import is_domain_name

ENVIRONMENT_PREFIX = "PENSTOCK_BROKER_"
SECRET_LENGTH_MIN = 32
"""Of a pepper, in hex digits."""
_log = logging.getLogger(__name__)
_VERSION = re.compile("[1-9][0-9]{0,8}")
_NUMBER_MAX = 2**53
LISTENERS = ("client_listen", "internal_listen", "peer_listen", "http_listen")
LIMITS = ("journal_bytes", "tail_bytes", "replica_window_bytes", "push_bytes_max", "unsynced_bytes_max",
           "disk_soft_free_bytes", "disk_hard_free_bytes", "ballast_bytes", "scrub_bytes_per_s", "stray_keep_ms",
           "damaged_keep_ms", "catch_up_bytes_per_s", "replica_open_max",
           "written_logs_max")  # fmt: skip
_LOG_LEVELS = ("debug", "info", "warning", "error")


class BrokerConfig(Settings, frozen=True, kw_only=True):
    """Refuses to exist when a value is wrong."""

    broker_id: int
    """Number of this broker, 0 to 999,999, unique in the cluster."""
    cluster_id: str
    """Id of the cluster; checked against metadata and log directory."""
    data: Path
    """The log directory."""
    metadata: str | EtcdMetadata
    """The SQLite file that all brokers of this machine share, or an object that names an etcd."""
    client_listen: str = "127.0.0.1:0"
    """host:port of the client listener; port 0 chooses one."""
    internal_listen: str = "127.0.0.1:0"
    """host:port for Admin calls, by mutual TLS."""
    peer_listen: str = "127.0.0.1:0"
    """host:port for other brokers, by mutual TLS."""
    http_listen: str = "127.0.0.1:0"
    """host:port of /healthz, /readyz and /metrics."""
    client_advertised: str = ""
    """The address that clients use, as bound unless given; required when the listener is on all addresses."""
    internal_advertised: str = ""
    """The address that Admin calls use; as bound unless given, required when the listener is on all addresses."""
    peer_advertised: str = ""
    """The address that other brokers use; as bound unless given, required when the listener is on all addresses."""
    zone: str = ""
    """Failure domain above the host, such as a data centre; the host unless given."""
    host: str = ""
    """Name of the machine, the same for all brokers on it; a machine of its own unless given."""
    identity: IdentityConfig
    """Who this broker is to other brokers, and whom it believes."""
    transition: TransitionConfig | None = None
    """{"cluster_secret_file": file} while some of the cluster runs the release before: brokers then take and speak its
    plain text as well, on loopback addresses alone."""
    pepper_files: Mapping[str, str]
    """{version: file} of the peppers of API keys, hex."""
    pepper_folder: Path | None = None
    """Folder with the peppers that the control plane makes later, the same as its `brokers.pepper_folder`. It is read
    again when a key needs one."""
    tls_certificate_file: Path | None = None
    """PEM chain of the client listener; without it only loopback is served."""
    tls_key_file: Path | None = None
    """Its PEM key."""
    timings: Mapping[str, Any] = {}
    """{name: ms}, see below."""
    limits: Mapping[str, Any] = {}
    """{name: bytes or ms}, see below."""
    metering: bool = True
    """Usage is read into `__usage` and nothing unread deleted."""
    log_level: str = "info"
    """debug, info, warning or error."""

    def __post_init__(self) -> None:
        require(
            0 <= self.broker_id <= BROKER_ID_MAX,
            "broker_id",
            f"0 to {BROKER_ID_MAX} required, {self.broker_id} given",
        )
        require(bool(self.cluster_id), "cluster_id", "is empty; the id of the cluster required")
        require(self.metadata != "", "metadata", "is empty; the name of a file required")
        require(
            not isinstance(self.metadata, str) or "\0" not in self.metadata,
            "metadata",
            "has a character of value 0; the name of a file required",
        )
        require(
            not isinstance(self.metadata, EtcdMetadata)
            or is_namespace(self.metadata.namespace or self.cluster_id),
            "cluster_id",
            f"{self.cluster_id!r} cannot be the name of the namespace in etcd; give metadata.namespace",
        )
        hosts = {name: settings.host_of(name, getattr(self, name)) for name in LISTENERS}
        for name in ("client_advertised", "internal_advertised", "peer_advertised"):
            if getattr(self, name):
                settings.host_of(name, getattr(self, name))
        self._check_exposure(hosts)
        require(
            self.log_level in _LOG_LEVELS,
            "log_level",
            f"one of {', '.join(_LOG_LEVELS)} required, {self.log_level!r} given",
        )
        for name in ("zone", "host"):
            value = getattr(self, name)
            require(
                not value or is_domain_name(value),
                name,
                f"{value[:80]!r}: 1 to {DOMAIN_NAME_LENGTH_MAX} printable characters without spaces at the ends"
                " required",
            )
        _check_numbers("timings", self.timings, [item.name for item in fields(Timings)])
        _check_numbers("limits", self.limits, LIMITS)
        require(bool(self.pepper_files), "pepper_files", "is empty; keys are made with a pepper")
        for version, file in self.pepper_files.items():
            # In one form only: two files of one version could not be distinguished.
            require(
                _VERSION.fullmatch(version) is not None,
                f"pepper_files.{version[:20]}",
                "a version number required",
            )
            require(
                file != "" and "\0" not in file,
                f"pepper_files.{version}",
                "is empty or has a character of value 0; the name of a file required",
            )

    def _check_exposure(self, hosts: Mapping[str, str]) -> None:
        """Secrets cross no network in plain text (RELIABILITY (e) 3)."""
        require(
            (self.tls_certificate_file is None) == (self.tls_key_file is None),
            "tls_key_file" if self.tls_key_file is None else "tls_certificate_file",
            "missing; give both the certificate and its key or none",
        )
        require(
            self.tls_certificate_file is not None or is_loopback(hosts["client_listen"]),
            "client_listen",
            f"{hosts['client_listen']} is not a loopback address; API keys need TLS there: give tls_certificate_file"
            " and tls_key_file",
        )
        if self.transition is not None:
            for name in ("internal_listen", "peer_listen"):
                require(
                    is_loopback(hosts[name]),
                    name,
                    f"{hosts[name]} is not a loopback address; in transition the cluster secret travels there in"
                    " plain text: upgrade on loopback, then remove transition",
                )
        for name, users in (("client", "clients"), ("internal", "Admin calls"), ("peer", "other brokers")):
            host = hosts[f"{name}_listen"]
            require(
                bool(getattr(self, f"{name}_advertised")) or not _is_everywhere(host),
                f"{name}_listen",
                f"{host} is no address that {users} can use; give {name}_advertised",
            )

    def node_config(self, client_address: str, internal_address: str, peer_address: str) -> NodeConfig:
        """What the node gets, once the ports are bound."""
        return NodeConfig(
            broker_id=BrokerId(self.broker_id),
            cluster_id=self.cluster_id,
            client_address=self.client_advertised or client_address,
            internal_address=self.internal_advertised or internal_address,
            peer_address=self.peer_advertised or peer_address,
            zone=self.zone or self.host or str(self.broker_id),
            host=self.host,
            peppers={int(version): pepper_of(Path(path)) for version, path in self.pepper_files.items()},
            read_peppers=None if self.pepper_folder is None else reader_of(self.pepper_folder),
            timings=Timings(**self.timings),
            supported=Supported(version=__version__),
            metering=self.metering,
            **self.limits,
        )

    def own_identity(self) -> OwnIdentity:
        """Raises `ConfigurationError` when its files are not good, or not this broker's."""
        return OwnIdentity(self.identity, Role.BROKER, cluster_id=self.cluster_id, broker_id=self.broker_id)

    def certificate_files(self) -> dict[str, FileEnd]:
        """Those of which it is of interest when they end, by setting, without the identity's."""
        found = self.metadata.certificate_files() if isinstance(self.metadata, EtcdMetadata) else {}
        if self.tls_certificate_file is not None:
            found["tls_certificate_file"] = (self.tls_certificate_file, certificates.end_of_chain)
        return found

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
    return settings.read(file, BrokerConfig, environment=environment, prefix=ENVIRONMENT_PREFIX)


def _check_numbers(setting: str, values: Mapping[str, Any], known: Collection[str]) -> None:
    for name, value in values.items():
        require(name in known, f"{setting}.{name}", f"no such setting; {settings.nearest(name, known)}")
        require(
            type(value) is int and value > 0,
            f"{setting}.{name}",
            f"a whole number of at least 1 required, {value!r} given",
        )
        require(value <= _NUMBER_MAX, f"{setting}.{name}", f"at most {_NUMBER_MAX} possible")


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


def pepper_of(file: Path) -> bytes:
    """The pepper in the file. Raises `ConfigurationError`."""
    text = _text_of(file)
    try:
        pepper = bytes.fromhex(text)
    except ValueError:
        raise ConfigurationError(f"{file}: a pepper is hex digits") from None
    if len(text) < SECRET_LENGTH_MIN:
        raise ConfigurationError(f"{file}: a pepper is at least {SECRET_LENGTH_MIN} hex digits")
    return pepper


def reader_of(folder: Path) -> ReadPeppers:
    """What reads the folder. Where it cannot, it logs that, and what is known stays.

    The version in use is never removed: a folder that is empty after it had one is not mounted, or was lost.
    """
    was_there = False

    def read() -> dict[int, bytes | None] | None:
        nonlocal was_there
        try:
            found = pepper_folder.read_all(folder)
        except FileNotFoundError:
            found = {}
        except OSError as error:
            _log.warning("peppers cannot be read", extra={"folder": str(folder), "error": str(error)})
            return None
        if not found:
            if was_there:
                _log.warning("the folder of peppers is not there or empty", extra={"folder": str(folder)})
            return None
        was_there = True
        return found

    return read


def _no_password() -> str:
    """A broker starts without a person who types: it refuses an encrypted key and does not ask for its password."""
    return ""
