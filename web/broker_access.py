"""The console's connection to the brokers: for each person in a tenant one API key, kept in memory only.

The normal action makes the key in the person's name. It is called `console`, expires after two hours, cannot write if
the person may not, and is revoked when the person signs out or does not use it for a while. Its text is never stored: a
restarted process makes another key. To brokers the console is one more client, with all their checks.
"""

import atexit
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.utils import timezone

from control_plane.access.actions import create_key
from control_plane.audit.actor import Actor, system
from control_plane.brokers.as_tenant import connection_with
from control_plane.outbox import in_request
from penstock import Client
from penstock.contract.errors import BrokerUnavailable, NotFound, Unauthenticated
from tenants import actions, queries
from tenants.models import Person, Tenant
from tenants.roles import Permission
from web.tenant_access import TenantAccess

KEY_NAME = "console"
KEY_LENGTH = timedelta(hours=2)
RENEWED_BEFORE = timedelta(minutes=10)
IDLE_S = 900.0
"""A client that was not used for this long is closed, and its key is revoked."""
DELIVERED_S = 6.0
CLIENTS_MAX = 500
FORGOTTEN_MAX = 200
"""Keys that a process revokes while it stops: it has only some seconds."""
_log = logging.getLogger(__name__)

_Name = tuple[str, str, str]
"""Tenant, person and standing: a person with another role gets another key."""


@dataclass(slots=True, kw_only=True)
class _PersonClient:
    """One person's client in one tenant. Made and renewed under its lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    client: Client | None = None
    api_key: str = field(default="", repr=False)
    key_id: str = ""
    expires_at: datetime | None = None
    used_s: float = 0.0


_clients: dict[_Name, _PersonClient] = {}
_clients_lock = threading.Lock()


@contextmanager
def brokers(access: TenantAccess) -> Iterator[Client]:
    """A client of the brokers as this person in this tenant.

    Raises `BrokerUnavailable` while the brokers do not have the key, and the brokers' refusals.
    """
    with _client_of(access) as entry:
        client = entry.client
    assert client is not None
    try:
        yield client
    except Unauthenticated:
        # The key was revoked: the next request makes another.
        _drop(_name_of(access))
        raise


def api_key(access: TenantAccess) -> str:
    """The same key, for verification, which uses no client. It must never be shown."""
    with _client_of(access) as entry:
        return entry.api_key


def own_keys(tenant: Tenant) -> list[str]:
    """Public ids of the keys that this process uses now, so that lists of keys can leave them out."""
    with _clients_lock:
        return sorted(
            entry.key_id for name, entry in _clients.items() if name[0] == tenant.public_id and entry.key_id
        )


def forget_person(actor: Actor, person: Person) -> None:
    """Close the person's clients and revoke their keys, in the person's name."""
    with _clients_lock:
        names = [name for name in _clients if name[1] == person.public_id]
    for name in names:
        _close(actor, name)


def forget_all() -> None:
    """Revoke the remaining keys when the process stops. The keys of a killed process expire."""
    with _clients_lock:
        left = [(name[0], entry.key_id) for name, entry in _clients.items() if entry.key_id][:FORGOTTEN_MAX]
        _clients.clear()
    for tenant, key_id in left:
        try:
            key = queries.key(queries.tenant_by_id(tenant), key_id)
            actions.revoke_key(system("console"), key, reason="the console stops")
        except Exception:
            _log.warning("a key of the console was not revoked", extra={"key": key_id}, exc_info=True)


atexit.register(forget_all)


@contextmanager
def _client_of(access: TenantAccess) -> Iterator[_PersonClient]:
    _close_idle()
    with _clients_lock:
        entry = _clients.setdefault(_name_of(access), _PersonClient())
        entry.used_s = time.monotonic()
    with entry.lock:
        if entry.expires_at is None or entry.expires_at - timezone.now() < RENEWED_BEFORE:
            _open(access, entry)
        yield entry


def _open(access: TenantAccess, entry: _PersonClient) -> None:
    expires_at = timezone.now() + KEY_LENGTH
    operations = () if access.may(Permission.MESSAGES_WRITE) else ("describe", "consume")
    key, text = create_key(
        access.actor,
        access.tenant,
        name=KEY_NAME,
        expires_at=expires_at,
        operations=operations,
        within_service=True,
    )
    if not in_request.deliver_now(actions.KIND_KEY, key.public_id, key.generation, DELIVERED_S):
        actions.revoke_key(system("console"), key, reason="the brokers did not get it in time")
        raise BrokerUnavailable("the brokers do not have the console's key yet; try again in a moment")
    # Running requests keep the old client, which ends with the last of them.
    entry.client = client_with(text.reveal())
    entry.api_key, entry.key_id, entry.expires_at = text.reveal(), key.public_id, expires_at


def client_with(key: str) -> Client:
    """A client of the brokers with that key."""
    settings = connection_with(key)
    return Client(bootstrap=settings.bootstrap, api_key=settings.api_key, ca_file=settings.ca_file)


def _name_of(access: TenantAccess) -> _Name:
    return (access.tenant.public_id, access.person.public_id, access.standing.value)


def _close_idle() -> None:
    """Close a few idle clients: a request waits meanwhile."""
    now = time.monotonic()
    with _clients_lock:
        idle = [name for name, entry in _clients.items() if now - entry.used_s > IDLE_S]
        if len(_clients) > CLIENTS_MAX:
            idle.append(min(_clients, key=lambda name: _clients[name].used_s))
    for name in idle[:2]:
        _close(system("console"), name)


def _close(actor: Actor, name: _Name) -> None:
    entry = _drop(name)
    if entry is None or not entry.key_id:
        return
    try:
        actions.revoke_key(
            actor,
            queries.key(queries.tenant_by_id(name[0]), entry.key_id),
            reason="the console no longer uses it",
        )
    except NotFound:
        pass  # the tenant is gone, and its keys with it


def _drop(name: _Name) -> _PersonClient | None:
    with _clients_lock:
        entry = _clients.pop(name, None)
    if entry is not None and entry.client is not None:
        entry.client.close(0)
    return entry
