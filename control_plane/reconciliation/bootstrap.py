"""Makes what the service itself needs: system tenant, internal topics, the key that reads usage, an operator's token.

Each step is repeated without harm, so that it may die anywhere and be run again.
"""

import time
from pathlib import Path

from control_plane import config
from control_plane.audit.actor import Actor, system
from control_plane.brokers import client as brokers
from control_plane.outbox import delivery, queries
from control_plane.outbox.models import DesiredObject
from control_plane.topics import actions as topic_actions
from control_plane.topics import queries as topics
from penstock.contract.api_keys import ApiKey as KeyText
from penstock.contract.api_keys import MalformedApiKey, parse_api_key
from penstock.contract.errors import AlreadyExists, BrokerUnavailable, InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.topic_settings import UNLIMITED
from penstock.private_file import write_private
from tenants import actions as tenant_actions
from tenants import queries as tenants
from tenants import tokens
from tenants.credentials import new_key
from tenants.models import ApiKey, Tenant
from tenants.service_accounts import actions as service_accounts

SYSTEM_NAME = "penstock-system"
USAGE_READER = "usage-reader"
OPERATOR = "operator"
INTERNAL_TOPICS = {"__usage": 3, "__groups": 8}
"""Name -> partitions. They keep everything; usage and offsets go only when their own rules say so."""
PROBE_TOPIC = "probes"
"""Of the system tenant, which is neither metered nor billed. Made by a prober that was given no other."""
WITHIN_S = 60.0

_PROBES_KEPT_MS = 3_600_000
_RETRY_S = 0.2


def bootstrap(within_s: float = WITHIN_S) -> None:
    """Returns when the brokers have all of it. Raises `BrokerUnavailable` when they have not within the time."""
    actor = system("bootstrap")
    deadline = time.monotonic() + within_s
    _wait_for_brokers(deadline)
    tenant = _system_tenant(actor)
    _delivered(tenant_actions.KIND_TENANT, tenant, deadline)
    for name in sorted(INTERNAL_TOPICS):
        if not topics.topics(tenant).filter(name=name).exists():
            topic_actions.create_topic(
                actor,
                tenant,
                name=name,
                partitions=INTERNAL_TOPICS[name],
                settings={"retention_ms": UNLIMITED, "retention_bytes": UNLIMITED},
            )
        _delivered(topic_actions.KIND_TOPIC, topics.topic(tenant, name), deadline)
    _delivered(tenant_actions.KIND_KEY, _usage_key(actor, tenant), deadline)
    _operator_token(actor)


def make_probe_topic(within_s: float = WITHIN_S) -> None:
    """The topic that probes write and read, a partition a broker, unless it is there. Returns when the brokers have it.
    Raises `BrokerUnavailable`.
    """
    actor = system("prober")
    deadline = time.monotonic() + within_s
    tenant = tenants.system_tenant()
    if tenant is None:
        raise BrokerUnavailable("the service has no tenant of its own yet: run `bootstrap` first")
    if not topics.topics(tenant).filter(name=PROBE_TOPIC).exists():
        _wait_for_brokers(deadline)
        try:
            topic_actions.create_topic(
                actor,
                tenant,
                name=PROBE_TOPIC,
                partitions=len(config.current().brokers.internal),
                settings={"retention_ms": _PROBES_KEPT_MS},
            )
        except AlreadyExists:
            pass  # another prober has made it meanwhile
    _delivered(topic_actions.KIND_TOPIC, topics.topic(tenant, PROBE_TOPIC), deadline)


def _wait_for_brokers(deadline: float) -> None:
    """Internal topics are spread over all brokers, so all of them must be there."""
    expected = len(config.current().brokers.internal)
    while True:
        active = 0
        try:
            active = sum(b.state == "active" for b in brokers.describe(timeout_s=2).brokers)
        except BrokerUnavailable:
            pass
        if active >= expected:
            return
        if time.monotonic() > deadline:
            raise BrokerUnavailable(f"{active} of {expected} brokers are active")
        time.sleep(_RETRY_S)


def _system_tenant(actor: Actor) -> Tenant:
    found = tenants.system_tenant()
    return found or tenant_actions.create_tenant(actor, name=SYSTEM_NAME, public_id=SYSTEM_TENANT)


def _usage_key(actor: Actor, tenant: Tenant) -> ApiKey:
    """The key is stored before it becomes valid, so that every valid key can be used."""
    file = config.current().usage_key_file
    if file.exists():
        text = _read_key(file)
        found = tenants.key_of(text)
        if found is not None and found.revoked_at is None:
            return found
        if found is not None:
            text = _write_new_key(file)
    else:
        text = _write_new_key(file)
    account = service_accounts.create_service_account(actor, tenant, name=USAGE_READER)
    key, _ = tenant_actions.create_key(actor, tenant, name=USAGE_READER, account=account, text=text)
    return key


def _read_key(file: Path) -> KeyText:
    try:
        return parse_api_key(file.read_text(encoding="ascii").strip())
    except (MalformedApiKey, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file}: {error}; remove the file and a new key is made") from None


def _write_new_key(file: Path) -> KeyText:
    text = new_key()
    write_private(file, text.reveal() + "\n")
    return text


def _operator_token(actor: Actor) -> None:
    file = config.current().operator_token_file
    if file.exists():
        token = file.read_text(encoding="ascii").strip()
    else:
        token = tokens.new_token(tokens.OPERATOR_PREFIX)
        write_private(file, token + "\n")
    if not token.startswith(tokens.OPERATOR_PREFIX):
        raise InvalidRequest(f"{file}: no operator's token; remove the file and a new one is made")
    tenant_actions.create_operator(actor, name=OPERATOR, tenant=SYSTEM_TENANT, token=token)


def _delivered(kind: str, row: DesiredObject, deadline: float) -> None:
    """Deliver it here and now: no worker need run yet."""
    while not delivery.deliver(kind, row.public_id):
        if queries.is_delivered(kind, row.public_id, row.generation):
            return
        if time.monotonic() > deadline:
            fresh = type(row)._default_manager.get(pk=row.pk)
            reasons = "; ".join(c["message"] for c in fresh.conditions) or "no answer yet"
            raise BrokerUnavailable(f"{row.public_id} has not reached the brokers: {reasons}")
        time.sleep(_RETRY_S)
