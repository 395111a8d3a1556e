"""Reconciliation: what the brokers hold is compared with what is wanted, and what differs is mended or reported.

Only what was delivered is judged, and only by a view that is not older than its delivery; what waits for delivery is
the outbox's. Mended: an object that the brokers have lost or that was changed by hand (told anew; a lost topic is
made again, empty, under a new id). Taken as it is: a topic made anew by hand under the same name, more partitions, a
key revoked by hand. Noted in the tenants' audit logs: losses that the brokers declared. Reported only: topics and
keys of a tenant that nobody asked for; the control plane may have forgotten them, and data is never deleted for that.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from control_plane.access import queries as access
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, system
from control_plane.brokers import actions, view
from control_plane.brokers import client as brokers
from control_plane.outbox import conditions
from control_plane.outbox.models import DesiredObject
from control_plane.reconciliation import loss_actions
from control_plane.reconciliation.deliverers import ms_of
from control_plane.topics import actions as topic_actions
from control_plane.topics import queries as topics
from control_plane.topics.models import Topic
from penstock.contract.errors import PenstockError
from penstock.contract.topic_settings import TopicSettings
from quotas.queries import limits_of
from tenants import actions as tenant_actions
from tenants import queries as tenants
from tenants.models import ApiKey, Tenant

TOLD_AGAIN = timedelta(minutes=5)
"""Brokers that still differ after they were told anew are told again only then."""
LISTED_MAX = 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One difference, and what was done about it."""

    object_id: str
    what: str


def reconcile() -> list[Finding]:
    """Ask the brokers and compare once. Raises `BrokerUnavailable`."""
    seen = brokers.describe(objects=True)
    actions.remember_brokers(seen.brokers)
    findings = mend(seen)
    for loss in loss_actions.note(system("reconciliation"), seen.losses):
        findings.append(Finding(object_id=loss.topic_id, what=f"a loss was declared: {loss.kind}"))
    for finding in findings:
        _log.warning("reconciled", extra={"object": finding.object_id, "found": finding.what})
    return findings


def mend(seen: view.ClusterView) -> list[Finding]:
    """Compare what is wanted with what was seen, objects included, and write down what must be done about it."""
    actor = system("reconciliation")
    if not seen.tenants and tenants.all_tenants().filter(delivered_generation__gt=0).exists():
        # An empty metadata store: making every topic again, empty, is for a person to decide.
        _log.error("the brokers hold no tenant at all; nothing is reconciled")
        return []
    return [
        *_tenants(actor, seen),
        *_topics(actor, seen),
        *_keys(actor, seen),
        *_unknown(actor, seen),
    ]


def _judged(row: DesiredObject, seen: view.ClusterView) -> bool:
    """Delivered, nothing newer on its way, and the view knows of it."""
    return 0 < row.generation <= row.delivered_generation and row.delivered_revision <= seen.revision


def _note_drift(
    actor: Actor, model: type[Tenant] | type[ApiKey], public_id: str, tenant: str, action: str, why: str
) -> None:
    """Part of the caller's transaction."""
    tenant_actions.put_condition(model, public_id, conditions.DRIFT, "changed_on_brokers", why)
    audit.record(actor, tenant=tenant, action=action, object_id=public_id, after={"why": why})


# -- tenants --------------------------------------------------------------------------------------------


def _tenants(actor: Actor, seen: view.ClusterView) -> Iterator[Finding]:
    held = {tenant.tenant: tenant for tenant in seen.tenants}
    for row in tenants.all_tenants().order_by("pk").iterator():
        if not _judged(row, seen):
            continue
        found = held.get(row.public_id)
        why = "it is gone on the brokers" if found is None else _tenant_difference(row, found)
        if not why:
            _settle(row)
        elif _may_tell(row):
            with transaction.atomic():
                _note_drift(actor, Tenant, row.public_id, row.public_id, "tenant.reassert", why)
                tenant_actions.touch_tenant(actor, row, at_least=0 if found is None else found.generation)
            yield Finding(object_id=row.public_id, what=why)


def _tenant_difference(row: Tenant, found: view.TenantSeen) -> str:
    limits = limits_of(row)
    if found.generation > row.generation:
        return f"the brokers hold generation {found.generation}, {row.generation} is wanted"
    for name, held, wanted in (
        ("produce_bytes_per_s", found.produce_bytes_per_s, limits.produce_bytes_per_s),
        ("partitions_max", found.partitions_max, limits.partitions_max),
        ("suspended", found.suspended, row.suspended),
    ):
        if held != wanted:
            return f"{name} is {held} on the brokers, {wanted} is wanted"
    return ""


