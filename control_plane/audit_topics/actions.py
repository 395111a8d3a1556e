"""Switches the topic with a tenant's audit log on and off, changes and deletes it, and moves its position."""

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from control_plane.access import actions as access
from control_plane.audit import actions as audit
from control_plane.audit import queries as audit_log
from control_plane.audit.actor import Actor, system
from control_plane.audit_topics import queries
from control_plane.audit_topics.models import OFF, ON, PROBLEM_LENGTH_MAX, AuditTopic
from control_plane.couriers import leases, sealing
from control_plane.couriers.leases import LEASE
from control_plane.topics import actions as topics
from control_plane.topics.plan_refusals import AUDIT_MESSAGE_BYTES_MIN
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.limits import MESSAGE_BYTES_MAX_DEFAULT
from penstock.contract.topic_settings import UNLIMITED
from penstock.rules.access import DESCRIBE, PRODUCE, TOPIC, Scope
from penstock.rules.names import AUDIT_TOPIC
from quotas import partition_changes
from quotas.queries import limits_of
from tenants import actions as tenants
from tenants.models import Tenant

KEY_NAME = "audit-topic"
ACTOR = system("audit-topic")
_PURPOSE = "penstock.audit_topics"
_SCOPE = Scope(resource=TOPIC, name=AUDIT_TOPIC, literal=True, operations=(DESCRIBE, PRODUCE))


def change(
    actor: Actor, tenant: Tenant, *, state: str | None = None, retention_ms: int | None = None
) -> AuditTopic:
    """Change what is given.

    Switched on, the topic is made if there is none, and gets the whole log from its first entry on; one that was
    switched off goes on where it stopped. Raises `InvalidRequest`, `LimitExceeded` (of the tenant's topics, partitions
    and retention: it counts as any topic), `Throttled` (changes in this hour).
    """
    tenants.check_not_the_service(tenant)
    if state not in (None, ON, OFF):
        raise InvalidRequest(f"state: {state[:16]!r} is neither on nor off")
    with transaction.atomic():
        row = _locked(tenant)
        if state is None and retention_ms is None:
            return row
        before = _content(row)
        if retention_ms is None and row._state.adding:
            retention_ms = limits_of(tenant).retention_ms_max or UNLIMITED
        if retention_ms is not None and retention_ms != row.retention_ms:
            _keep_for(actor, tenant, retention_ms)
            row.retention_ms = retention_ms
        if state == ON and row.state == OFF:
            _switch_on(actor, tenant, row)
        elif state == OFF and row.state == ON:
            _switch_off(row, "the topic with the audit log is switched off")
        after = _content(row)
        if after != before:
            row.save()
            _record(actor, tenant, "audit_topic.change", before, after)
    return row


def delete(actor: Actor, tenant: Tenant) -> None:
    """Switch it off, and delete the topic with what it has, for good. Switched on again, it begins with entry 1.

    Raises `NotFound` (there is no such topic).
    """
    with transaction.atomic():
        row = _locked(tenant)
        if queries.topic_of(tenant) is None:
            raise NotFound(f"topic {AUDIT_TOPIC!r} does not exist")
        before = _content(row)
        if row.state == ON:
            _switch_off(row, "the topic with the audit log is deleted")
        topic = topics.delete_topic(ACTOR, tenant, AUDIT_TOPIC)
        if topics.counts(actor):
            partition_changes.note(tenant, topic.partitions)
        row.position, row.delivered_at = 0, None
        row.begin_again()
        row.save()
        _record(actor, tenant, "audit_topic.delete", before, {"state": OFF})


def forget(tenant: Tenant) -> None:
    """For a tenant that is purged: its topics and keys are gone, or go."""
    AuditTopic.objects.filter(tenant=tenant).delete()


def widen(tenant: Tenant) -> None:
    """Let the topic take every entry, where it was made for smaller messages. Part of a transaction."""
    topic = queries.topic_of(tenant)
    if topic is not None and topic.settings["max_message_bytes"] < AUDIT_MESSAGE_BYTES_MIN:
        settings = {"max_message_bytes": AUDIT_MESSAGE_BYTES_MIN}
        topics.update_topic(ACTOR, tenant, AUDIT_TOPIC, settings=settings)


def rewind(actor: Actor, tenant: Tenant, *, why: str) -> bool:
    """The topic is another one than the position is of: it gets the log from its first entry on. False: it does so
    already, or there is no such topic.
    """
    with transaction.atomic():
        row = _locked(tenant)
        if row._state.adding or row.position == 0:
            return False
        _rewind(actor, row, why)
    return True


def repair(actor: Actor, tenant: Tenant) -> str:
    """Make a topic that is switched on work again, where its row does not fit the others of the database. What was
    wrong; empty: nothing is. Raises `LimitExceeded`, `AlreadyExists`: the topic is missing and cannot be made.
    """
    with transaction.atomic():
        row = _locked(tenant)
        newest, _ = audit_log.head(tenant.public_id)
        if row.state != ON:
            return ""
        if queries.topic_of(tenant) is None:
            why = f"the topic {AUDIT_TOPIC} was missing, and is made with the log from its first entry on"
            _make(tenant, row)
        elif row.position > newest:
            why = f"the topic {AUDIT_TOPIC} was at entry {row.position}, and the log ends at {newest}"
        else:
            return ""
        _rewind(actor, row, why)
    return why


