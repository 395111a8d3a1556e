"""The paces of all tenants with a rate on one broker: demand is measured, and shares of the rate come back.

A limit has a pace of its own: one of what a tenant produces, one of what it consumes, one of its requests. What a pace
counts is bytes, or thousandths of a request: a broker's floor may be less than one a second.
"""

from collections.abc import Callable
from dataclasses import dataclass

from data_plane.leases.holder import LeaseHolder
from data_plane.leases.terms import LimitKey
from data_plane.metadata.features import LEASES
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import TenantQuotas
from data_plane.throttling.pacing import BURST_MS, Pace, part_copied, part_led
from penstock.contract.ids import BrokerId, TenantId
from penstock.contract.limits import CONSUME_BYTES_PER_S_MAX, PRODUCE_BYTES_PER_S_MAX, REQUESTS_PER_S_MAX
from penstock.rules.budgets import SLOW, Budget
from penstock.rules.principal_limits import PrincipalLimits

PRODUCE_RATE, CONSUME_RATE, REQUEST_RATE = "produce_bytes_per_s", "consume_bytes_per_s", "requests_per_s"
REQUEST_UNITS = 1_000
"""What one request counts in a pace and in leases."""
SHARE_CHECK_MS = 1_000
"""Between looks at which brokers have a tenant's partitions."""
FLOOR = 25
"""All brokers together may use one part in so many of a limit without asking, unless the tenant has another floor: of a
produce rate in proportion to what each leads, of a consume rate to the replicas that each has, of requests evenly."""
_REFILLS = 1
"""What is wanted to store a burst: next to nothing, so that it is filled from what no broker uses."""
IDLE_MS = 2_000
"""A pace that was not used for so long is looked at no more, and its lease is given up."""
FORGET_MS = 60_000
"""A pace that was not used for so long is forgotten; between looks for such."""
_HEADROOM, _MORE = 20, 4
"""One part in so many is wanted above what is used: while it suffices, and while something is delayed."""
_HOPE_MS = 1_000
"""While the first lease is awaited, batches are refused only as if it brought all of the rate; for so long at most."""
_DELAYED_MS, _BACKLOG_MS = 100.0, 500.0
"""With more delayed than the first a pace wants somewhat more, one large batch may be all of it. With more than the
second it could use all there is."""
_WAITING, _WAITING_OFTEN = 0.25, 0.5
"""The same for who waits until the pace is clear: the part of the time in which some one did."""
_LIFTED_PER_S = max(PRODUCE_BYTES_PER_S_MAX, CONSUME_BYTES_PER_S_MAX, REQUESTS_PER_S_MAX * REQUEST_UNITS)
_SMOOTHING = 0.3
"""The part of the last measurement in the mean: a second or so of bursts counts."""


@dataclass(slots=True)
class _Paced:
    pace: Pace
    key: LimitKey
    rate: int
    """The tenant's, over all brokers."""
    floor: int
    safe: int
    revision: int
    looked_ms: float
    valid_until_ms: float
    """When the share changes by itself."""
    used_ms: float
    measured_ms: float
    let_in: int
    """When it was measured last."""
    refused: int
    waited_ms: float = 0.0
    """In its line, when it was measured last."""
    per_s: float = 0.0
    """Bytes let in, smoothed."""
    active: bool = False


