"""How fast a tenant may produce, consume or ask on one broker: batches pass at the rate, are delayed, or refused.

A `Pace` is a queue of bytes that pass at its rate. A batch that comes passes when all before it have; one whose turn is
too far away is refused and answered when to come back. After a refusal nothing more is let in until half of what is
delayed has passed, so that a sender who comes back in order finds capacity for all it has, and no later batch slips in
before an earlier one. When the rate changes, what is delayed passes at the new rate.

Times are monotonic milliseconds, sizes bytes.
"""

from collections.abc import Iterator

from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord
from data_plane.throttling.line import Line
from penstock.contract.ids import NO_BROKER, BrokerId, TenantId
from penstock.contract.invariant import invariant
from penstock.contract.limits import MIB

HOLD_MS_MAX = 4_000
"""A batch is delayed at most so long at the rate there is: well below what a client takes for a broken stream."""
BURST_MS = 250
"""What was not used may be made up for this long, unless the tenant has another burst: within 5 s it gets at most a
twentieth above its rate, and one batch.
"""

COME_BACK_MS_MAX = 2 * HOLD_MS_MAX
"""A refused producer comes back within this: shares of a rate change every second, and what was reckoned at a small
one, with much delayed that came at a large one, would keep it away long after its turn.
"""

DELAYED_OF_TOPIC_MAX = 2 * MIB
"""What a topic that is slowed may have delayed on a broker before it is refused, and one batch: far less than a stream
may have unanswered, so that the stream's other topics go on."""

_HOPE_MS = 500
"""Until the rate that is hoped for has come, for who is refused before."""


