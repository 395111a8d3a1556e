"""Writes what brokers say of tenants and keys: what they have, and what is wrong."""

from django.db import transaction
from django.utils import timezone

from control_plane.outbox import conditions
from control_plane.outbox.registry import Delivered
from tenants.models import ApiKey, Tenant


def note_delivered(model: type[Tenant] | type[ApiKey], public_id: str, done: Delivered) -> None:
    """The brokers have this generation."""
    row = model._default_manager.select_for_update(no_key=True).get(public_id=public_id)
    row.delivered_generation = max(row.delivered_generation, done.generation)
    row.delivered_revision = max(row.delivered_revision, done.revision)
    row.conditions = conditions.without(row.conditions, conditions.DELIVERY)
    row.save(update_fields=["delivered_generation", "delivered_revision", "conditions", "updated_at"])


def note_number(key: ApiKey, number: int) -> None:
    """The number by which usage records name the key; 0: the brokers said none."""
    if number and key.principal_number != number:
        ApiKey.objects.filter(pk=key.pk).update(principal_number=number)


def put_condition(
    model: type[Tenant] | type[ApiKey], public_id: str, kind: str, reason: str, message: str
) -> None:
    """Show a condition on the object."""
    with transaction.atomic():
        row = model._default_manager.select_for_update(no_key=True).get(public_id=public_id)
        row.conditions = conditions.put(row.conditions, kind, reason, message, timezone.now())
        row.save(update_fields=["conditions", "updated_at"])


def clear_condition(model: type[Tenant] | type[ApiKey], public_id: str, kind: str) -> None:
    """Show it no more."""
    with transaction.atomic():
        row = model._default_manager.select_for_update(no_key=True).get(public_id=public_id)
        row.conditions = conditions.without(row.conditions, kind)
        row.save(update_fields=["conditions", "updated_at"])
