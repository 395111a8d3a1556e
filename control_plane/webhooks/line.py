"""The line of webhooks: what couriers deliver to endpoints of tenants."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from pathlib import Path

from control_plane.config import Network
from control_plane.webhooks import outcomes, queries, sending
from control_plane.webhooks.delivering import Turn
from control_plane.webhooks.models import Webhook


class WebhookLine:
    """As `couriers.Line` says."""

    name = "webhooks"

    def __init__(
        self,
        *,
        allowed: Sequence[Network] = (),
        ca_file: Path | None = None,
        within_s: float = sending.WITHIN_S,
        count: Callable[[str], None] = lambda outcome: None,
    ) -> None:
        """`count` is called with the outcome of each attempt."""
        self._allowed = allowed
        self._ca_file = ca_file
        self._within_s = within_s
        self._count = count

    def begin(self) -> None:
        outcomes.begin_sources()

    def due(self, now: datetime, *, most: int, without: Collection[int]) -> list[Webhook]:
        return queries.due(now, most=most, without=without)

    def turn(self, row: Webhook, stopping: Callable[[], bool]) -> None:
        Turn(
            row,
            allowed=self._allowed,
            ca_file=self._ca_file,
            stopping=stopping,
            within_s=self._within_s,
            count=self._count,
        ).take()