class Pace:
    """One tenant's pace on this broker, of what it produces or of what it consumes. `bytes_per_s` is at least 1.

    A batch's position is the sum of all sizes let in before it.
    """

    def __init__(self, bytes_per_s: int, burst_ms: int = BURST_MS, stored_max: int = 0) -> None:
        """`burst_ms`, `stored_max`: see `allow_burst`."""
        invariant(bytes_per_s >= 1, "a pace lets something through")
        self.bytes_per_s = bytes_per_s
        self.limit_per_s = bytes_per_s
        """The whole limit, over all brokers, of which this broker has a share."""
        self._burst_ms = burst_ms
        self._stored_max = stored_max
        self._burst = max(bytes_per_s * burst_ms / 1000, stored_max)
        self.let_in = 0
        """Bytes let in so far: the position of the next batch."""
        self.refused = 0
        """Batches refused so far."""
        self.coming = 0
        """Bytes that wait in paces of principals and enter this one later, unjudged: they count as let in for all that
        is judged now. Who adds to it takes away as much, also when nothing enters after all."""
        self.principal = ""
        """Whose limit it is; empty: it is all the tenant's."""
        self.topic = ""
        """The topic that it is of; empty: of all."""
        self.line = Line()
        """Who waits until everything has passed, before they let more in."""
        self._hoped_bytes_per_s = 0
        self._hopes_until_ms = float("-inf")
        self._passed = self._burst
        """Bytes that could have passed, at most a burst ahead of what was let in."""
        self._at_ms = float("-inf")
        self._full = False

    @property
    def whose(self) -> str:
        """For refusals."""
        parts = [f"topic {self.topic}"] if self.topic else []
        if self.principal:
            parts.append(f"principal {self.principal.rpartition(':')[2]}")
        return " of ".join(parts) or "the tenant"

    @property
    def hold_ms_max(self) -> float:
        """A batch is delayed at most so long at the rate there is."""
        return min(HOLD_MS_MAX, DELAYED_OF_TOPIC_MAX * 1000 / self.bytes_per_s) if self.topic else HOLD_MS_MAX

    def change(self, bytes_per_s: int, now_ms: float) -> None:
        """Another rate from now on: what is still to pass then takes another time."""
        invariant(bytes_per_s >= 1, "a pace lets something through")
        if bytes_per_s != self.bytes_per_s:
            self._go_on(now_ms)
            self.bytes_per_s = bytes_per_s
            self._burst = max(bytes_per_s * self._burst_ms / 1000, self._stored_max)
            self._go_on(now_ms)

    def allow_burst(self, burst_ms: int, stored_max: int, now_ms: float) -> None:
        """From now on what was not used may be made up: so many ms of the rate there is, and at least so much in all,
        which the rate fills while nothing is let in."""
        if (burst_ms, stored_max) != (self._burst_ms, self._stored_max):
            self._go_on(now_ms)
            self._burst_ms = burst_ms
            self._stored_max = stored_max
            self._burst = max(self.bytes_per_s * burst_ms / 1000, stored_max)
            self._go_on(now_ms)

    def is_filling(self, now_ms: float) -> bool:
        """Whether less is stored than may be made up at once."""
        self._go_on(now_ms)
        return self._passed < self.let_in + self._stored_max and self._stored_max > 0

    def hope(self, bytes_per_s: int, until_ms: float) -> None:
        """Until then refuse only what would be refused at this rate: the own one is about to be another one."""
        self._hoped_bytes_per_s = bytes_per_s
        self._hopes_until_ms = until_ms

    def clears_in_ms(self, now_ms: float) -> float:
        """Until everything let in has passed; 0 = it has."""
        return self.wait_ms(self.let_in, now_ms)

    def wait_ms(self, position: int, now_ms: float) -> float:
        """Until it is the turn of the batch at `position`, at the rate there is; 0 = it is."""
        self._go_on(now_ms)
        return max(0.0, (position - self._passed) * 1000 / self.bytes_per_s)

    def enter(self, size: int, now_ms: float, *, may_refuse: bool = True) -> float | None:
        """Let a batch in and answer how many ms to delay it (0 = it passes now), or None: refused."""
        if may_refuse and self.refuses(now_ms):
            return None
        if self._judged_ms(now_ms) <= self.hold_ms_max / 2:
            self._full = False
        wait_ms = self.clears_in_ms(now_ms)
        self.let_in += size
        return wait_ms

    def refuses(self, now_ms: float) -> bool:
        """Whether a batch that comes now is refused, which then counts as refused."""
        if self._judged_ms(now_ms) <= self.hold_ms_max / (2 if self._full else 1):
            return False
        self._full = True
        self.refused += 1
        return True

    def take(self, size: int, now_ms: float) -> bool:
        """Let in what passes now; False: nothing is let in, for it would have to wait."""
        self._go_on(now_ms)
        if self._passed < self.let_in:
            return False
        self.let_in += size
        return True

    def correct(self, entered: int, size: int) -> None:
        """Of what was let in as `entered` bytes there are `size`."""
        self.let_in += size - entered

    def withdraw(self, position: int, size: int, now_ms: float) -> None:
        """The batch that was let in at `position` never begins: if its turn has not come, what is behind it does not
        wait for it. What is before it may pass earlier by as much, and no more passes in all."""
        if self.wait_ms(position, now_ms) > 0:
            self._passed += size
            self._go_on(now_ms)

    def refuses_for_ms(self, now_ms: float) -> int:
        """Until a refused producer finds capacity again, if the rate stays as it is."""
        hoping_ms = _HOPE_MS if now_ms < self._hopes_until_ms else 0
        return max(1, int(self._judged_ms(now_ms) - self.hold_ms_max / 2) + 1 + hoping_ms)

    def come_back_in_ms(self, now_ms: float) -> int:
        """When a refused producer may come back: the same, COME_BACK_MS_MAX at most."""
        return min(COME_BACK_MS_MAX, self.refuses_for_ms(now_ms))

    def judged_wait_ms(self, more: int, now_ms: float) -> float:
        """Until all that was let in and so much more have passed, at the rate that is hoped for if that is higher."""
        wait_ms = self.wait_ms(self.let_in + more, now_ms)
        if now_ms < self._hopes_until_ms and self._hoped_bytes_per_s > self.bytes_per_s:
            return wait_ms * self.bytes_per_s / self._hoped_bytes_per_s
        return wait_ms

    def _judged_ms(self, now_ms: float) -> float:
        return self.judged_wait_ms(self.coming, now_ms)

    def _go_on(self, now_ms: float) -> None:
        if now_ms > self._at_ms:
            if self._at_ms != float("-inf"):
                self._passed += (now_ms - self._at_ms) * self.bytes_per_s / 1000
            self._at_ms = now_ms
        self._passed = min(self._passed, self.let_in + self._burst)


def part_led(image: ClusterImage, broker: BrokerId, tenant: TenantId, topic: str = "") -> tuple[int, int]:
    """(partitions of the tenant, or of that topic of it, that the broker leads, that any broker leads)."""
    mine = led = 0
    for record in _partitions(image, tenant, topic):
        led += record.leader != NO_BROKER
        mine += record.leader == broker
    return mine, led


def part_copied(image: ClusterImage, broker: BrokerId, tenant: TenantId, topic: str = "") -> tuple[int, int]:
    """(replicas of the tenant's partitions, or of that topic's, on the broker, on all brokers): consumers read from
    followers as well."""
    mine = copies = 0
    for record in _partitions(image, tenant, topic):
        copies += len(record.replicas)
        mine += broker in record.replicas
    return mine, copies


def _partitions(image: ClusterImage, tenant: TenantId, topic: str) -> Iterator[PartitionRecord]:
    names = image.names_of.get(tenant, {})
    for topic_id in names.values() if not topic else [names[topic]] if topic in names else ():
        for block in image.blocks.get(topic_id, {}).values():
            yield from block.partitions.values()