# -- topics ---------------------------------------------------------------------------------------------


def _topics(actor: Actor, seen: view.ClusterView) -> Iterator[Finding]:
    by_id = {topic.topic_id: topic for topic in seen.topics}
    by_name = {(topic.tenant, topic.name): topic for topic in seen.topics}
    for row in topics.topics_of_all().filter(on_brokers=True).order_by("pk").iterator():
        found = by_id.get(row.topic_id)
        other = by_name.get((row.tenant.public_id, row.name))
        why = ""
        if row.deleted_at is not None:
            if found is not None and _judged(row, seen) and _may_tell(row):
                why = _deleted_anew(actor, row, found)
        elif found is None and _has_been_there(row, seen):
            # Even when a change of it waits: that cannot be told of a topic that is not there.
            why = _recreated(actor, row) if other is None else _replaced(actor, row, other)
        elif found is not None and _judged(row, seen):
            why = _topic_as_wanted(actor, row, found)
        if why:
            yield Finding(object_id=row.public_id, what=why)


def _has_been_there(row: Topic, seen: view.ClusterView) -> bool:
    return row.delivered_generation > 0 and row.delivered_revision <= seen.revision


def _deleted_anew(actor: Actor, row: Topic, found: view.TopicSeen) -> str:
    return _told_anew(actor, row, found, "it was deleted, and the brokers still hold it")


def _told_anew(actor: Actor, row: Topic, found: view.TopicSeen, why: str) -> str:
    with transaction.atomic():
        if not topic_actions.touch(actor, row, "topic.reassert", at_least=found.generation, why=why):
            return ""
        topic_actions.put_condition(row.public_id, conditions.DRIFT, "changed_on_brokers", why)
    return why


def _recreated(actor: Actor, row: Topic) -> str:
    why = "it was gone on the brokers"
    return why if topic_actions.recreate(actor, row, why=why) else ""


def _replaced(actor: Actor, row: Topic, other: view.TopicSeen) -> str:
    why = f"the brokers hold another topic of this name, {other.topic_id} instead of {row.topic_id}"
    return why if _adopt(actor, row, other, why) else ""


def _topic_as_wanted(actor: Actor, row: Topic, found: view.TopicSeen) -> str:
    """What was mended, empty if nothing had to be."""
    if found.partitions > row.partitions:
        why = f"it has {found.partitions} partitions on the brokers, {row.partitions} were wanted"
        return why if _adopt(actor, row, found, why) else ""
    why = _topic_difference(row, found)
    if not why:
        _settle(row)
        return ""
    return _told_anew(actor, row, found, why) if _may_tell(row) else ""


def _topic_difference(row: Topic, found: view.TopicSeen) -> str:
    if found.generation > row.generation:
        return f"the brokers hold generation {found.generation}, {row.generation} is wanted"
    if found.partitions < row.partitions:
        return f"it has {found.partitions} partitions on the brokers, {row.partitions} are wanted"
    try:
        held = TopicSettings.from_dict(json.loads(found.settings_json)).to_dict()
    except (ValueError, PenstockError):
        return "its settings on the brokers cannot be read"
    for name in sorted(held):
        if held[name] != row.settings.get(name):
            return f"{name} is {held[name]} on the brokers, {row.settings.get(name)} is wanted"
    return ""


def _adopt(actor: Actor, row: Topic, found: view.TopicSeen, why: str) -> bool:
    return topic_actions.adopt(
        actor,
        row,
        topic_id=found.topic_id,
        partitions=found.partitions,
        generation=found.generation,
        why=why,
    )


# -- keys -----------------------------------------------------------------------------------------------


