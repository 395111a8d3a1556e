"""Dry runs: a change with `?dry_run=true` is made in a transaction that is always undone, and its audit entries tell
what it would change.

So the checks, the locks and the refusals are the change's own, and whatever an action records is shown. No broker is
called, so what only brokers would refuse is not found.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api.shapes import DRY_RUN_PARAMETER, DryRun
from control_plane.audit import actions as audit
from control_plane.outbox import in_request
from penstock.contract.errors import InvalidRequest

_MADE = "create"
"""The id of what would be made is drawn again when it is made, so a dry run names none."""
_COST = "monthly_cost"
NO_COST = "what is billed is use (bytes, stored bytes over time), which this change does not tell"


def is_asked(request: Request) -> bool:
    """Raises `InvalidRequest` for a value other than true and false."""
    given = request.query_params.get(DRY_RUN_PARAMETER, "false")
    if given not in ("true", "false"):
        raise InvalidRequest(f"{DRY_RUN_PARAMETER}: true or false required")
    return given == "true"


def answer(change: Callable[..., Response], *args: Any, **kwargs: Any) -> Response:
    """Make the change and undo it. Raises what the change raises."""
    with audit.overheard() as entries, in_request.nothing_delivered(), transaction.atomic():
        answered = change(*args, **kwargs)
        transaction.set_rollback(True)
    cost, reason = getattr(answered, _COST, (None, NO_COST))
    found = {
        "dry_run": True,
        "changes": [_described(entry) for entry in entries],
        "monthly_cost_change": cost,
        "monthly_cost_reason": reason,
    }
    return Response(DryRun(found).data)


def note_cost(answered: Response, change: Decimal | None, reason: str) -> None:
    """What the change costs a month more, in units of the currency; None: it cannot be said. For a change's own answer,
    which a dry run does not give.
    """
    cost = None if change is None else change.quantize(Decimal("0.01"))
    setattr(answered, _COST, (cost, reason))


def _described(entry: audit.Entry) -> dict[str, Any]:
    kind, _, action = entry.action.rpartition(".")
    names = sorted({*entry.before, *entry.after})
    return {
        "kind": kind,
        "id": None if action == _MADE else entry.object_id,
        "name": entry.after.get("name", entry.before.get("name")),
        "action": action,
        "fields": [
            {"field": name, "before": entry.before.get(name), "after": entry.after.get(name)}
            for name in names
            if entry.before.get(name) != entry.after.get(name)
        ],
    }
