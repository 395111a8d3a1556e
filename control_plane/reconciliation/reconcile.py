"""Reconciliation: compares the brokers with the desired state, and repairs or reports each difference.

It compares delivered objects only, with a view that is not older than the delivery. Objects that wait for delivery are
the outbox's. Repaired: an object that the brokers lost or that was changed by hand is delivered again; a lost topic is
created again, empty, under a new id. Adopted: a topic that was created again by hand under the same name, more
partitions, a key that was revoked by hand. Recorded in the tenants' audit logs: losses that the brokers declared.
Reported only: unknown topics and keys of a tenant. The control plane may have lost them, so no data is deleted.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from billing.unit_rates import unit_rates
from control_plane.access import actions as access_keys
from control_plane.access import list_actions as access_actions
from control_plane.access import queries as access
from control_plane.access.models import TenantAccessList
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, system
from control_plane.audit_topics import actions as audit_topic_actions
from control_plane.audit_topics import queries as audit_topics
from control_plane.brokers import actions, view
from control_plane.brokers import client as brokers
from control_plane.outbox import conditions
from control_plane.outbox.models import DesiredObject
from control_plane.reconciliation import loss_actions
from control_plane.reconciliation.deliverers import ms_of
from control_plane.topics import observed
from control_plane.topics import queries as topics
from control_plane.topics.models import Topic
from penstock.contract.errors import PenstockError
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.access_document import access_list_digest, access_list_json
from penstock.rules.budgets import budgets_digest
from penstock.rules.names import AUDIT_TOPIC
from penstock.rules.principal_limits import limits_digest
from quotas.account_queries import principal_limits_by_tenant
from quotas.budget_queries import by_tenant as budgets_by_tenant
from quotas.growth import kept_max_by_tenant
from quotas.queries import limits_of
from tenants import actions as tenant_actions
from tenants import observed as observed_tenants
from tenants import queries as tenants
from tenants.models import ApiKey, Tenant

REDELIVERY_INTERVAL = timedelta(minutes=5)
"""An object that differs again after a redelivery is delivered again only then."""
LISTED_MAX = 20
OWNERS_FROM_LEVEL = 2
"""Below this feature level brokers keep no owners of keys."""
LATER_QUOTAS_FROM_LEVEL = 2
"""Below this feature level brokers keep the produce rate and the partitions alone."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One difference, and what was done about it."""

    object_id: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What one comparison found, and what it was made of: a broker that lags shows an older state than another one."""

    cluster_id: str
    revision: int
    findings: tuple[Finding, ...]


def reconcile() -> Comparison:
    """Ask the brokers and compare once. Raises `BrokerUnavailable`."""
    seen = brokers.describe(objects=True)
    actions.remember_brokers(seen.brokers)
    findings = repair(seen)
    for loss in loss_actions.note(system("reconciliation"), seen.losses):
        findings.append(Finding(object_id=loss.topic_id, what=f"a loss was declared: {loss.kind}"))
    for finding in findings:
        _log.warning("reconciled", extra={"object": finding.object_id, "found": finding.what})
    return Comparison(cluster_id=seen.cluster_id, revision=seen.changed_at, findings=tuple(findings))


def repair(seen: view.ClusterView) -> list[Finding]:
    """Compare the desired state with the view, objects included, and enqueue what differs."""
    actor = system("reconciliation")
    if not seen.tenants and tenants.all_tenants().filter(delivered_generation__gt=0).exists():
        # An empty metadata store: making every topic again, empty, is for a person to decide.
        _log.error("the brokers have no tenant at all; nothing is reconciled")
        return []
    return [
        *_tenants(actor, seen),
        *_topics(actor, seen),
        *_audit_topics(actor, seen),
        *_keys(actor, seen),
        *_access_lists(actor, seen),
        *_unknown(actor, seen),
    ]


def _judged(row: DesiredObject, seen: view.ClusterView) -> bool:
    """Delivered, nothing newer on its way, and the view knows of it."""
    return 0 < row.generation <= row.delivered_generation and row.delivered_revision <= seen.revision


def _unchanged(row: DesiredObject) -> bool:
    """Whether the row is what was judged, and its lock until the caller's transaction ends.

    What is compared beside it (limits, bindings, entries) is read after it: a change in between shows as a difference
    that there is not. Each such change raises the generation.
    """
    rows = type(row)._default_manager.select_for_update(no_key=True)
    return rows.filter(pk=row.pk, generation=row.generation).first() is not None


def _note_drift(
    actor: Actor, model: type[Tenant] | type[ApiKey], public_id: str, tenant: str, action: str, why: str
) -> None:
    """Part of the caller's transaction."""
    observed_tenants.put_condition(model, public_id, conditions.DRIFT, "changed_on_brokers", why)
    audit.record(actor, tenant=tenant, action=action, object_id=public_id, after={"why": why})