def _keys(actor: Actor, seen: view.ClusterView) -> Iterator[Finding]:
    for row in tenants.keys_beyond_their_makers().order_by("pk"):
        # Made before keys knew their makers; later ones are revoked when the role falls.
        why = "who made it may hold no keys any more"
        tenant_actions.revoke_key(actor, row, reason=why)
        yield Finding(object_id=row.public_id, what=why)
    held = {key.key_id: key for key in seen.keys}
    for row in tenants.keys_of_all().order_by("pk").iterator():
        if not _judged(row, seen):
            continue
        found = held.get(row.key_id)
        if found is not None and found.revoked and row.revoked_at is None:
            # Whoever revoked it had a reason; a key is never made valid again by itself.
            why = "it was revoked on the brokers"
            tenant_actions.revoke_key(actor, row, reason=why)
            yield Finding(object_id=row.public_id, what=why)
            continue
        why = _key_difference(row, found)
        if not why:
            _settle(row)
        elif _may_tell(row):
            with transaction.atomic():
                _note_drift(actor, ApiKey, row.public_id, row.tenant.public_id, "key.reassert", why)
                tenant_actions.touch_key(actor, row, at_least=0 if found is None else found.generation)
            yield Finding(object_id=row.public_id, what=why)


def _key_difference(row: ApiKey, found: view.KeySeen | None) -> str:
    if row.revoked_at is not None:
        return "it was revoked, and the brokers let it in" if found is not None and not found.revoked else ""
    if found is None:
        return "it is gone on the brokers"
    if found.generation > row.generation:
        return f"the brokers hold generation {found.generation}, {row.generation} is wanted"
    if found.expires_at_ms != ms_of(row.expires_at):
        return "its expiry differs on the brokers"
    held = [(b.topic_prefix, tuple(sorted(b.operations))) for b in found.bindings]
    wanted = [(b.topic_prefix, tuple(sorted(b.operations))) for b in access.bindings(row)]
    return "" if held == wanted else "what it is bound to differs on the brokers"


# -- what nobody asked for ------------------------------------------------------------------------------


def _unknown(actor: Actor, seen: view.ClusterView) -> Iterator[Finding]:
    """Topics and keys of our tenants without a row: named in a condition of the tenant and in its audit log."""
    known_topics = set(topics.topics_of_all().values_list("topic_id", flat=True))
    known_keys = set(tenants.keys_of_all().values_list("key_id", flat=True))
    by_tenant: dict[str, list[str]] = {}
    for topic in seen.topics:
        if topic.topic_id not in known_topics:
            by_tenant.setdefault(topic.tenant, []).append(f"topic {topic.name} ({topic.topic_id})")
    for key in seen.keys:
        if key.key_id not in known_keys and not key.revoked:
            by_tenant.setdefault(key.tenant, []).append(f"key {key.key_id}")
    for row in tenants.all_tenants().order_by("pk").iterator():
        listed = sorted(by_tenant.get(row.public_id, []))
        has_condition = any(c["type"] == conditions.UNKNOWN_OBJECTS for c in row.conditions)
        if not listed:
            if has_condition:
                tenant_actions.clear_condition(Tenant, row.public_id, conditions.UNKNOWN_OBJECTS)
            continue
        message = ", ".join(listed[:LISTED_MAX]) + (" …" if len(listed) > LISTED_MAX else "")
        if conditions.has(row.conditions, conditions.UNKNOWN_OBJECTS, message):
            continue
        with transaction.atomic():
            tenant_actions.put_condition(
                Tenant, row.public_id, conditions.UNKNOWN_OBJECTS, "not_asked_for", message
            )
            audit.record(
                actor,
                tenant=row.public_id,
                action="tenant.unknown_objects",
                object_id=row.public_id,
                after={"objects": listed[:LISTED_MAX], "count": len(listed)},
            )
        yield Finding(object_id=row.public_id, what=f"nobody asked for {message}")


# -- telling anew, with patience ------------------------------------------------------------------------


def _may_tell(row: DesiredObject) -> bool:
    """Not told anew of late: brokers that differ nevertheless are not told in a circle."""
    told = next((c for c in row.conditions if c["type"] == conditions.DRIFT), None)
    return told is None or datetime.fromisoformat(told["since"]) + TOLD_AGAIN <= timezone.now()


def _settle(row: DesiredObject) -> None:
    """The brokers hold what is wanted: the condition that told otherwise goes."""
    if not any(c["type"] == conditions.DRIFT for c in row.conditions):
        return
    if isinstance(row, Topic):
        topic_actions.clear_condition(row.public_id, conditions.DRIFT)
    elif isinstance(row, Tenant):
        tenant_actions.clear_condition(Tenant, row.public_id, conditions.DRIFT)
    elif isinstance(row, ApiKey):
        tenant_actions.clear_condition(ApiKey, row.public_id, conditions.DRIFT)
