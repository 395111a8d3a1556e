"""One turn of a courier: the events of one webhook, one after another, for some seconds or until one is not taken."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from django.utils import timezone

from control_plane.config import Network
from control_plane.couriers import leases
from control_plane.webhooks import actions, outcomes, sending, signing
from control_plane.webhooks.destinations import destination
from control_plane.webhooks.events import PING, Event, wanted
from control_plane.webhooks.models import ON, Webhook
from control_plane.webhooks.outcomes import Outcome
from control_plane.webhooks.sources import SOURCES
from penstock.contract.errors import InvalidRequest

TURN_S = 5.0
"""Then others have their turn: a slow endpoint takes a courier for this and one attempt."""
READ_AT_ONCE = 50
_log = logging.getLogger(__name__)


class Turn:
    """Delivers to one webhook that the caller has claimed."""

    def __init__(
        self,
        row: Webhook,
        *,
        allowed: Sequence[Network],
        ca_file: Path | None,
        stopping: Callable[[], bool],
        within_s: float = sending.WITHIN_S,
        count: Callable[[str], None] = lambda outcome: None,
    ) -> None:
        self._row = row
        self._stopping = stopping
        self._count = count
        self._allowed = allowed
        self._ca_file = ca_file
        self._within_s = within_s

    def take(self) -> int:
        """Returns how many attempts were made. The lease is given back."""
        ends, made = time.monotonic() + TURN_S, 0
        try:
            if self._row.pings > self._row.pings_sent:
                made += 1
                if not self._attempt("", self._ping()).delivered:
                    return made
            if self._row.state != ON or self._row.due_at > timezone.now():
                return made
            for source in SOURCES.values():
                known = self._row.positions.filter(source=source.name).first()
                position = None if known is None else known.position
                while position is not None and time.monotonic() < ends and not self._stopping():
                    events = source.after(self._row.tenant.public_id, position, READ_AT_ONCE)
                    if not events:
                        break
                    for event in events:
                        if time.monotonic() >= ends or self._stopping():
                            return made
                        position = event.position
                        if not wanted(event.type, self._row.events):
                            continue
                        made += 1
                        if not self._attempt(source.name, event).delivered:
                            return made
                    # Those at the end that are not wanted.
                    if not outcomes.go_past(self._row, source.name, position):
                        return made
            return made
        finally:
            leases.give_back(self._row)

    def _attempt(self, source: str, event: Event) -> Outcome:
        """Not delivered, too, where another courier has the webhook by now."""
        outcome = self._sent(event)
        if not outcomes.note(self._row, source, event, outcome):
            _log.info("a webhook was changed meanwhile", extra={"webhook": self._row.public_id})
            self._count("outdated")
            return Outcome(at=outcome.at, duration_ms=outcome.duration_ms, error="outdated")
        self._count(_counted_as(outcome))
        return outcome

    def _sent(self, event: Event) -> Outcome:
        at, began = timezone.now(), time.monotonic()
        body = event.payload()
        secrets = [self._row.secret]
        if self._row.previous_until is not None and self._row.previous_until > at:
            secrets.append(self._row.previous_secret)
        try:
            to = destination(self._row.url)
            headers = signing.headers(event.id, body, secrets, time.time())
            answer = sending.post(
                to,
                {"Content-Type": "application/json", "User-Agent": "Penstock-Webhooks/1", **headers},
                body.encode(),
                allowed=self._allowed,
                ca_file=self._ca_file,
                within_s=self._within_s,
            )
        except (sending.NotSent, InvalidRequest) as error:
            return Outcome(at=at, duration_ms=_since(began), error=str(error))
        except signing.SecretLost:
            return Outcome(
                at=at, duration_ms=_since(began), error="its secret cannot be read by the service: rotate it"
            )
        return Outcome(
            at=at,
            duration_ms=_since(began),
            status=answer.status,
            error=_said_of(answer.status),
            retry_after=answer.retry_after,
        )

    def _ping(self) -> Event:
        row = self._row
        return Event(
            id=actions.ping_id(row, row.pings),
            type=PING,
            at=timezone.now().isoformat(),
            position=0,
            data={"tenant": row.tenant.public_id, "webhook": row.public_id, "name": row.name},
        )


def _since(began: float) -> int:
    return int((time.monotonic() - began) * 1000)


def _counted_as(outcome: Outcome) -> str:
    if outcome.delivered:
        return "delivered"
    return "unanswered" if outcome.status is None else "refused"


def _said_of(status: int) -> str:
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"it answered {status}: redirects are not followed"
    return f"it answered {status}"