# -- tenants --------------------------------------------------------------------------------------------


def _tenants(actor: Actor, seen: view.ClusterView) -> Iterator[Finding]:
    on_brokers = {tenant.tenant: tenant for tenant in seen.tenants}
    later = seen.feature_level >= LATER_QUOTAS_FROM_LEVEL
    principals = principal_limits_by_tenant() if later else {}
    kept_max = kept_max_by_tenant()
    budgets = budgets_by_tenant(unit_rates) if later else {}
    for row in tenants.all_tenants().order_by("pk").iterator():
        if not _judged(row, seen):
            continue
        found = on_brokers.get(row.public_id)
        why = (
            "it is gone on the brokers"
            if found is None
            else _tenant_difference(
                row,
                found,
                seen.feature_level,
                limits_digest(principals.get(row.public_id, {})),
                budgets_digest(budgets.get(row.public_id, ())),
                kept_max.get(row.pk),
            )
        )
        if not why:
            _clear_drift(row)
        elif _may_redeliver(row):
            with transaction.atomic():
                if not _unchanged(row):
                    continue
                _note_drift(actor, Tenant, row.public_id, row.public_id, "tenant.reassert", why)
                tenant_actions.touch_tenant(actor, row, at_least=0 if found is None else found.generation)
            yield Finding(object_id=row.public_id, what=why)


def _tenant_difference(
    row: Tenant, found: view.TenantSeen, level: int, principals: str, budgets: str, kept_max: int | None
) -> str:
    limits = limits_of(row)
    later = level >= LATER_QUOTAS_FROM_LEVEL
    if found.generation > row.generation:
        return f"the brokers have generation {found.generation}, {row.generation} is wanted"
    for name, on_brokers, wanted in (
        ("produce_bytes_per_s", found.produce_bytes_per_s, limits.produce_bytes_per_s),
        ("partitions_max", found.partitions_max, limits.partitions_max),
        ("consume_bytes_per_s", found.consume_bytes_per_s, limits.consume_bytes_per_s if later else 0),
        ("connections_max", found.connections_max, limits.connections_max if later else 0),
        ("groups_max", found.groups_max, limits.groups_max if later else 0),
        ("requests_per_s", found.requests_per_s, limits.requests_per_s if later else 0),
        (
            "connection_attempts_per_s",
            found.connection_attempts_per_s,
            limits.connection_attempts_per_s if later else 0,
        ),
        ("rate_burst_ms", found.rate_burst_ms, limits.rate_burst_ms if later else 0),
        ("rate_floor_percent", found.rate_floor_percent, limits.rate_floor_percent if later else 0),
        (
            "broker_processor_ms_per_s",
            found.broker_processor_ms_per_s,
            limits.broker_processor_ms_per_s if later else 0,
        ),
        ("storage_bytes_max", found.storage_bytes_max, limits.storage_bytes_max if later else 0),
        ("kept_bytes_max", found.kept_bytes_max, (kept_max or 0) if later else 0),
        ("suspended", found.suspended, row.stopped),
    ):
        if on_brokers != wanted:
            return f"{name} is {on_brokers} on the brokers, {wanted} is wanted"
    if found.principal_limits_digest != principals:
        return "the limits of its service accounts are others on the brokers"
    if found.budgets_digest != budgets:
        return "its budgets are others on the brokers"
    return ""


# -- topics ---------------------------------------------------------------------------------------------


def _topics(actor: Actor, seen: view.ClusterView) -> Iterator[Finding]:
    by_id = {topic.topic_id: topic for topic in seen.topics}
    by_name = {(topic.tenant, topic.name): topic for topic in seen.topics if not topic.binned}
    for row in topics.topics_of_all().filter(on_brokers=True).order_by("pk").iterator():
        found = by_id.get(row.topic_id)
        other = by_name.get((row.tenant.public_id, row.name))
        why = ""
        if row.deleted_at is not None:
            if found is not None and _judged(row, seen) and _may_redeliver(row):
                why = _redelete(actor, row, found)
        elif row.binned_at is not None and found is None:
            why = _gone_from_the_bin(row, seen)
        elif found is None and _has_been_there(row, seen):
            # Even when a change of it waits: brokers cannot apply that to a topic that does not exist.
            why = _recreated(actor, row) if other is None else _replaced(actor, row, other)
        elif found is not None and _judged(row, seen):
            why = _topic_as_wanted(actor, row, found)
        if why:
            yield Finding(object_id=row.public_id, what=why)


def _has_been_there(row: Topic, seen: view.ClusterView) -> bool:
    return row.delivered_generation > 0 and row.delivered_revision <= seen.revision


def _redelete(actor: Actor, row: Topic, found: view.TopicSeen) -> str:
    return _redeliver(actor, row, found, "it was deleted, and the brokers still have it")


