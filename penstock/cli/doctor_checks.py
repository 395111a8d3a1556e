"""What `penstock doctor` looks at: each check says of one thing whether it is well, and if not what to do about it."""

import json
import platform
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.display import counted
from penstock.cli.rest import LET_IN, hidden, own_key
from penstock.client.settings import ConnectionSettings
from penstock.contract.api_keys import BRAND, MalformedApiKey, parse_api_key
from penstock.contract.errors import (
    BrokerUnavailable,
    ConfigurationError,
    Forbidden,
    PenstockError,
    TimestampOutOfRange,
    Unauthenticated,
)
from penstock.contract.limits import REPLICATION_DEFAULT, TIMESTAMP_AHEAD_MS_MAX
from penstock.profiles import connection_settings, profile_file, read_profile
from penstock.rest.client import RestClient
from penstock.rest.problems import ServiceUnavailable
from penstock.rules.addresses import split_address
from penstock.transport.address import SYSTEM_AUTHORITIES, require_protected

if TYPE_CHECKING:
    from penstock import BrokerDescription, TopicDescription

SKEW_DOUBTFUL_S = 5.0
"""A clock this far off shows: times of messages, `--from -15m` and days of usage no longer mean the same to both."""
CERTIFICATE_DAYS_MIN = 14
"""What a topic has where there are brokers enough."""
_OTHERS_MAY_READ = 0o077
_READINESS_BYTES_MAX = 16_384


class State(Enum):
    """What a check found."""

    OK = "ok"
    DOUBTFUL = "doubtful"
    WRONG = "wrong"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check's answer. `error` is what a command that needs this would fail with, and only where it is wrong."""

    check: str
    state: State
    fact: str
    remedy: str = ""
    error: PenstockError | None = None


def well(check: str, fact: str) -> Finding:
    return Finding(check=check, state=State.OK, fact=fact)


def doubtful(check: str, fact: str, remedy: str) -> Finding:
    return Finding(check=check, state=State.DOUBTFUL, fact=fact, remedy=remedy)


def wrong(check: str, error: PenstockError, remedy: str = "") -> Finding:
    return Finding(
        check=check, state=State.WRONG, fact=error.message, remedy=remedy or error.remedy, error=error
    )


def softened(finding: Finding) -> Finding:
    """The same where others make up for it: what is wrong becomes doubtful."""
    if finding.state is not State.WRONG:
        return finding
    return replace(finding, state=State.DOUBTFUL, error=None)


def skipped(check: str, fact: str, remedy: str = "") -> Finding:
    return Finding(check=check, state=State.SKIPPED, fact=fact, remedy=remedy)


def versions() -> Finding:
    """Which SDK on which Python, and whether records are built by compiled code."""
    from penstock.records.codec import codec_name

    try:
        number = version("penstock")
    except PackageNotFoundError:
        number = "unknown"
    codec = codec_name()
    fact = f"penstock {number}, Python {platform.python_version()}, grpcio {version('grpcio')}, codec {codec}"
    if codec != "compiled":
        return doubtful(
            "versions", fact, "Install aiokafka with its compiled part: records are built slowly."
        )
    return well("versions", fact)


def profile(name: str | None) -> Finding:
    """Which profile is read, and that only its owner may read the keys in it. `name` None = by the environment."""
    path = profile_file()
    try:
        fields = read_profile(name)
    except ConfigurationError as error:
        return wrong(
            "profile", error, "Run `penstock dev up`, or write the profile; --profile names another."
        )
    if not fields:
        return skipped("profile", f"none is named and {path} has no default; the environment alone counts")
    shown = f"{name or 'of the environment'} in {path}"
    if path.stat().st_mode & _OTHERS_MAY_READ:
        return doubtful("profile", f"{shown}: other users may read the keys in it", f"chmod 600 {path}")
    return well("profile", shown)


def settings(name: str | None) -> tuple[Finding, ConnectionSettings | None]:
    """Addresses and key as every command would take them."""
    try:
        found = connection_settings(profile=name)
        for address in found.bootstrap:
            require_protected(address, found.ca_file)
        if found.ca_file not in (None, SYSTEM_AUTHORITIES) and not Path(found.ca_file or "").is_file():
            raise ConfigurationError(f"ca_file: {found.ca_file}: there is no such file")
    except ConfigurationError as error:
        return wrong("settings", error), None
    return well(
        "settings", f"brokers {', '.join(found.bootstrap)}; control plane {found.api_url or 'not named'}"
    ), found


