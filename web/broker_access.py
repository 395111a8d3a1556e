"""The console's way to the brokers: for each person in a tenant a key of the console's own, kept in memory only.

The key is made by the normal action in the person's name, is called `console`, ends by itself after two hours, cannot
write if the person may not, and is revoked when the person signs out or has not used it for a while. Its text is never
stored: a restarted process makes another. Brokers thus see the console as one more client, with all their checks.
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

from control_plane import config
from control_plane.access import actions as access
from control_plane.audit.actor import Actor, system
from control_plane.outbox import in_request
from penstock import Client
from penstock.contract.errors import BrokerUnavailable, NotFound, Unauthenticated
from tenants import actions, queries
from tenants.models import Person, Tenant
from tenants.roles import Permission
from web.places import Place

KEY_NAME = "console"
KEY_LENGTH = timedelta(hours=2)
RENEWED_BEFORE = timedelta(minutes=10)
IDLE_S = 900.0
"""A client that was not used for so long is closed and its key revoked."""
DELIVERED_S = 6.0
DESKS_MAX = 500
FORGOTTEN_MAX = 200
"""Keys that a process revokes while it stops: it has some seconds."""
_log = logging.getLogger(__name__)

_Name = tuple[str, str, str]
"""Tenant, person and standing: who is given other rights gets another key."""


@dataclass(slots=True, kw_only=True)
class _Desk:
    """One person's client in one tenant. Made and renewed under its lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    client: Client | None = None
    api_key: str = field(default="", repr=False)
    key_id: str = ""
    expires_at: datetime | None = None
    used_s: float = 0.0


_desks: dict[_Name, _Desk] = {}
_desks_lock = threading.Lock()


@contextmanager
def brokers(place: Place) -> Iterator[Client]:
    """A client of the brokers as this person in this tenant.

    Raises `BrokerUnavailable` while the brokers have not heard of the key, and what they refuse.
    """
    with _desk_of(place) as desk:
        client = desk.client
    assert client is not None
    try:
        yield client
    except Unauthenticated:
        # Somebody has revoked the key: the next request makes another.
        _drop(_name_of(place))
        raise


def api_key(place: Place) -> str:
    """The same key for the parts of the SDK that are no client: verification. Never to be shown."""
    with _desk_of(place) as desk:
        return desk.api_key


def own_keys(tenant: Tenant) -> list[str]:
    """Public ids of the keys that this process uses now: lists of keys tell them from programs'."""
    with _desks_lock:
        return sorted(
            desk.key_id for name, desk in _desks.items() if name[0] == tenant.public_id and desk.key_id
        )


def forget_person(actor: Actor, person: Person) -> None:
    """Close the person's clients and revoke their keys, in the person's name."""
    with _desks_lock:
        names = [name for name in _desks if name[1] == person.public_id]
    for name in names:
        _close(actor, name)


def forget_all() -> None:
    """Revoke what is left when the process ends in order; a killed one's keys end by themselves."""
    with _desks_lock:
        left = [(name[0], desk.key_id) for name, desk in _desks.items() if desk.key_id][:FORGOTTEN_MAX]
        _desks.clear()
    for tenant, key_id in left:
        try:
            key = queries.key(queries.tenant_by_id(tenant), key_id)
            actions.revoke_key(system("console"), key, reason="the console stops")
        except Exception:
            _log.warning("a key of the console was not revoked", extra={"key": key_id}, exc_info=True)


atexit.register(forget_all)


@contextmanager
def _desk_of(place: Place) -> Iterator[_Desk]:
    _close_idle()
    with _desks_lock:
        desk = _desks.setdefault(_name_of(place), _Desk())
        desk.used_s = time.monotonic()
    with desk.lock:
        if desk.expires_at is None or desk.expires_at - timezone.now() < RENEWED_BEFORE:
            _open(place, desk)
        yield desk


def _open(place: Place, desk: _Desk) -> None:
    expires_at = timezone.now() + KEY_LENGTH
    operations = () if place.may(Permission.MESSAGES_WRITE) else ("describe", "consume")
    key, text = access.create_key(
        place.actor,
        place.tenant,
        name=KEY_NAME,
        expires_at=expires_at,
        operations=operations,
        within_service=True,
    )
    if not in_request.deliver_now(actions.KIND_KEY, key.public_id, key.generation, DELIVERED_S):
        actions.revoke_key(system("console"), key, reason="the brokers did not hear of it in time")
        raise BrokerUnavailable("the brokers have not heard of the console's key yet; try again in a moment")
    # Requests that use the client before keep it; it ends with the last of them.
    desk.client = Client(bootstrap=list(config.current().brokers.bootstrap), api_key=text.reveal())
    desk.api_key, desk.key_id, desk.expires_at = text.reveal(), key.public_id, expires_at


def _name_of(place: Place) -> _Name:
    return (place.tenant.public_id, place.person.public_id, place.standing.value)


def _close_idle() -> None:
    """At most a few at a time: a request waits for it."""
    now = time.monotonic()
    with _desks_lock:
        idle = [name for name, desk in _desks.items() if now - desk.used_s > IDLE_S]
        if len(_desks) > DESKS_MAX:
            idle.append(min(_desks, key=lambda name: _desks[name].used_s))
    for name in idle[:2]:
        _close(system("console"), name)


def _close(actor: Actor, name: _Name) -> None:
    desk = _drop(name)
    if desk is None or not desk.key_id:
        return
    try:
        actions.revoke_key(
            actor,
            queries.key(queries.tenant_by_id(name[0]), desk.key_id),
            reason="the console is done with it",
        )
    except NotFound:
        pass  # the tenant is gone, and its keys with it


def _drop(name: _Name) -> _Desk | None:
    with _desks_lock:
        desk = _desks.pop(name, None)
    if desk is not None and desk.client is not None:
        desk.client.close(0)
    return desk