def _gone_from_the_bin(row: Topic, seen: view.ClusterView) -> str:
    """Only said: what made again would be empty is not worth restoring."""
    why = "it was in the recycle bin, and is gone on the brokers with all its messages"
    if not _has_been_there(row, seen) or conditions.has(row.conditions, conditions.DRIFT, why):
        return ""
    observed.put_condition(row.public_id, conditions.DRIFT, "removed_on_brokers", why)
    return why


def _redeliver(actor: Actor, row: Topic, found: view.TopicSeen, why: str) -> str:
    with transaction.atomic():
        if not observed.touch(actor, row, "topic.reassert", at_least=found.generation, why=why):
            return ""
        observed.put_condition(row.public_id, conditions.DRIFT, "changed_on_brokers", why)
    return why


def _recreated(actor: Actor, row: Topic) -> str:
    why = "it was gone on the brokers"
    with transaction.atomic():
        _rewind(actor, row, why)
        if observed.recreate(actor, row, why=why):
            return why
        transaction.set_rollback(True)
    return ""


def _replaced(actor: Actor, row: Topic, other: view.TopicSeen) -> str:
    why = f"the brokers have another topic of this name, {other.topic_id} instead of {row.topic_id}"
    with transaction.atomic():
        _rewind(actor, row, why)
        if _adopt(actor, row, other, why):
            return why
        transaction.set_rollback(True)
    return ""


def _rewind(actor: Actor, row: Topic, why: str) -> None:
    """The topic with an audit log is another one now, and gets the whole log: its readers leave out what they have."""
    if row.name == AUDIT_TOPIC:
        audit_topic_actions.rewind(actor, row.tenant, why=why)


def _audit_topics(actor: Actor, seen: view.ClusterView) -> Iterator[Finding]:
    """Whatever the brokers have: of a database of which a part was restored."""
    there = {topic.tenant: topic for topic in seen.topics if topic.name == AUDIT_TOPIC and not topic.binned}
    for row in audit_topics.unfit():
        other = there.get(row.tenant.public_id)
        try:
            with transaction.atomic():
                why = audit_topic_actions.repair(actor, row.tenant)
                made = audit_topics.topic_of(row.tenant)
                if other is not None and made is not None and not made.on_brokers:
                    _adopt(actor, made, other, "the brokers have it, and its row was missing")
        except PenstockError as error:
            problem = f"the topic {AUDIT_TOPIC} is missing and cannot be made: {error.message}"
            if not audit_topic_actions.note_problem(row, problem):
                continue
            why = problem
        if why:
            yield Finding(object_id=row.tenant.public_id, what=why)


def _topic_as_wanted(actor: Actor, row: Topic, found: view.TopicSeen) -> str:
    """What was repaired; empty when nothing was."""
    if found.partitions > row.partitions:
        why = f"it has {found.partitions} partitions on the brokers, {row.partitions} were wanted"
        return why if _adopt(actor, row, found, why) else ""
    why = _topic_difference(row, found)
    if not why:
        _clear_drift(row)
        return ""
    return _redeliver(actor, row, found, why) if _may_redeliver(row) else ""


def _topic_difference(row: Topic, found: view.TopicSeen) -> str:
    if found.generation > row.generation:
        return f"the brokers have generation {found.generation}, {row.generation} is wanted"
    if found.partitions < row.partitions:
        return f"it has {found.partitions} partitions on the brokers, {row.partitions} are wanted"
    if found.binned != (row.binned_at is not None):
        return f"it is {'' if found.binned else 'not '}in the recycle bin on the brokers"
    try:
        on_brokers = TopicSettings.from_dict(json.loads(found.settings_json)).to_dict()
    except (ValueError, PenstockError):
        return "its settings on the brokers cannot be read"
    for name in sorted(on_brokers):
        if on_brokers[name] != row.settings.get(name):
            return f"{name} is {on_brokers[name]} on the brokers, {row.settings.get(name)} is wanted"
    return ""


