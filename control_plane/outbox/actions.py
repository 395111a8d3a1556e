"""Writes the outbox: rows with a change, leases of deliveries, and their outcomes."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from control_plane.outbox import wake_ups
from control_plane.outbox.models import Delivery
from control_plane.outbox.registry import Delivered, batch_deliverer, deliverer
from penstock.contract.invariant import invariant

LEASE_S = 20.0
"""Longer than any delivery takes; a worker that died is replaced after it."""
BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to deliver one object until `until`."""

    kind: str
    object_id: str
    generation: int
    attempts: int
    holder: str
    until: datetime


def enqueue(*, kind: str, object_id: str, tenant: str, generation: int) -> None:
    """This generation must be delivered. In the change's transaction."""
    enqueue_all(kind=kind, tenant=tenant, generations={object_id: generation})


def enqueue_all(*, kind: str, tenant: str, generations: Mapping[str, int]) -> None:
    """These generations, by object, must be delivered. In the transaction of the changes."""
    invariant(connection.in_atomic_block, "an outbox row is written in the transaction of its change")
    now = timezone.now()
    Delivery.objects.bulk_create(
        Delivery(
            kind=kind,
            object_id=object_id,
            tenant=tenant,
            generation=generation,
            created_at=now,
            next_attempt_at=now,
        )
        for object_id, generation in generations.items()
    )

    transaction.on_commit(partial(wake_ups.committed, kind, list(generations)))


def due_now(kind: str, object_id: str) -> bool:
    """What waits for the object may be delivered now, whatever its last attempt said. False if nothing waits."""
    rows = Delivery.objects.filter(kind=kind, object_id=object_id, delivered_at=None)
    return rows.update(next_attempt_at=timezone.now()) > 0


def withdraw(kind: str, object_id: str) -> bool:
    """Nothing of the object is delivered any more. False while a process delivers it.

    In the transaction that ends the object.
    """
    if is_being_delivered(kind, object_id):
        return False
    Delivery.objects.filter(kind=kind, object_id=object_id).delete()
    return True


def is_being_delivered(kind: str, object_id: str) -> bool:
    """Does some process deliver the object? If not, none begins before the caller's transaction ends."""
    invariant(connection.in_atomic_block, "the rows stay locked until what depends on them is committed")
    rows = Delivery.objects.select_for_update(no_key=True).filter(kind=kind, object_id=object_id)
    now = timezone.now()
    return any(row.lease_until is not None and row.lease_until > now for row in rows)


def claim(kind: str, object_id: str, now: datetime) -> Claim | None:
    """Take the object's newest undelivered row, unless a process delivers it now or it is not due yet."""
    with _lost_without_harm():
        rows = list(
            Delivery.objects.select_for_update(no_key=True)
            .filter(kind=kind, object_id=object_id, delivered_at=None)
            .order_by("generation")
        )
        if not rows or any(row.lease_until is not None and row.lease_until > now for row in rows):
            return None
        newest = rows[-1]
        if newest.next_attempt_at > now:
            return None
        newest.lease_holder = secrets.token_hex(16)
        newest.lease_until = now + timedelta(seconds=LEASE_S)
        newest.attempts += 1
        newest.save(update_fields=["lease_holder", "lease_until", "attempts"])
        return Claim(
            kind=kind,
            object_id=object_id,
            generation=newest.generation,
            attempts=newest.attempts,
            holder=newest.lease_holder,
            until=newest.lease_until,
        )


def claim_all(kind: str, object_ids: Sequence[str], now: datetime) -> list[Claim]:
    """As `claim`, of many objects at once, for one holder; those that cannot be claimed are left out, the
    others stay in order."""
    with _lost_without_harm():
        rows: dict[str, list[Delivery]] = {}
        for row in (
            Delivery.objects.select_for_update(no_key=True)
            .filter(kind=kind, object_id__in=object_ids, delivered_at=None)
            .order_by("object_id", "generation")
        ):
            rows.setdefault(row.object_id, []).append(row)
        newest = [
            waiting[-1]
            for waiting in (rows[object_id] for object_id in object_ids if object_id in rows)
            if waiting[-1].next_attempt_at <= now
            and not any(row.lease_until is not None and row.lease_until > now for row in waiting)
        ]
        holder, until = secrets.token_hex(16), now + timedelta(seconds=LEASE_S)
        Delivery.objects.filter(pk__in=[row.pk for row in newest]).update(
            lease_holder=holder, lease_until=until, attempts=F("attempts") + 1
        )
        return [
            Claim(
                kind=kind,
                object_id=row.object_id,
                generation=row.generation,
                attempts=row.attempts + 1,
                holder=holder,
                until=until,
            )
            for row in newest
        ]


def give_back(claims: Sequence[Claim]) -> None:
    """These were not tried: the next sweep may."""
    if claims:
        Delivery.objects.filter(
            kind=claims[0].kind,
            object_id__in=[claim.object_id for claim in claims],
            lease_holder=claims[0].holder,
            delivered_at=None,
        ).update(lease_until=None, lease_holder="")


@contextmanager
def _lost_without_harm() -> Iterator[None]:
    """A transaction that waits for no disk. A power cut may take it; everything that was committed before it stays.

    For a lease: its loss only lets another process deliver, and a repeated delivery is harmless.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA synchronous=NORMAL")
        try:
            with transaction.atomic():
                yield
        finally:
            with connection.cursor() as cursor:
                cursor.execute("PRAGMA synchronous=FULL")
    else:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit TO OFF")
            yield


def record_delivered(claim: Claim, done: Delivered, now: datetime) -> bool:
    """Note the delivery, of all generations up to the one delivered. True if newer ones wait."""
    invariant(done.generation >= claim.generation, "a delivery sends the newest state or a newer one")
    with transaction.atomic():
        rows = Delivery.objects.filter(kind=claim.kind, object_id=claim.object_id, delivered_at=None)
        # Even if the lease ran out meanwhile: the brokers do have it.
        rows.filter(generation__lte=done.generation).update(
            delivered_at=now, lease_until=None, lease_holder="", reason="", error=""
        )
        deliverer(claim.kind).delivered(claim.object_id, done)
        return rows.filter(generation__gt=done.generation).exists()


def record_all_delivered(claims: Sequence[Claim], done: Mapping[str, Delivered], now: datetime) -> None:
    """As `record_delivered`, of many objects of one kind at once."""
    by_generation: dict[int, list[str]] = {}
    for claim in claims:
        generation = done[claim.object_id].generation
        invariant(generation >= claim.generation, "a delivery sends the newest state or a newer one")
        by_generation.setdefault(generation, []).append(claim.object_id)
    with transaction.atomic():
        for generation, object_ids in by_generation.items():
            Delivery.objects.filter(
                kind=claims[0].kind,
                object_id__in=object_ids,
                delivered_at=None,
                generation__lte=generation,
            ).update(delivered_at=now, lease_until=None, lease_holder="", reason="", error="")
        batch_deliverer(claims[0].kind).all_delivered(done)


def record_failed(claim: Claim, reason: str, message: str, now: datetime) -> None:
    """Note why the delivery failed, and when it is tried again."""
    wait_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(claim.attempts - 1, 10))
    with transaction.atomic():
        changed = Delivery.objects.filter(
            kind=claim.kind,
            object_id=claim.object_id,
            generation=claim.generation,
            lease_holder=claim.holder,
            delivered_at=None,
        ).update(
            lease_until=None,
            lease_holder="",
            reason=reason,
            error=message,
            next_attempt_at=now + timedelta(seconds=wait_s),
        )
        if changed:
            deliverer(claim.kind).failed(claim.object_id, reason, message)
