"""Takes in exports of what the infrastructure costs, and undoes them.

Of each month in which one of its rows begins, also where all cost 0, what the same source had before is replaced. What
it had is kept with the import, so undoing it brings that back. Imports of one source wait for each other.
"""

import hashlib
import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from billing.models import NAME_LENGTH_MAX
from billing.unit_cost_actions import CHANGEABLE, check, check_count, costs, described
from billing.unit_cost_models import CostImport, CostSource, InfrastructureCost
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from penstock.contract.errors import InUse, InvalidRequest, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules import focus_costs
from penstock.rules.allocation import Per, month_after, month_of
from penstock.rules.names import check_display_name

IMPORTED_MAX = 1_000
"""Costs of one import: it is one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenIn:
    """What an import did. `row` is the one that did it: this one, or an earlier one that said the same."""

    row: CostImport
    is_new: bool
    created: int
    changed: int
    removed: int
    unchanged: int


def imports() -> QuerySet[CostImport]:
    """All of them, undone ones too."""
    return CostImport.objects.select_related("source")


def take_in_export(actor: Actor, source: str, text: str, *, cost_column: str, now: datetime) -> TakenIn:
    """Take in a FOCUS export by the rules of `penstock.rules.focus_costs`. Raises `InvalidRequest`."""
    export = focus_costs.read(io.StringIO(text, newline=""), cost_column)
    months = {f"{one.month:%Y-%m}" for one in export.sums}
    entries = [
        {
            "name": one.name,
            "kind": one.kind.value,
            "amount": 1,
            "price_micro": one.cost_micro,
            "per": Per.PERIOD.value,
            "currency": one.currency,
            "from_at": one.begins,
            "until_at": one.ends,
        }
        for one in focus_costs.costs(export)
    ]
    return take_in(actor, source, entries, now=now, sha256=export.sha256, rows=export.rows, months=months)


def take_in(
    actor: Actor,
    source: str,
    entries: Sequence[Mapping[str, Any]],
    *,
    now: datetime,
    sha256: str = "",
    rows: int = 0,
    months: Collection[str] = (),
) -> TakenIn:
    """Take in costs of the fields in `CHANGEABLE`. The same again changes nothing, also when it comes at the same time.
    `months`, as 2026-11, are those of an export, which may have rows of 0 alone in one: then nothing is left there.
    Raises `InvalidRequest`.
    """
    check_display_name("source", source, NAME_LENGTH_MAX)
    if not (entries or months) or len(entries) > IMPORTED_MAX:
        raise InvalidRequest(f"costs: {len(entries)}; 1 to {IMPORTED_MAX} in one import required")
    wanted = _wanted(source, entries)
    digest = (
        sha256
        or hashlib.sha256(
            json.dumps([described(row) for _, row in sorted(wanted.items(), key=str)]).encode()
        ).hexdigest()
    )
    months = sorted({*months, *(f"{row.from_at:%Y-%m}" for row in wanted.values())})
    with transaction.atomic():
        CostSource.objects.get_or_create(name=source)
        of = CostSource.objects.select_for_update(no_key=True).get(name=source)
        known = {_key(row): row for row in _within(source, months)}
        before = [_kept(row) for row in known.values()]
        gone = [row.pk for key, row in known.items() if key not in wanted]
        new = [row for key, row in wanted.items() if key not in known]
        changed = [
            row for key, row in known.items() if key in wanted and described(row) != described(wanted[key])
        ]
        newest = _newest(of, months)
        counts = {
            "created": len(new),
            "changed": len(changed),
            "removed": len(gone),
            "unchanged": len(wanted) - len(new) - len(changed),
        }
        if not (new or changed or gone) and newest is not None and newest.sha256 == digest:
            return TakenIn(row=newest, is_new=False, **counts)
        costs().filter(pk__in=gone).delete()
        check_count(len(new))
        InfrastructureCost.objects.bulk_create(new)
        for row in changed:
            for name in CHANGEABLE:
                setattr(row, name, getattr(wanted[_key(row)], name))
            row.revision += 1
            row.save()
        made = CostImport.objects.create(
            source=of,
            sha256=digest,
            months=months,
            rows=rows or len(entries),
            costs=len(wanted),
            totals=_totals(wanted.values()),
            before=before,
            made_at=now,
        )
        _record(actor, "import", made, counts)
    return TakenIn(row=made, is_new=True, **counts)


def undo(actor: Actor, public_id: str, now: datetime) -> CostImport:
    """What the source had in the import's months before is there again, also where a cost was changed since. Undone
    once more it stays so. Raises `NotFound`, and `InUse` where a later import replaced a part of it.
    """
    found = imports().filter(public_id=public_id).first()
    if found is None:
        raise NotFound(f"import {public_id[:64]!r}: not found")
    with transaction.atomic():
        of = CostSource.objects.select_for_update(no_key=True).get(pk=found.source_id)
        row = imports().get(pk=found.pk)
        if row.undone_at is not None:
            return row
        newest = _newest(of, row.months)
        if newest is not None and newest.pk != row.pk:
            raise InUse(f"import {public_id}: {newest.public_id} replaced a part of it; undo that one first")
        here = [cost.pk for cost in _within(of.name, row.months)]
        # One that it had may have been given another time since: it comes back once.
        same = Q(public_id__in=[kept["public_id"] for kept in row.before])
        costs().filter(Q(pk__in=here) | same).delete()
        back = [_restored(of.name, kept) for kept in row.before]
        check_count(len(back))
        InfrastructureCost.objects.bulk_create(back)
        row.undone_at = now
        row.save(update_fields=["undone_at"])
        _record(actor, "undo_import", row, {"removed": len(here), "created": len(back)})
    return row


def _newest(of: CostSource, months: Sequence[str]) -> CostImport | None:
    """The newest import of the source that counts in any of these months."""
    wanted = set(months)
    rows = CostImport.objects.filter(source=of, undone_at=None).order_by("-pk")
    return next((row for row in rows.iterator() if wanted.intersection(row.months)), None)


def _wanted(source: str, entries: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], InfrastructureCost]:
    found: dict[tuple[Any, ...], InfrastructureCost] = {}
    for number, entry in enumerate(entries, 1):
        row = InfrastructureCost(**{name: entry[name] for name in CHANGEABLE if name in entry}, source=source)
        try:
            check(row)
        except InvalidRequest as error:
            raise InvalidRequest(f"costs: entry {number}: {error.message}") from None
        if _key(row) in found:
            raise InvalidRequest(f"costs: entry {number}: {row.name[:64]!r} of that time stands there twice")
        found[_key(row)] = row
    return found


def _within(source: str, months: Sequence[str]) -> list[InfrastructureCost]:
    """The source's costs that begin in these months, locked."""
    times = Q(pk__in=())
    for month in months:
        bounds = month_of(month)
        assert bounds is not None
        times |= Q(from_at__gte=bounds[0], from_at__lt=month_after(bounds[0]))
    return list(costs().select_for_update(no_key=True).filter(times, source=source).order_by("pk"))