def key(given: ConnectionSettings) -> Finding:
    """That there is a key, whole and typed right. Whether it is valid the brokers and the control plane say."""
    if not given.api_key:
        return wrong(
            "key", Unauthenticated("there is no API key"), "Set PENSTOCK_API_KEY, or api_key in the profile."
        )
    try:
        parsed = parse_api_key(given.api_key)
    except MalformedApiKey as error:
        return wrong(
            "key",
            Unauthenticated(f"the API key is incomplete or mistyped: {error}"),
            "Copy the whole key again.",
        )
    return well("key", f"{BRAND}_{parsed.env}_{parsed.key_id}_…, whole")


def listener(address: str, ca_file: str | None, timeout_s: float) -> Finding:
    """That a broker's client listener takes a connection, and with TLS shows a certificate that is trusted."""
    check = "broker"
    host, port = split_address(address)
    try:
        with socket.create_connection((host, port), timeout_s) as plain:
            if ca_file is None:
                return well(
                    check,
                    f"{address}: takes connections; no TLS, which only addresses of this machine may do without",
                )
            return _certificate(address, plain, host, ca_file)
    except ssl.SSLError as error:
        return wrong(
            check,
            ConfigurationError(
                f"{address}: TLS fails: {getattr(error, 'verify_message', '') or error.reason or error}"
            ),
            "Set ca_file to the authority of the brokers' certificates, or `system`; check the name in the address.",
        )
    except OSError as error:
        return wrong(
            check,
            BrokerUnavailable(f"{address}: no connection: {error.strerror or error}"),
            "Check the address, the firewall, and whether the broker runs (penstock dev status).",
        )


def _certificate(address: str, plain: socket.socket, host: str, ca_file: str) -> Finding:
    authorities = None if ca_file == SYSTEM_AUTHORITIES else ca_file
    context = ssl.create_default_context(cafile=authorities)
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(plain, server_hostname=host) as protected:
        ends = str((protected.getpeercert() or {}).get("notAfter", ""))
        kind = protected.version()
    left = (ssl.cert_time_to_seconds(ends) - time.time()) / 86_400 if ends else CERTIFICATE_DAYS_MIN
    if left < CERTIFICATE_DAYS_MIN:
        return doubtful(
            "broker",
            f"{address}: {kind}; the certificate ends in {left:.0f} days",
            "Renew the broker's certificate.",
        )
    return well("broker", f"{address}: {kind}, certificate trusted, valid until {ends}")


def control_plane(given: ConnectionSettings, timeout_s: float) -> tuple[Finding, ...]:
    """That the control plane answers; that the service does what it has to in time; and how far its clock is from ours
    (to about a second).
    """
    compared = skipped("clock", "nothing to compare with")
    if given.api_url is None:
        remedy = "Set PENSTOCK_API_URL or api_url in the profile; topics, keys, usage and invoices need it."
        return skipped("control plane", "api_url is not set", remedy), compared
    url = given.api_url.rstrip("/") + "/readyz"
    authorities = None if given.ca_file in (None, SYSTEM_AUTHORITIES) else given.ca_file
    try:
        # As commands go: straight, whatever proxy the environment names.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authorities)),
        )
        began = time.time()
        try:
            with opener.open(url, timeout=timeout_s) as answer:
                status, headers, body = answer.status, answer.headers, answer.read(_READINESS_BYTES_MAX)
        except urllib.error.HTTPError as refused:
            with refused:
                status, headers, body = refused.code, refused.headers, refused.read(_READINESS_BYTES_MAX)
        ours = (began + time.time()) / 2
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return wrong("control plane", ServiceUnavailable(f"{url}: cannot be reached: {reason}")), compared
    skew = _skew(headers.get("Date"), ours)
    if status not in (200, 503):
        fault = ConfigurationError(f"{url}: status {status}")
        return wrong("control plane", fault, "Check api_url: this is no Penstock service."), skew
    return well("control plane", f"{url}: answers"), _service(status, body), skew


def _service(status: int, body: bytes) -> Finding:
    """What the service itself says of its database, its worker with the schedule, and its brokers."""
    said = _said(body)
    if status != 200:
        not_ok = _listed(said.get("checks"), leave_out="ok")
        fact = not_ok or body.decode(errors="replace")[:300]
        return wrong(
            "service",
            ServiceUnavailable(f"not ready: {fact}"),
            "Reading and sending go on; changes, bills, payments and mail may wait. Look at its processes"
            " (penstock dev status) and their logs.",
        )
    if late := _listed(said.get("warnings")):
        return doubtful(
            "service",
            f"late: {late}",
            "Look at the worker: its /readyz, its log, and penstock_schedule_task_well_seconds.",
        )
    return well("service", "ready, and nothing of the schedule is late")


def _said(body: bytes) -> dict[str, object]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _listed(named: object, leave_out: str = "") -> str:
    if not isinstance(named, dict):
        return ""
    return "; ".join(f"{name}: {text}" for name, text in sorted(named.items()) if text != leave_out)