class Pacing:
    """By the image and the leases of this broker. `begun` says that a pace is used which was not looked at before."""

    def __init__(
        self,
        image: ClusterImage,
        broker: BrokerId,
        holder: LeaseHolder,
        slowed: Callable[[LimitKey], int],
    ) -> None:
        """`slowed`: the rate that budgets leave a limit now, 0 = they leave it as it is."""
        self._slowed = slowed
        self._image = image
        self._broker = broker
        self._holder = holder
        self._paces: dict[LimitKey, _Paced] = {}
        self._active: dict[LimitKey, None] = {}
        self.begun = False
        self._looked_ms = float("-inf")

    def __len__(self) -> int:
        """Paces that are known."""
        return len(self._paces)

    @property
    def is_active(self) -> bool:
        """Whether some pace is to be looked at."""
        return bool(self._active)

    def of(self, key: LimitKey, now_ms: float) -> Pace | None:
        """The pace of the limit, None = no limit."""
        rate = self.limit(key)
        if rate == 0:
            gone = self._paces.pop(key, None) if self._paces else None
            if gone is not None:
                self._active.pop(key, None)
                # What is still delayed goes at once.
                gone.pace.change(_LIFTED_PER_S, now_ms)
                gone.pace.line.wake_first()
            return None
        paced = self._paces.get(key)
        if paced is None:
            self.forget(now_ms)
            paced = self._paces[key] = _Paced(
                Pace(1), key, rate, 0, 0, -1, now_ms, now_ms, now_ms, now_ms, 0, 0
            )
            self._look(paced, rate, now_ms)
            # A new pace begins with the burst of its own rate.
            paced.pace = Pace(self._share(paced, now_ms), *self._burst(paced))
            paced.pace.principal, paced.pace.topic = key.principal, key.topic
            paced.pace.limit_per_s = rate
        elif paced.rate != rate or (
            paced.revision != self._image.revision and now_ms - paced.looked_ms >= SHARE_CHECK_MS
        ):
            self._look(paced, rate, now_ms)
            self._set_rate(paced, now_ms)
        elif now_ms >= paced.valid_until_ms:
            self._set_rate(paced, now_ms)
        if not paced.active:
            self._begin(paced, now_ms)
        return paced.pace

    def wants(self, now_ms: float) -> dict[LimitKey, int]:
        """What this broker could use of each limit, as measured since it was asked last. Forgets what is idle."""
        wanted: dict[LimitKey, int] = {}
        for key in list(self._active):
            if self.of(key, now_ms) is None:
                continue  # the limit was lifted; what it delayed goes, though no more may come
            paced = self._paces[key]
            amount = self._wanted(paced, now_ms)
            if amount:
                wanted[key] = amount
            elif now_ms - paced.used_ms > IDLE_MS:
                paced.active = False
                del self._active[key]
        return wanted

    def forget(self, now_ms: float) -> None:
        """Paces of tenants that are gone or have no rate any more, and of those that were not used for FORGET_MS: a
        pace that begins newly is as one that had nothing to pass for so long. None that someone waits for.
        """
        if now_ms - self._looked_ms < FORGET_MS:
            return
        self._looked_ms = now_ms
        for key, paced in list(self._paces.items()):
            pace = paced.pace
            if paced.active or len(pace.line) or pace.clears_in_ms(now_ms) or pace.is_filling(now_ms):
                continue
            idle = self.limits_are_leased and now_ms - paced.used_ms > FORGET_MS
            if idle or self.limit(key) == 0:
                del self._paces[key]

    def take_shares(self, now_ms: float) -> None:
        """Leases have changed: every pace that is used goes at its share."""
        for key in self._active:
            paced = self._paces[key]
            self._set_rate(paced, now_ms)
            if not self._holder.is_awaited(paced.key, now_ms):
                paced.pace.hope(0, now_ms)

    def safe_share(self, broker: BrokerId, key: LimitKey) -> int:
        """A broker's part of a limit by what it leads, or has replicas of."""
        mine, of_all = self._part(broker, key)
        return self.limit(key) * mine // max(1, of_all)

    def limit(self, key: LimitKey) -> int:
        """0 = there is none. That of a principal or a topic is never above its tenant's, so that no lease of it is
        either."""
        known = self._image.tenants.get(key.tenant)
        if known is None:
            return 0
        rate = _rate(known.quotas, key.name)
        may_slow = bool(known.budgets) and key.name != REQUEST_RATE
        if may_slow:
            rate = _lower(rate, self._slowed(LimitKey(key.tenant, key.name)))
        if not (key.principal or key.topic):
            return rate
        limits = None if key.topic else known.limits_of(key.principal)
        own = 0 if limits is None else _rate(limits, key.name)
        if may_slow:
            own = _lower(own, self._slowed(key))
        return min(own, rate) if own and rate else own

    def own_limit(self, tenant: TenantId, key_id: str, name: str) -> LimitKey | None:
        """The limit of that name of the principal whose key it is; None = it has only the tenant's. Cheap where no
        principal of the tenant has limits or budgets: called with every frame."""
        known = self._image.tenants.get(tenant)
        if known is None or not (known.principals or known.budgets):
            return None
        record = self._image.keys.get(key_id)
        if record is None:
            return None
        if known.limits_of(record.owner) is None and not (
            record.owner
            and any(
                slows(one, name) and one.principal == record.owner and not one.topic for one in known.budgets
            )
        ):
            return None
        return LimitKey(tenant, name, record.owner)

    def topic_limits(self, tenant: TenantId, key_id: str, name: str, topic: str) -> list[LimitKey]:
        """Those of that name which budgets may set on the topic for the principal whose key it is: of all who use the
        topic, and of the principal there."""
        known = self._image.tenants.get(tenant)
        found: dict[LimitKey, None] = {}
        for budget in () if known is None else known.budgets:
            if budget.topic == topic and slows(budget, name):
                record = self._image.keys.get(key_id)
                if not budget.principal or (record is not None and record.owner == budget.principal):
                    found[LimitKey(tenant, name, budget.principal, topic)] = None
        return list(found)

    @property
    def limits_are_leased(self) -> bool:
        """Whether all brokers of the cluster can lease parts of a limit; else each enforces its safe share."""
        return self._image.level >= LEASES

    def _begin(self, paced: _Paced, now_ms: float) -> None:
        """It was idle: what it wants is to be asked for at once."""
        if not self.limits_are_leased:
            return
        paced.active, self.begun = True, True
        paced.used_ms = paced.measured_ms = now_ms
        paced.let_in, paced.refused, paced.per_s = paced.pace.let_in, paced.pace.refused, 0.0
        paced.waited_ms = paced.pace.line.waited_ms(now_ms)
        self._set_rate(paced, now_ms)
        if self._holder.is_awaited(paced.key, now_ms):
            paced.pace.hope(paced.rate, now_ms + _HOPE_MS)
        self._active[paced.key] = None

    def _wanted(self, paced: _Paced, now_ms: float) -> int:
        pace = paced.pace
        passed_ms = now_ms - paced.measured_ms
        used = pace.let_in - paced.let_in
        if used:
            paced.used_ms = now_ms
        waiting = 0.0
        if passed_ms > 0:
            waited_ms = pace.line.waited_ms(now_ms)
            waiting = (waited_ms - paced.waited_ms) / passed_ms
            paced.waited_ms = waited_ms
            paced.per_s += (used * 1000 / passed_ms - paced.per_s) * _SMOOTHING
            paced.measured_ms, paced.let_in = now_ms, pace.let_in
        delayed_ms = pace.clears_in_ms(now_ms)
        is_short = pace.refused != paced.refused or delayed_ms > _BACKLOG_MS or waiting > _WAITING_OFTEN
        paced.refused = pace.refused
        if is_short:
            paced.used_ms = now_ms
            return paced.rate
        is_delayed = delayed_ms > _DELAYED_MS or waiting > _WAITING
        if paced.per_s <= paced.floor / 2 and not is_delayed:
            return _REFILLS if pace.is_filling(now_ms) else 0
        more = _MORE if is_delayed else _HEADROOM
        return min(paced.rate, int(max(paced.per_s, paced.floor) * (more + 1) / more) + 1)

    def _look(self, paced: _Paced, rate: int, now_ms: float) -> None:
        mine, of_all = self._part(self._broker, paced.key)
        paced.rate, paced.revision, paced.looked_ms = rate, self._image.revision, now_ms
        paced.safe = rate * max(1, mine) // max(1, of_all)
        percent = self._image.quotas_of(paced.key.tenant).rate_floor_percent
        paced.floor = paced.safe * percent // 100 if percent else paced.safe // FLOOR
        paced.pace.allow_burst(*self._burst(paced), now_ms)
        paced.pace.limit_per_s = rate

    def _burst(self, paced: _Paced) -> tuple[int, int]:
        """As `Pace.allow_burst` takes it. More than is usual is stored in the broker's safe part alone: then all
        brokers together store the burst once, though each may have filled it while it had all of the rate."""
        burst_ms = self._image.quotas_of(paced.key.tenant).rate_burst_ms or BURST_MS
        return min(burst_ms, BURST_MS), paced.safe * burst_ms // 1000 if burst_ms > BURST_MS else 0

    def _part(self, broker: BrokerId, key: LimitKey) -> tuple[int, int]:
        if key.name == REQUEST_RATE:
            registered = [one for one in self._image.brokers if self._image.epoch_of(one)]
            return int(broker in registered), len(registered)
        part = part_copied if key.name == CONSUME_RATE else part_led
        return part(self._image, broker, key.tenant, key.topic)

    def _share(self, paced: _Paced, now_ms: float) -> int:
        if not self.limits_are_leased:
            paced.valid_until_ms = float("inf")
            return max(1, paced.safe)
        share = self._holder.share(paced.key, floor=paced.floor, safe=paced.safe, now_ms=now_ms)
        paced.valid_until_ms = share.until_ms
        return max(1, min(paced.rate, share.amount))

    def _set_rate(self, paced: _Paced, now_ms: float) -> None:
        pace, before = paced.pace, paced.pace.bytes_per_s
        pace.change(self._share(paced, now_ms), now_ms)
        if pace.bytes_per_s > before:
            pace.line.wake_first()


def _rate(quotas: TenantQuotas | PrincipalLimits, name: str) -> int:
    """0 = there is none of that name, or no limit."""
    if name == PRODUCE_RATE:
        return quotas.produce_bytes_per_s
    if name == REQUEST_RATE:
        return quotas.requests_per_s * REQUEST_UNITS
    return quotas.consume_bytes_per_s if name == CONSUME_RATE else 0


def slows(budget: Budget, name: str) -> bool:
    """Whether at its full amount the budget slows what a limit of that name bounds: what is produced, and what is read
    where that counts."""
    return budget.policy == SLOW and (name == PRODUCE_RATE or (name == CONSUME_RATE and budget.counts_reads))


def _lower(rate: int, slowed: int) -> int:
    """The lower of two rates of which 0 is none."""
    return min(rate or slowed, slowed) if slowed else rate