def _key(row: InfrastructureCost) -> tuple[Any, ...]:
    return row.name, row.kind, row.currency, row.from_at, row.until_at


def _kept(row: InfrastructureCost) -> dict[str, Any]:
    return {"public_id": row.public_id, "revision": row.revision, **described(row)}


def _restored(source: str, kept: Mapping[str, Any]) -> InfrastructureCost:
    fields = dict(kept)
    for name in ("from_at", "until_at"):
        fields[name] = None if fields[name] is None else datetime.fromisoformat(fields[name])
    fields["revision"] += 1
    return InfrastructureCost(source=source, **fields)


def _totals(rows: Any) -> dict[str, int]:
    """Currency -> micro-units, of what has a price for its period; others cost by the hour or month and have no sum."""
    found: dict[str, int] = {}
    for row in rows:
        if row.per == Per.PERIOD:
            found[row.currency] = found.get(row.currency, 0) + row.amount * row.price_micro
    return dict(sorted(found.items()))


def _record(actor: Actor, action: str, row: CostImport, counts: Mapping[str, int]) -> None:
    audit.record(
        actor,
        tenant=SYSTEM_TENANT,
        action=f"infrastructure_cost.{action}",
        object_id=row.public_id,
        after={"source": row.source.name, "months": row.months, "sha256": row.sha256, **counts},
    )