def _skew(date: str | None, ours: float) -> Finding:
    try:
        theirs = parsedate_to_datetime(date or "").timestamp() + 0.5
    except (ValueError, TypeError):
        return skipped("clock", "the control plane's answer has no date")
    skew = ours - theirs
    fact = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the control plane's"
    if skew * 1000 > TIMESTAMP_AHEAD_MS_MAX:
        return wrong(
            "clock", TimestampOutOfRange(f"this machine's clock is {fact}"), "Set this machine's clock (NTP)."
        )
    if abs(skew) > SKEW_DOUBTFUL_S:
        return doubtful("clock", fact, "Set this machine's clock (NTP): times of messages come from it.")
    return well("clock", "agrees with the control plane's")


def tenant(given: ConnectionSettings, timeout_s: float) -> Finding:
    """That the control plane takes the key, and whose it is."""
    try:
        with RestClient(given.api_url, given.api_key, given.ca_file, timeout_s=timeout_s) as rest:
            found = next(rest.items("/v1/tenants"), None)
    except PenstockError as error:
        return wrong("key at the control plane", error)
    return well(
        "key at the control plane",
        "belongs to no tenant" if found is None else f"tenant {found.get('name')} ({found.get('id')})",
    )


def tenants_limits(given: ConnectionSettings, timeout_s: float) -> Finding:
    """That the tenant's limit allows another partition."""
    check = "limits"
    try:
        with RestClient(given.api_url, given.api_key, given.ca_file, timeout_s=timeout_s) as rest:
            allowed = int(rest.get("/v1/quotas")["partitions_max"])
            used = sum(int(topic["partitions"]) for topic in rest.items("/v1/topics"))
    except Forbidden as error:
        return skipped(check, f"this key sees no limits: {error.message}")
    except PenstockError as error:
        return wrong(check, error)
    if allowed and used >= allowed:
        return doubtful(
            check,
            f"{used} of {allowed} partitions are used: no topic and no partition can be added",
            "Delete a topic, or ask an operator for a higher partitions_max.",
        )
    return well(check, f"{used} of {allowed or 'any number of'} partitions are used")


def access_list(given: ConnectionSettings, topics: int, timeout_s: float) -> Finding:
    """That the key sees topics, as far as the tenant's access list goes. `topics`: how many it sees."""
    check = "access list"
    try:
        with RestClient(given.api_url, given.api_key, given.ca_file, timeout_s=timeout_s) as rest:
            hides = hidden(rest, own_key(given), "topics", timeout_s)
    except PenstockError as error:
        return wrong(check, error)
    if not hides:
        return well(check, "hides no topic from this key that it may know of")
    if topics:
        return well(check, f"hides some topics from this key: {hides}")
    return doubtful(
        check,
        f"this key sees no topic: {hides}",
        LET_IN,
    )


def data_plane(
    brokers: Sequence["BrokerDescription"], topics: Sequence["TopicDescription"]
) -> Iterator[Finding]:
    """Which brokers are there, and whether the tenant's partitions are served."""
    named = ", ".join(str(number) for number in sorted(broker.broker for broker in brokers))
    yield well("key at the brokers", f"taken; brokers {named} are registered")
    partitions = [(topic.name, partition) for topic in topics for partition in topic.partitions]
    headless = [f"{name}-{partition.partition}" for name, partition in partitions if partition.leader < 0]
    behind = [name for name, partition in partitions if len(partition.in_sync) < len(partition.replicas)]
    fact = f"{counted(len(topics), 'topic')}, {counted(len(partitions), 'partition')}"
    if headless:
        lost = BrokerUnavailable(f"{fact}; {len(headless)} without a leader: {', '.join(headless[:5])}")
        yield wrong("topics", lost, "Start the brokers that are down (penstock dev status).")
    elif behind:
        remedy = (
            "A broker is down or catching up; nothing is lost. Look again, or see penstock topic describe."
        )
        yield doubtful("topics", f"{fact}; {len(behind)} not fully in sync", remedy)
    else:
        yield well("topics", f"{fact}, all led and in sync")
    yield from _copies(len(brokers), topics)


def _copies(brokers: int, topics: Sequence["TopicDescription"]) -> Iterator[Finding]:
    """Topics of which a broken disk may take what three copies would keep, though there are brokers for more."""
    possible = min(REPLICATION_DEFAULT, brokers)
    few = sorted(
        topic.name
        for topic in topics
        if any(len(partition.replicas) < possible for partition in topic.partitions)
    )
    if few:
        yield doubtful(
            "copies",
            f"{counted(len(few), 'topic')} with fewer than {possible} copies, which {brokers} brokers could hold:"
            f" {', '.join(few[:5])}{', ...' if len(few) > 5 else ''}",
            f"penstock topic alter {few[0]} --replication {possible}, then --min-insync 2 once the copies are there.",
        )
