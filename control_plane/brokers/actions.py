"""Stores the brokers that the cluster reported. It is no change by a user, so it has no audit entry."""

from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from control_plane.brokers.models import KnownBroker
from control_plane.brokers.view import BrokerSeen


def remember_brokers(seen: Sequence[BrokerSeen]) -> None:
    """Keep where each of the cluster's brokers is; those that the cluster has forgotten go. Nothing seen changes
    nothing."""
    wanted = {broker.id: broker.internal_address for broker in seen if broker.internal_address}
    if not wanted or wanted == dict(KnownBroker.objects.values_list("broker", "internal_address")):
        return
    with transaction.atomic():
        known = {row.broker: row for row in KnownBroker.objects.select_for_update(no_key=True)}
        for number, address in wanted.items():
            if number not in known or known[number].internal_address != address:
                KnownBroker.objects.update_or_create(
                    broker=number, defaults={"internal_address": address, "changed_at": timezone.now()}
                )
        KnownBroker.objects.exclude(broker__in=wanted).delete()
