"""What the streams and calls of one tenant may do in one round of the event loop while other tenants work.

A round runs everything that was ready when it began, and what a message sets going takes several rounds: it is read,
appended, made durable, copied and answered. With fifty streams of small messages ready in each round, a neighbour's
message waits for fifty pieces of work at every one of its steps, though the processor may be half idle. So a tenant
whose pieces have taken ROUND_MS of a round does the others in the rounds that follow, in the order they came. It loses
nothing: rounds without much to do follow each other at once.

    comes --ROUND_MS are not used, none of the tenant waits, or no other tenant works--> goes on
    comes --else--> in the tenant's line --its round has come--> goes on
"""

import asyncio
from collections import deque
from collections.abc import Callable

from data_plane.node.stats import NodeStats
from penstock.contract.ids import TenantId

ROUND_MS = 0.5
"""Of processor time, for each tenant in each round: two or three frames of small messages. What has to be done at once,
such as one large frame, may take longer."""
_SMOOTHING = 0.2


class Rounds:
    """All tenants' on one broker."""

    def __init__(self, shared: Callable[[], bool], stats: NodeStats) -> None:
        """`shared`: whether more than one tenant works."""
        self._shared, self._stats = shared, stats
        self._used_ms: dict[TenantId, float] = {}
        """Of this round."""
        self._begun: dict[TenantId, int] = {}
        """Pieces of work of this round."""
        self._piece_ms: dict[TenantId, float] = {}
        """What a piece takes, on the mean; only of tenants that wait or work in this round."""
        self._lines: dict[TenantId, deque[asyncio.Future[None]]] = {}
        """Only of tenants that have some waiting."""
        self._is_scheduled = False

    def charge(self, tenant: TenantId, spent_ms: float) -> None:
        """The tenant has just used so much of this round."""
        self._used_ms[tenant] = self._used_ms.get(tenant, 0.0) + spent_ms
        self._schedule()

    async def turn(self, tenant: TenantId) -> None:
        """Wait until the tenant may do another piece of work. What it then does begins in the same step."""
        if (tenant not in self._lines and self._used_ms.get(tenant, 0.0) < ROUND_MS) or not self._shared():
            self._begun[tenant] = self._begun.get(tenant, 0) + 1
            self._schedule()
            return
        self._stats.fairness_rounds += 1
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant, deque()).append(waiting)
        self._schedule()
        await waiting

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """A round has ended: as many of each line as fit into the next one go on in it, and one at least."""
        self._is_scheduled = False
        for tenant, pieces in self._begun.items():
            took_ms, mean_ms = self._used_ms.get(tenant, 0.0) / pieces, self._piece_ms.get(tenant)
            self._piece_ms[tenant] = (
                took_ms if mean_ms is None else mean_ms + (took_ms - mean_ms) * _SMOOTHING
            )
        self._piece_ms = {
            tenant: mean_ms
            for tenant, mean_ms in self._piece_ms.items()
            if tenant in self._lines or tenant in self._begun
        }
        self._used_ms, self._begun = {}, {}
        for tenant, line in list(self._lines.items()):
            planned_ms = 0.0
            while line and planned_ms < ROUND_MS:
                waiting = line.popleft()
                if not waiting.done():
                    waiting.set_result(None)
                    planned_ms += self._piece_ms.get(tenant, ROUND_MS)
                    self._begun[tenant] = self._begun.get(tenant, 0) + 1
            if not line:
                del self._lines[tenant]
        if self._lines or self._begun:
            self._schedule()