def note_problem(row: AuditTopic, problem: str) -> bool:
    """Show it with the topic; False: it is shown already, or the row was changed."""
    text = problem[:PROBLEM_LENGTH_MAX]
    return row.problem != text and _note(row, problem=text)


def _rewind(actor: Actor, row: AuditTopic, why: str) -> None:
    before = {"position": row.position}
    row.position, row.delivered_at, row.problem = 0, None, ""
    row.begin_again()
    row.save()
    _record(actor, row.tenant, "audit_topic.rewind", before, {"position": 0, "why": why})


def own_key(row: AuditTopic) -> str:
    """The text of the key that writes the topic; another one if it was revoked, or cannot be read any more. The row is
    the caller's by its lease. Raises `NotFound`: it is no longer so.
    """
    if row.key is not None and row.key.revoked_at is None:
        try:
            return sealing.opened(_PURPOSE, row.secret)
        except sealing.SecretLost:
            pass
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=row.tenant_id)
        locked = leases.locked(row)
        if locked is None or locked.state != ON:
            raise NotFound("the topic with the audit log was changed meanwhile")
        text = _new_key(locked.tenant, locked, "another one takes its place")
        locked.save(update_fields=["key", "secret"])
    row.key, row.secret = locked.key, locked.secret
    return text


def note_delivered(row: AuditTopic, position: int) -> bool:
    """The topic has all entries up to there. False: the row is another courier's, or was changed."""
    now = timezone.now()
    return _note(
        row,
        position=position,
        delivered_at=now,
        due_at=now,
        failures=0,
        failing_since=None,
        problem="",
        lease_until=now + LEASE,
    )


def note_failed(row: AuditTopic, problem: str) -> bool:
    """Nothing more of this attempt is known to be there; the next one comes after a pause."""
    now = timezone.now()
    row.failures += 1
    row.failing_since = row.failing_since or now
    return _note(
        row,
        failures=row.failures,
        failing_since=row.failing_since,
        problem=problem[:PROBLEM_LENGTH_MAX],
        due_at=now + pause(row.failures),
    )


def pause(failures: int) -> timedelta:
    """Before the next attempt: it doubles from a second to a minute, however long it fails."""
    return timedelta(seconds=min(60, 2 ** min(failures - 1, 6)))


def _note(row: AuditTopic, **changed: Any) -> bool:
    mine = AuditTopic.objects.filter(pk=row.pk, lease_number=row.lease_number, state=ON)
    return bool(mine.update(**changed))


def _locked(tenant: Tenant) -> AuditTopic:
    """The row under its tenant's lock, which all of its changes take first; a new one that is not saved."""
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    found = AuditTopic.objects.select_for_update(no_key=True, of=("self",)).filter(tenant=tenant).first()
    return found or AuditTopic(tenant=tenant, due_at=timezone.now())


def _switch_on(actor: Actor, tenant: Tenant, row: AuditTopic) -> None:
    if queries.topic_of(tenant) is None:
        _spend(actor, tenant, 1)
        _make(tenant, row)
        row.position, row.delivered_at = 0, None
    else:
        widen(tenant)
    row.state, row.problem = ON, ""
    row.begin_again()
    _new_key(tenant, row, "another one takes its place")


def _make(tenant: Tenant, row: AuditTopic) -> None:
    most = limits_of(tenant).message_bytes_max or MESSAGE_BYTES_MAX_DEFAULT
    topics.create_topic(
        ACTOR,
        tenant,
        name=AUDIT_TOPIC,
        partitions=1,
        settings={
            "retention_ms": row.retention_ms,
            "max_message_bytes": max(min(most, MESSAGE_BYTES_MAX_DEFAULT), AUDIT_MESSAGE_BYTES_MIN),
        },
        within_service=True,
    )


def _switch_off(row: AuditTopic, why: str) -> None:
    row.state, row.problem = OFF, ""
    row.begin_again()
    if row.key is not None:
        tenants.revoke_key(ACTOR, row.key, reason=why)
    row.key, row.secret = None, ""


def _new_key(tenant: Tenant, row: AuditTopic, why: str) -> str:
    if row.key is not None:
        tenants.revoke_key(ACTOR, row.key, reason=why)
    row.key, text = access.create_key(ACTOR, tenant, name=KEY_NAME, scopes=[_SCOPE], within_service=True)
    row.secret = sealing.sealed(_PURPOSE, text.reveal())
    return text.reveal()


def _spend(actor: Actor, tenant: Tenant, changes: int) -> None:
    """The topic is the service's own, and who asks for its change is counted."""
    if topics.counts(actor):
        partition_changes.spend(tenant, AUDIT_TOPIC, changes)


def _keep_for(actor: Actor, tenant: Tenant, retention_ms: int) -> None:
    """Raises `InvalidRequest`, `LimitExceeded`, `Throttled`."""
    topics.check_retention(tenant, AUDIT_TOPIC, retention_ms)
    topic = queries.topic_of(tenant)
    if topic is not None:
        if retention_ms != topic.settings["retention_ms"]:
            _spend(actor, tenant, 1)
        topics.update_topic(ACTOR, tenant, AUDIT_TOPIC, settings={"retention_ms": retention_ms})


def _content(row: AuditTopic) -> dict[str, Any]:
    return {"name": AUDIT_TOPIC, "state": row.state, "retention_ms": row.retention_ms}


def _record(actor: Actor, tenant: Tenant, action: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    audit.record(
        actor,
        tenant=tenant.public_id,
        action=action,
        object_id=tenant.public_id,
        before=before,
        after=after,
    )