def _adopt(actor: Actor, row: Topic, found: view.TopicSeen, why: str) -> bool:
    return observed.adopt(
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
        why = "its maker may no longer have keys"
        tenant_actions.revoke_key(actor, row, reason=why)
        yield Finding(object_id=row.public_id, what=why)
    for key in access_keys.revoke_audit_keys_beyond_their_makers(actor):
        yield Finding(object_id=key.public_id, what="its maker may no longer read the audit log")
    on_brokers = {key.key_id: key for key in seen.keys}
    for row in tenants.keys_of_all().order_by("pk").iterator():
        if not _judged(row, seen):
            continue
        found = on_brokers.get(row.key_id)
        if found is not None:
            observed_tenants.note_number(row, found.principal)
        if found is not None and found.revoked and row.revoked_at is None:
            # It was revoked for a reason. A key never becomes valid again by itself.
            why = "it was revoked on the brokers"
            tenant_actions.revoke_key(actor, row, reason=why)
            yield Finding(object_id=row.public_id, what=why)
            continue
        why = _key_difference(row, found, seen.feature_level)
        if not why:
            _clear_drift(row)
        elif _may_redeliver(row):
            with transaction.atomic():
                if not _unchanged(row):
                    continue
                _note_drift(actor, ApiKey, row.public_id, row.tenant.public_id, "key.reassert", why)
                tenant_actions.touch_key(actor, row, at_least=0 if found is None else found.generation)
            yield Finding(object_id=row.public_id, what=why)


def _key_difference(row: ApiKey, found: view.KeySeen | None, level: int) -> str:
    if row.revoked_at is not None:
        return "it was revoked, and the brokers let it in" if found is not None and not found.revoked else ""
    if found is None:
        return "it is gone on the brokers"
    if found.generation > row.generation:
        return f"the brokers have generation {found.generation}, {row.generation} is wanted"
    if found.expires_at_ms != ms_of(row.expires_at):
        return "its expiry differs on the brokers"
    if level >= OWNERS_FROM_LEVEL and found.owner != access.owner_of(row):
        return "its owner differs on the brokers"
    on_brokers = [
        (b.resource, b.topic_prefix, b.literal, tuple(sorted(b.operations))) for b in found.bindings
    ]
    wanted = [
        (b.resource, b.topic_prefix, b.literal, tuple(sorted(b.operations))) for b in access.bindings(row)
    ]
    return "" if on_brokers == wanted else "what it is bound to differs on the brokers"


# -- access lists ---------------------------------------------------------------------------------------


def _access_lists(actor: Actor, seen: view.ClusterView) -> Iterator[Finding]:
    on_brokers = {tenant.tenant: tenant for tenant in seen.tenants}
    for row in access.accesses_of_all().order_by("pk"):
        found = on_brokers.get(row.tenant.public_id)
        if not _judged(row, seen) or found is None:
            continue
        wanted = access_list_digest(access_list_json(access.access_list(row.tenant)))
        if found.access_list_generation <= row.generation and found.access_list_digest == wanted:
            _clear_drift(row)
            continue
        why = "the access list differs on the brokers"
        if _may_redeliver(row):
            with transaction.atomic():
                if not _unchanged(row):
                    continue
                access_actions.put_condition(row.public_id, conditions.DRIFT, "changed_on_brokers", why)
                audit.record(
                    actor,
                    tenant=row.tenant.public_id,
                    action="access.reassert",
                    object_id=row.public_id,
                    after={"why": why},
                )
                access_actions.touch(actor, row, at_least=found.access_list_generation)
            yield Finding(object_id=row.public_id, what=why)


# -- unknown objects ------------------------------------------------------------------------------------


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
                observed_tenants.clear_condition(Tenant, row.public_id, conditions.UNKNOWN_OBJECTS)
            continue
        message = ", ".join(listed[:LISTED_MAX]) + (" …" if len(listed) > LISTED_MAX else "")
        if conditions.has(row.conditions, conditions.UNKNOWN_OBJECTS, message):
            continue
        with transaction.atomic():
            observed_tenants.put_condition(
                Tenant, row.public_id, conditions.UNKNOWN_OBJECTS, "not_asked_for", message
            )
            audit.record(
                actor,
                tenant=row.public_id,
                action="tenant.unknown_objects",
                object_id=row.public_id,
                after={"objects": listed[:LISTED_MAX], "count": len(listed)},
            )
        yield Finding(object_id=row.public_id, what=f"unknown objects: {message}")


# -- redelivery -----------------------------------------------------------------------------------------


def _may_redeliver(row: DesiredObject) -> bool:
    """False within `REDELIVERY_INTERVAL` after the last redelivery, so that a lasting difference makes no loop."""
    drift = next((c for c in row.conditions if c["type"] == conditions.DRIFT), None)
    return drift is None or datetime.fromisoformat(drift["since"]) + REDELIVERY_INTERVAL <= timezone.now()


def _clear_drift(row: DesiredObject) -> None:
    """The object on the brokers is as desired: remove its condition `drift`."""
    if not any(c["type"] == conditions.DRIFT for c in row.conditions):
        return
    if isinstance(row, Topic):
        observed.clear_condition(row.public_id, conditions.DRIFT)
    elif isinstance(row, Tenant):
        observed_tenants.clear_condition(Tenant, row.public_id, conditions.DRIFT)
    elif isinstance(row, TenantAccessList):
        access_actions.clear_condition(row.public_id, conditions.DRIFT)
    elif isinstance(row, ApiKey):
        observed_tenants.clear_condition(ApiKey, row.public_id, conditions.DRIFT)
