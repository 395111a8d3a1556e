"""Writes what a prober counted: each minute as a whole, so that writing it twice is writing it once."""

from collections.abc import Mapping

from django.db import transaction

from billing.probe_counts import MinuteKey
from billing.service_level_models import ProbeMinute
from penstock.contract.invariant import invariant
from penstock.rules.service_levels import Counts


def known_counts(prober: str, minute: int) -> dict[MinuteKey, Counts]:
    """What it wrote of this minute."""
    rows = ProbeMinute.objects.filter(prober=prober, minute=minute)
    return {MinuteKey(one.operation, one.minute): Counts(valid=one.valid, bad=one.bad) for one in rows}


def write_counts(prober: str, counts: Mapping[MinuteKey, Counts]) -> None:
    """The minutes as they are counted now. A count never goes back."""
    invariant(bool(prober), "a prober has a name")
    with transaction.atomic():
        for key, one in sorted(counts.items()):
            row, made = ProbeMinute.objects.select_for_update(no_key=True).get_or_create(
                prober=prober,
                operation=key.operation,
                minute=key.minute,
                defaults={"valid": one.valid, "bad": one.bad},
            )
            if not made and row.valid < one.valid:
                row.valid, row.bad = one.valid, one.bad
                row.save(update_fields=["valid", "bad"])
