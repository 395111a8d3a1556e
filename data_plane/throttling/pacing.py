"""How fast a tenant may produce on one broker: batches are let through at the rate, delayed, or refused.

A `Pace` is a queue without a memory of its own: it knows when everything let in so far will have passed at the
rate. A batch that comes passes when its turn comes; one whose turn is too far away is refused and answered when to
come back. After a refusal nothing more is let in until half of what is delayed has passed, so that a sender who
comes back in order finds capacity for all it has, and no later batch slips in before an earlier one.

The first form of sharing: each broker enforces the part of the tenant's rate that its part of the tenant's led
partitions is. Times are monotonic milliseconds, sizes bytes.
"""

from data_plane.metadata.image import ClusterImage
from penstock.contract.ids import NO_BROKER, BrokerId, TenantId
from penstock.contract.invariant import invariant

HOLD_MS_MAX = 4_000
"""A batch is delayed at most so long: well below what a client takes for a broken stream."""
BURST_MS = 250
"""What was not used may be made up for this long: within 5 s a tenant gets at most a twentieth above its rate,
and one batch.
"""
SHARE_CHECK_MS = 1_000
"""Between looks at who leads a tenant's partitions."""


class Pace:
    """One tenant's pace on this broker. `bytes_per_s` is at least 1."""

    def __init__(self, bytes_per_s: int) -> None:
        invariant(bytes_per_s >= 1, "a pace lets something through")
        self.bytes_per_s = bytes_per_s
        self._free_at_ms = float("-inf")
        """When everything let in will have passed; in the past: since when the pace has been idle."""
        self._full = False

    def change(self, bytes_per_s: int, now_ms: float) -> None:
        """Another rate from now on: what is still to pass then takes another time."""
        invariant(bytes_per_s >= 1, "a pace lets something through")
        if bytes_per_s != self.bytes_per_s:
            left_ms = self.clears_in_ms(now_ms)
            if left_ms > 0:
                self._free_at_ms = now_ms + left_ms * self.bytes_per_s / bytes_per_s
            self.bytes_per_s = bytes_per_s

    def clears_in_ms(self, now_ms: float) -> float:
        """Until everything let in has passed; 0 = it has."""
        return max(0.0, self._free_at_ms - now_ms)

    def enter(self, size: int, now_ms: float, *, may_refuse: bool = True) -> float | None:
        """Let a batch in and answer how many ms to delay it (0 = it passes now), or None: refused."""
        wait_ms = self.clears_in_ms(now_ms)
        if may_refuse and wait_ms > (HOLD_MS_MAX / 2 if self._full else HOLD_MS_MAX):
            self._full = True
            return None
        if wait_ms <= HOLD_MS_MAX / 2:
            self._full = False
        start_ms = max(self._free_at_ms, now_ms - BURST_MS)
        self._free_at_ms = start_ms + size * 1000 / self.bytes_per_s
        return wait_ms

    def come_back_in_ms(self, now_ms: float) -> int:
        """When a refused producer finds capacity again."""
        return max(1, int(self.clears_in_ms(now_ms) - HOLD_MS_MAX / 2) + 1)


def part_led(image: ClusterImage, broker: BrokerId, tenant: TenantId) -> tuple[int, int]:
    """(partitions of the tenant that the broker leads, that any broker leads)."""
    mine = led = 0
    for topic_id in image.names_of.get(tenant, {}).values():
        for block in image.blocks.get(topic_id, {}).values():
            for record in block.partitions.values():
                led += record.leader != NO_BROKER
                mine += record.leader == broker
    return mine, led


class Pacing:
    """The paces of all tenants with a produce rate on one broker, by its image."""

    def __init__(self, image: ClusterImage, broker: BrokerId) -> None:
        self._image, self._broker = image, broker
        self._paces: dict[TenantId, tuple[Pace, int, int, float]] = {}
        """Pace, tenant's rate, image revision and time of the last look at the share."""

    def of(self, tenant: TenantId, now_ms: float) -> Pace | None:
        """The tenant's pace, None = no limit."""
        known = self._image.tenants.get(tenant)
        rate = 0 if known is None else known.quotas.produce_bytes_per_s
        if rate == 0:
            if self._paces:
                self._paces.pop(tenant, None)
            return None
        known_pace = self._paces.get(tenant)
        if known_pace is not None:
            pace, seen_rate, revision, looked_ms = known_pace
            fresh = revision == self._image.revision or now_ms - looked_ms < SHARE_CHECK_MS
            if fresh and seen_rate == rate:
                return pace
        mine, led = part_led(self._image, self._broker, tenant)
        share = max(1, rate * max(1, mine) // max(1, led))
        if known_pace is None:
            pace = Pace(share)
        else:
            pace = known_pace[0]
            pace.change(share, now_ms)
        self._paces[tenant] = (pace, rate, self._image.revision, now_ms)
        return pace
